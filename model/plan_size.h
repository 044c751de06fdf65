/* A number of bytes for people: "1.50 GiB" and the like. */
#ifndef LF_MODEL_PLAN_SIZE_H
#define LF_MODEL_PLAN_SIZE_H

#include <stdint.h>

struct lf_size_text {
    char text[24];
};

struct lf_size_text lf_plan_size(uint64_t bytes);

#endif
