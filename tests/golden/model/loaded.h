/* The weights of a model directory, as they lie on a CPU. */
#ifndef LF_TESTS_GOLDEN_MODEL_LOADED_H
#define LF_TESTS_GOLDEN_MODEL_LOADED_H

#include "model/programs.h"
#include "model/weights.h"
#include "tests/support/plain_kernels.h"
#include "tests/support/test.h"

struct model {
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_programs programs;
    struct lf_tensor_set set;
    struct lf_weight_layout *layout;
    struct lf_weights weights;
};

/* split NULL: all of it. expands: the device has kernels for plain matrices alone. */
static inline void open_model(struct model *m, const char *dir, const struct lf_split *split, bool expands)
{
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 2, .max_isa = -1};
    struct lf_model_opts load = {.dir = dir};
    *m = (struct model){0};
    assert_int_equal(lf_device_open(&m->dev, &opts, &err), LF_OK);
    if (expands) only_plain(m->dev);
    if (lf_hparams_read(&m->hp, dir, &err) != LF_OK) fail_msg("%s", err.message);
    if (split) m->hp.split = *split;
    assert_int_equal(lf_tensor_set_open(&m->set, dir, &err), LF_OK);
    assert_int_equal(lf_programs_make(&m->programs, &m->hp, lf_device_ops(m->dev), false, &err), LF_OK);
    if (lf_weight_layout_make(&m->layout, &m->hp, &m->programs.recorded, &m->set, LF_CODE_NONE, m->dev, &err) != LF_OK)
        fail_msg("%s: %s", dir, err.message);
    if (lf_weights_load(&m->weights, m->dev, m->layout, &load, &err) != LF_OK) fail_msg("%s: %s", dir, err.message);
}

static inline void close_model(struct model *m)
{
    lf_weights_unload(&m->weights, m->dev);
    lf_weight_layout_free(m->layout);
    lf_tensor_set_close(&m->set);
    lf_programs_deinit(&m->programs);
    lf_hparams_deinit(&m->hp);
    lf_device_close(m->dev);
}

#endif
