/* The demo model of an installed program. */
#ifndef LF_SERVER_DEMO_MODEL_H
#define LF_SERVER_DEMO_MODEL_H

struct lf_config;

#define LF_DEMO_MODEL "demo/model"

/* LF_DEMO_MODEL, the default of --model, is a folder of the source tree. Where there is none of that name, it is the
 * one that was installed with the program: ../share/longflash/demo/model, seen from the program's own folder, if that
 * is there. Everything else stays as it was asked for. */
void lf_demo_model_find(struct lf_config *config);

#endif
