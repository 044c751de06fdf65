/* A sequence whose steps have tokens of another one in them: what no bit may depend on. */
#ifndef LF_TESTS_GOLDEN_MODEL_COMPANY_H
#define LF_TESTS_GOLDEN_MODEL_COMPANY_H

#include "core/check.h"
#include "tests/support/expected.h"
#include "tests/support/model_rig.h"
#include "tests/support/test.h"

enum { CHUNK = 33 };

/* The tables of a sequence of two blocks in each group: of each four blocks of the cache, two. */
static inline void fill_tables(struct model_rig *rig, int32_t *tables, const int32_t *of_group)
{
    rig->table_stride = 2;
    assert_true(4 * rig->kv.n_groups <= rig->plan.n_blocks);
    for (int i = 0; i < 2 * rig->kv.n_groups; i++) tables[i] = i / 2 * 4 + of_group[i % 2];
}

/* Rows of e's tokens, whose sequence shares its steps with another one that runs through the same ids backwards: the
 * steps have tokens of both, of one of them first one and then the other. */
static inline void run_beside_another(struct model_rig *rig, const struct expected *e, int n_at_once, float *logits)
{
    static const int32_t of_group[2][2] = {{0, 3}, {2, 1}};
    int32_t blocks[2][2 * LF_KV_GROUPS_N];
    for (int i = 0; i < 2; i++) fill_tables(rig, blocks[i], of_group[i]);
    int done = 0, other_done = 0;
    while (done < e->n_ids) {
        int n = LF_MIN(n_at_once, e->n_ids - done), n_other = LF_MIN(1 + done % 3, e->n_ids - other_done);
        bool is_first = done % 2 == 0;
        int first = is_first ? 0 : n_other;
        int32_t ids[CHUNK], wanted[CHUNK];
        for (int i = 0; i < n; i++) ids[first + i] = e->ids[done + i];
        for (int i = 0; i < n; i++) wanted[i] = first + i;
        for (int i = 0; i < n_other; i++) ids[(is_first ? n : 0) + i] = e->ids[e->n_ids - 1 - other_done - i];
        struct lf_kv_seq own = {
            .blocks = blocks[0], .table_stride = 2, .first_token = first, .n_tokens = n, .kv_len = done + n};
        struct lf_kv_seq other = {.blocks = blocks[1],
                                  .table_stride = 2,
                                  .first_token = is_first ? n : 0,
                                  .n_tokens = n_other,
                                  .kv_len = other_done + n_other};
        if (!n_other) own.first_token = 0;
        struct lf_kv_seq seqs[2] = {is_first || !n_other ? own : other, is_first ? other : own};
        struct lf_state_seq states[2] = {model_rig_state(&seqs[0], is_first || !n_other ? 0 : 1),
                                         model_rig_state(&seqs[1], is_first ? 1 : 0)};
        struct lf_batch batch = {.ids = ids,
                                 .n_tokens = n + n_other,
                                 .seqs = seqs,
                                 .n_seqs = n_other ? 2 : 1,
                                 .states = rig->kv.states.n_layers > 0 ? states : NULL,
                                 .logits_idx = wanted,
                                 .n_out = n};
        for (int i = 0; i < n && !n_other; i++) wanted[i] = i;
        assert_int_equal(lf_model_step(rig->model, &rig->kv, &batch, logits + (size_t)done * (size_t)e->n_vocab, NULL),
                         LF_OK);
        done += n;
        other_done += n_other;
    }
}

#endif
