#include "tests/accuracy/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"

#define MAGIC 0x3143434146l /* of this layout */

struct file_head {
    int64_t magic;
    int32_t n_vocab, top;
};
struct section_head {
    int64_t n_ids;
    uint64_t hash;
};
struct row_head {
    int32_t best;
    float log_rest; /* log of the sum of all that are no entry; -INFINITY where there are none */
};

/* ---- the file ---- */

static enum lf_status put(struct reference *ref, const void *bytes, size_t n, struct lf_err *err)
{
    if (fwrite(bytes, 1, n, ref->file) == n) return LF_OK;
    return lf_fail(err, LF_IO, "%s cannot be written", ref->path);
}

static enum lf_status get(struct reference *ref, void *bytes, size_t n, struct lf_err *err)
{
    if (fread(bytes, 1, n, ref->file) == n) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "%s ends early: it was recorded for fewer texts, or was cut", ref->path);
}

static enum lf_status make_room(struct reference *ref, struct lf_err *err)
{
    ref->entries = calloc((size_t)ref->top, sizeof(*ref->entries));
    ref->is_entry = calloc((size_t)ref->n_vocab, sizeof(*ref->is_entry));
    return ref->entries && ref->is_entry ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for a row");
}

enum lf_status reference_create(struct reference *ref, const char *path, int n_vocab, int top, struct lf_err *err)
{
    *ref = (struct reference){.path = path, .n_vocab = n_vocab, .top = LF_MIN(top, n_vocab)};
    struct file_head head = {.magic = MAGIC, .n_vocab = n_vocab, .top = ref->top};
    ref->file = fopen(path, "wb");
    if (!ref->file) return lf_fail(err, LF_IO, "%s cannot be created", path);
    LF_TRY(make_room(ref, err));
    return put(ref, &head, sizeof(head), err);
}

enum lf_status reference_open(struct reference *ref, const char *path, int n_vocab, struct lf_err *err)
{
    struct file_head head = {0};
    *ref = (struct reference){.path = path, .compares = true, .n_vocab = n_vocab};
    ref->file = fopen(path, "rb");
    if (!ref->file) return lf_fail(err, LF_IO, "%s cannot be opened", path);
    LF_TRY(get(ref, &head, sizeof(head), err));
    if (head.magic != MAGIC || head.top < 1 || head.top > head.n_vocab)
        return lf_fail(err, LF_CORRUPT, "%s is no file of distributions", path);
    if (head.n_vocab != n_vocab)
        return lf_fail(err, LF_INVALID, "A has a vocabulary of %d, B of %d: expected the same", head.n_vocab, n_vocab);
    ref->top = head.top;
    return make_room(ref, err);
}

enum lf_status reference_close(struct reference *ref, struct lf_err *err)
{
    bool is_written = !ref->file || (fclose(ref->file) == 0) || ref->compares;
    const char *path = ref->path;
    free(ref->entries);
    free(ref->is_entry);
    memset(ref, 0, sizeof(*ref));
    return is_written ? LF_OK : lf_fail(err, LF_IO, "%s cannot be written", path);
}

/* FNV-1a, 64 bits, of the ids. */
static uint64_t hash_of(const int32_t *ids, int n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < n; i++) hash = (hash ^ (uint32_t)ids[i]) * 0x100000001b3u;
    return hash;
}

enum lf_status reference_begin(struct reference *ref, const int32_t *ids, int n, struct lf_err *err)
{
    struct section_head mine = {.n_ids = n, .hash = hash_of(ids, n)}, theirs;
    if (!ref->compares) return put(ref, &mine, sizeof(mine), err);
    LF_TRY(get(ref, &theirs, sizeof(theirs), err));
    if (theirs.n_ids == mine.n_ids && theirs.hash == mine.hash) return LF_OK;
    return lf_fail(err, LF_INVALID, "%s was recorded for other tokens: expected the same texts and tokenizer",
                   ref->path);
}

enum lf_status reference_answer(struct reference *ref, struct lf_ids *answer, struct lf_err *err)
{
    int32_t n = (int32_t)answer->n;
    if (!ref->compares) {
        LF_TRY(put(ref, &n, sizeof(n), err));
        return put(ref, answer->ids, answer->n * sizeof(*answer->ids), err);
    }
    LF_TRY(get(ref, &n, sizeof(n), err));
    answer->n = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = 0;
        LF_TRY(get(ref, &id, sizeof(id), err));
        if (id < 0 || id >= ref->n_vocab) return lf_fail(err, LF_CORRUPT, "%s has an id of %d", ref->path, id);
        LF_TRY(lf_ids_push(answer, id));
    }
    return LF_OK;
}

