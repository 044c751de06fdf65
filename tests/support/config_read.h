/* What hparams.c makes of a configuration (config_text.h). */
#ifndef LF_TESTS_CONFIG_READ_H
#define LF_TESTS_CONFIG_READ_H

#include "model/hparams.h"
#include "tests/support/config_text.h"

static inline enum lf_status read_config(const struct config_text *c, struct lf_hparams *hp, struct lf_err *err)
{
    struct temp_dir d = temp_dir_make();
    config_write(c, &d);
    enum lf_status status = lf_hparams_read(hp, d.path, err);
    temp_dir_remove(&d);
    return status;
}

/* The hyperparameters of a good configuration with up to two keys changed. The caller deinits. */
static inline struct lf_hparams good(struct config_text c, const char *k1, const char *v1, const char *k2,
                                     const char *v2)
{
    struct lf_hparams hp;
    struct lf_err err;
    if (k1) config_set(&c, k1, v1);
    if (k2) config_set(&c, k2, v2);
    if (read_config(&c, &hp, &err) != LF_OK) fail_msg("%s", err.message);
    return hp;
}

/* With one key changed it is refused, and the message has these words. */
static inline void check_refused(struct config_text c, const char *key, const char *value, const char *says)
{
    struct lf_hparams hp;
    struct lf_err err = {0};
    config_set(&c, key, value);
    enum lf_status status = read_config(&c, &hp, &err);
    if (status != LF_UNSUPPORTED && status != LF_CORRUPT) fail_msg("%s: %s", key, lf_status_name(status));
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
}

#endif
