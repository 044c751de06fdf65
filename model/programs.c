#include "model/programs.h"

#include "core/check.h"
#include "model/arch/arch.h"
#include "model/recorder.h"

static enum lf_status shard(struct lf_program *p, const struct lf_hparams *hp, struct lf_err *err)
{
    LF_TRY(lf_pass_shard(p, &hp->split, hp->architecture, err));
    return lf_pass_check(p, p->slots, p->n_slots, err);
}

enum lf_status lf_program_record(struct lf_program *out, const struct lf_hparams *hp, struct lf_err *err)
{
    struct lf_recorder recorder;
    lf_recorder_begin(&recorder, hp);
    hp->arch->record(&recorder);
    LF_TRY(lf_recorder_end(&recorder, out, err));
    enum lf_status status = lf_pass_check(out, out->slots, out->n_slots, err);
    if (status == LF_OK && lf_split_n_ranks(&hp->split) > 1) status = shard(out, hp, err);
    if (status != LF_OK) lf_program_deinit(out);
    return status;
}

static enum lf_status check_device(const struct lf_program *p, const struct lf_hparams *hp, const struct lf_ops *ops,
                                   struct lf_err *err)
{
    const char *missing = NULL;
    for (int i = 0; i < p->n_ops && !missing; i++) {
        if (p->ops[i].kind == LF_OP_ROUTE && !ops->route) missing = "experts";
        if (p->ops[i].kind == LF_OP_DELTA && !ops->delta) missing = "gated delta nets";
    }
    if (!missing) return LF_OK;
    return lf_fail(err, LF_UNSUPPORTED, "%s has %s, which are not implemented on this device (--device cpu has them)",
                   hp->architecture, missing);
}

static enum lf_status derive(struct lf_programs *p, enum lf_wanted wanted, const struct lf_hparams *hp,
                             const struct lf_ops *ops, bool no_fusion, struct lf_err *err)
{
    struct lf_program *program = &p->of[wanted];
    LF_TRY(lf_program_copy(program, &p->recorded, err));
    LF_TRY(lf_pass_rows(program, wanted, err));
    if (lf_split_n_cp(&hp->split) > 1)
        LF_TRY(lf_pass_context(program, &hp->split, lf_split_n_heads(hp->n_heads, &hp->split), err));
    struct lf_fuse_opts opts = {.norms = ops->fused_norm_tokens != NULL, .codes = ops->quantizes_x != NULL};
    if (!no_fusion) LF_TRY(lf_pass_fuse(program, opts, err));
    return lf_pass_check(program, p->recorded.slots, p->recorded.n_slots, err);
}

enum lf_status lf_programs_make(struct lf_programs *out, const struct lf_hparams *hp, const struct lf_ops *ops,
                                bool no_fusion, struct lf_err *err)
{
    struct lf_programs p = {0};
    enum lf_status status = lf_program_record(&p.recorded, hp, err);
    if (status == LF_OK) status = check_device(&p.recorded, hp, ops, err);
    for (int i = 0; i < LF_WANTED_N && status == LF_OK; i++)
        status = derive(&p, (enum lf_wanted)i, hp, ops, no_fusion, err);
    if (status == LF_OK)
        *out = p;
    else
        lf_programs_deinit(&p);
    return status;
}

void lf_programs_deinit(struct lf_programs *programs)
{
    lf_program_deinit(&programs->recorded);
    for (int i = 0; i < LF_WANTED_N; i++) lf_program_deinit(&programs->of[i]);
}
