#include "device/delta.h"

#include "core/check.h"

/* The chunks of one sequence, from `chunks` on; returns how many. */
static int cut(struct lf_state_chunk *chunks, const struct lf_state_seq *seq, int seq_idx)
{
    int n = 0;
    for (int at = 0; at < seq->n_tokens; n++) {
        int room = LF_DELTA_CHUNK - (seq->position + at) % LF_DELTA_CHUNK;
        int n_tokens = LF_MIN(room, seq->n_tokens - at);
        chunks[n] = (struct lf_state_chunk){.seq = seq_idx, .first_token = seq->first_token + at, .n_tokens = n_tokens};
        at += n_tokens;
    }
    return n;
}

void lf_state_step_make(struct lf_state_step *out, const struct lf_state_arrays *arrays,
                        const struct lf_state_seq *seqs, int n_seqs, const struct lf_state_mark *marks)
{
    int n_chunks = 0, n_long = 0;
    for (int i = 0; i < n_seqs; i++) {
        const struct lf_state_seq *seq = &seqs[i];
        LF_ASSERT(seq->n_tokens >= 0 && seq->position >= 0 && seq->first_token >= 0);
        for (int m = 0; m < seq->n_marks; m++) {
            int n = marks[seq->first_mark + m].n_tokens;
            LF_ASSERT(n > 0 && n <= seq->n_tokens && (seq->position + n) % LF_DELTA_CHUNK == 0);
            LF_ASSERT(m == 0 || marks[seq->first_mark + m - 1].n_tokens < n);
        }
        if (seq->n_tokens <= LF_DELTA_SHORT_TOKENS) continue;
        arrays->long_seqs[n_long] = i;
        arrays->first_chunks[n_long++] = n_chunks;
        n_chunks += cut(arrays->chunks + n_chunks, seq, i);
    }
    arrays->first_chunks[n_long] = n_chunks;
    *out = (struct lf_state_step){.seqs = seqs,
                                  .marks = marks,
                                  .n_seqs = n_seqs,
                                  .chunks = arrays->chunks,
                                  .long_seqs = arrays->long_seqs,
                                  .first_chunks = arrays->first_chunks,
                                  .n_chunks = n_chunks,
                                  .n_long = n_long};
}