/* ---- distributions ---- */

struct row {
    const float *logits;
    int n, best;
    double log_sum; /* log Σ e^logit */
};

static struct row row_of(const float *logits, int n)
{
    struct row row = {.logits = logits, .n = n};
    double sum = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[row.best]) row.best = i;
    double most = (double)logits[row.best];
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    row.log_sum = most + log(sum);
    return row;
}

/* A float: what A wrote and what B computes are rounded alike, so equal rows differ by 0. */
static float log_p(const struct row *row, int id)
{
    return (float)((double)row->logits[id] - row->log_sum);
}

/* Log of the sum of all that are no entry. */
static float log_rest(const struct reference *ref, const struct row *row)
{
    double sum = 0;
    for (int i = 0; i < row->n; i++)
        if (!ref->is_entry[i]) sum += exp((double)row->logits[i] - row->log_sum);
    return (float)log(sum);
}

static void mark_entries(struct reference *ref, bool are_entries)
{
    for (int i = 0; i < ref->top; i++) ref->is_entry[ref->entries[i].id] = are_entries;
}

static void sift_down(struct reference_entry *heap, int n, int at)
{
    for (int child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1].log_p < heap[child].log_p) child++;
        if (heap[at].log_p <= heap[child].log_p) return;
        struct reference_entry swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* The largest of the row: a heap whose root is the least of those found so far. */
static void find_entries(struct reference *ref, const struct row *row)
{
    for (int i = 0; i < ref->top; i++) ref->entries[i] = (struct reference_entry){i, log_p(row, i)};
    if (ref->top == row->n) return;
    for (int i = ref->top / 2; i >= 0; i--) sift_down(ref->entries, ref->top, i);
    for (int i = ref->top; i < row->n; i++) {
        float p = log_p(row, i);
        if (p <= ref->entries[0].log_p) continue;
        ref->entries[0] = (struct reference_entry){i, p};
        sift_down(ref->entries, ref->top, 0);
    }
}

static enum lf_status write_row(struct reference *ref, const struct row *row, struct lf_err *err)
{
    find_entries(ref, row);
    mark_entries(ref, true);
    struct row_head head = {.best = row->best, .log_rest = log_rest(ref, row)};
    mark_entries(ref, false);
    LF_TRY(put(ref, &head, sizeof(head), err));
    return put(ref, ref->entries, (size_t)ref->top * sizeof(*ref->entries), err);
}

static enum lf_status read_row(struct reference *ref, struct row_head *head, struct lf_err *err)
{
    LF_TRY(get(ref, head, sizeof(*head), err));
    LF_TRY(get(ref, ref->entries, (size_t)ref->top * sizeof(*ref->entries), err));
    for (int i = 0; i < ref->top; i++)
        if (ref->entries[i].id < 0 || ref->entries[i].id >= ref->n_vocab)
            return lf_fail(err, LF_CORRUPT, "%s has an id of %d", ref->path, ref->entries[i].id);
    return LF_OK;
}

/* p · (log p - log q); nothing where p is 0. */
static double term(float log_p, float log_q)
{
    return log_p == -INFINITY ? 0 : exp((double)log_p) * ((double)log_p - (double)log_q);
}

static double divergence(struct reference *ref, const struct row_head *head, const struct row *row)
{
    double kl = 0;
    for (int i = 0; i < ref->top; i++) kl += term(ref->entries[i].log_p, log_p(row, ref->entries[i].id));
    mark_entries(ref, true);
    if (ref->top < row->n) kl += term(head->log_rest, log_rest(ref, row));
    mark_entries(ref, false);
    return kl;
}

enum lf_status reference_row(struct reference *ref, const float *logits, int32_t next, struct row_cost *cost,
                             struct lf_err *err)
{
    struct row row = row_of(logits, ref->n_vocab);
    *cost = (struct row_cost){.same_top = true, .nll = row.log_sum - (double)logits[next]};
    if (!isfinite(cost->nll)) return lf_fail(err, LF_DEVICE, "a row of logits is not finite");
    if (!ref->compares) return write_row(ref, &row, err);
    struct row_head head;
    LF_TRY(read_row(ref, &head, err));
    cost->kl = divergence(ref, &head, &row);
    cost->same_top = head.best == row.best;
    return isfinite(cost->kl) ? LF_OK : lf_fail(err, LF_CORRUPT, "%s has a row that is not finite", ref->path);
}
