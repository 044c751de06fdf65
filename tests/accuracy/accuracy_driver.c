/* Runs texts and questions through a model, and says what each position costs against another configuration of it.
 *
 *     accuracy_driver OPTIONS record FILE [TOP] < tasks      configuration A: its distributions go into FILE
 *     accuracy_driver OPTIONS compare FILE < tasks           configuration B, against what A wrote
 *
 * OPTIONS are those of `longflash run`: --model, --device, --kv-dtype and so on; --max-tokens bounds answers, --raw
 * asks without the chat template. Tasks are lines of JSON (tasks.h). For each text, and each question of a document, a
 * line of JSON is printed, in order:
 *
 *     {"tokens": 512, "kl": [0.0012, …], "same": [1, …], "nll": [2.31, …]}       a number for each scored position
 *     {"tokens": 1043, "answer": "…", "kl": …, "same": …, "nll": …}              of a question: those of A's answer
 *
 * A and B are scored on the same tokens: of a question on A's greedy answer, as if B had written it. "answer" is the
 * configuration's own greedy answer. Both sides compute scores in steps of the same cut, so where the two
 * configurations are one, all "kl" are 0. The program that runs this, and adds it up, is compare.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "core/log.h"
#include "server/commands.h"
#include "tests/accuracy/reference.h"
#include "tests/accuracy/tasks.h"
#include "tests/accuracy/walk.h"

enum { DEFAULT_TOP = 1024, LINE_BYTES = 64 * 1024 * 1024 };

extern char **environ;

struct run {
    struct lf_config config;
    struct lf_runtime rt;
    struct task_list tasks;
    struct reference ref;
    struct walk walk;
};

/* Blocks kept on disk would name it; here are none. */
void lf_program_print(char out[LF_PROGRAM_BYTES])
{
    snprintf(out, LF_PROGRAM_BYTES, "accuracy_driver");
}

/* ---- scores ---- */

struct scores {
    struct reference *ref;
    const int32_t *next; /* [n] the token behind each row */
    struct row_cost *costs;
    int n, first_row;
};

static enum lf_status score_row(void *ctx, int i, const float *logits, struct lf_err *err)
{
    struct scores *s = ctx;
    int at = i - s->first_row;
    return reference_row(s->ref, logits, s->next[at], &s->costs[at], err);
}

static void write_numbers(struct lf_buf *line, const char *name, const struct scores *s,
                          double (*number)(const struct row_cost *))
{
    lf_buf_printf(line, ", \"%s\": [", name);
    for (int i = 0; i < s->n; i++) {
        if (i > 0) lf_buf_cstr(line, ", ");
        lf_json_write_double(line, number(&s->costs[i]));
    }
    lf_buf_char(line, ']');
}

static double kl_of(const struct row_cost *cost)
{
    return cost->kl;
}

static double same_of(const struct row_cost *cost)
{
    return cost->same_top;
}

static double nll_of(const struct row_cost *cost)
{
    return cost->nll;
}

/* answer: its text, or NULL. */
static enum lf_status print_line(int n_tokens, const struct lf_buf *answer, const struct scores *s, struct lf_err *err)
{
    struct lf_buf line;
    lf_buf_init(&line, LINE_BYTES);
    lf_buf_printf(&line, "{\"tokens\": %d", n_tokens);
    if (answer) {
        lf_buf_cstr(&line, ", \"answer\": ");
        lf_json_write_string(&line, lf_buf_view(answer));
    }
    write_numbers(&line, "kl", s, kl_of);
    write_numbers(&line, "same", s, same_of);
    write_numbers(&line, "nll", s, nll_of);
    lf_buf_cstr(&line, "}\n");
    bool is_printed = line.status == LF_OK && fwrite(line.ptr, 1, line.len, stdout) == line.len && fflush(stdout) == 0;
    lf_buf_deinit(&line);
    return is_printed ? LF_OK : lf_fail(err, LF_IO, "a line of results cannot be printed");
}

/* Rows behind the last n_scored of ids[kv_len .. n), whose last token is but the one that comes. */
static enum lf_status score(struct run *r, struct scores *s, const int32_t *ids, int n, int kv_len, enum walk_slot in,
                            struct lf_err *err)
{
    int n_run = n - 1 - kv_len;
    s->ref = &r->ref;
    s->next = ids + n - s->n;
    s->first_row = n_run - s->n;
    s->costs = calloc((size_t)s->n, sizeof(*s->costs));
    if (!s->costs) return lf_fail(err, LF_NO_MEMORY, "no memory for scores");
    return walk_append(&r->walk, ids + kv_len, n_run, kv_len, in, WALK_OWN, s->first_row, score_row, s, err);
}

/* ---- tasks ---- */

static enum lf_status run_text(struct run *r, const struct task *task, struct lf_err *err)
{
    const struct lf_ids *ids = task->prompts;
    struct scores s = {.n = task->n_scored};
    LF_TRY(reference_begin(&r->ref, ids->ids, (int)ids->n, err));
    enum lf_status status = score(r, &s, ids->ids, (int)ids->n, 0, WALK_OWN, err);
    if (status == LF_OK) status = print_line((int)ids->n, NULL, &s, err);
    free(s.costs);
    return status;
}

/* Behind the prompt, which is put together with A's answer. */
static enum lf_status score_answer(struct run *r, struct scores *s, const struct lf_ids *prompt,
                                   const struct lf_ids *answer, int n_shared, struct lf_err *err)
{
    struct lf_ids whole = {0};
    enum lf_status status = LF_OK;
    for (size_t i = 0; i < prompt->n && status == LF_OK; i++) status = lf_ids_push(&whole, prompt->ids[i]);
    for (size_t i = 0; i < answer->n && status == LF_OK; i++) status = lf_ids_push(&whole, answer->ids[i]);
    s->n = (int)answer->n;
    if (status == LF_OK) status = score(r, s, whole.ids, (int)whole.n, n_shared, WALK_SHARED, err);
    lf_ids_deinit(&whole);
    return status;
}

static enum lf_status ask(struct run *r, const struct lf_ids *prompt, int n_shared, struct lf_ids *answer,
                          struct lf_buf *text, struct scores *s, struct lf_err *err)
{
    LF_TRY(reference_begin(&r->ref, prompt->ids, (int)prompt->n, err));
    LF_TRY(walk_answer(&r->walk, prompt->ids, (int)prompt->n, n_shared, r->config.max_tokens, answer, err));
    LF_TRY(lf_tokenizer_decode(r->rt.tok, text, answer->ids, answer->n, false, NULL, err));
    LF_TRY(reference_answer(&r->ref, answer, err));
    LF_TRY(score_answer(r, s, prompt, answer, n_shared, err));
    return print_line((int)prompt->n, text, s, err);
}

static enum lf_status no_row(void *ctx, int i, const float *logits, struct lf_err *err)
{
    (void)ctx;
    (void)i;
    (void)logits;
    (void)err;
    return LF_OK;
}

static enum lf_status run_questions(struct run *r, const struct task *task, struct lf_err *err)
{
    int n = task->n_shared;
    enum lf_status status =
        walk_append(&r->walk, task->prompts[0].ids, n, 0, WALK_SHARED, WALK_SHARED, n, no_row, NULL, err);
    for (int i = 0; i < task->n_prompts && status == LF_OK; i++) {
        struct lf_ids answer = {0};
        struct scores s = {0};
        struct lf_buf text;
        lf_buf_init(&text, LINE_BYTES);
        status = ask(r, &task->prompts[i], n, &answer, &text, &s, err);
        free(s.costs);
        lf_buf_deinit(&text);
        lf_ids_deinit(&answer);
    }
    return status;
}

static enum lf_status run_tasks(struct run *r, struct lf_err *err)
{
    for (int i = 0; i < r->tasks.n; i++) {
        const struct task *task = &r->tasks.tasks[i];
        LF_TRY((task->n_scored > 0 ? run_text : run_questions)(r, task, err));
    }
    return LF_OK;
}

/* ---- the program ---- */

static enum lf_status read_tasks(struct run *r, struct lf_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    enum lf_status status = LF_OK;
    for (int i = 1; status == LF_OK && (len = getline(&line, &cap, stdin)) > 0; i++) {
        status = task_list_add(&r->tasks, &r->rt, lf_str_from(line, (size_t)len), err);
        if (status != LF_OK) status = lf_fail_within(err, status, "task %d", i);
    }
    free(line);
    if (status == LF_OK && r->tasks.n == 0) return lf_fail(err, LF_INVALID, "expected tasks on standard input");
    return status;
}

static enum lf_status open_reference(struct run *r, struct lf_err *err)
{
    const struct lf_config *c = &r->config;
    uint64_t top = DEFAULT_TOP;
    bool records = c->n_args >= 2 && strcmp(c->args[0], "record") == 0;
    bool compares = c->n_args == 2 && strcmp(c->args[0], "compare") == 0;
    if (records && c->n_args == 3 && (!lf_config_parse_size(c->args[2], &top) || top < 1 || top > INT32_MAX))
        return lf_fail(err, LF_INVALID, "TOP is %.40s, expected a number above 0", c->args[2]);
    if (c->n_args > 3 || !(records || compares))
        return lf_fail(err, LF_INVALID, "expected: accuracy_driver OPTIONS record FILE [TOP], or compare FILE");
    if (records) return reference_create(&r->ref, c->args[1], r->rt.hp.n_vocab, (int)top, err);
    return reference_open(&r->ref, c->args[1], r->rt.hp.n_vocab, err);
}

static enum lf_status run(struct run *r, int argc, char **argv, struct lf_err *err)
{
    LF_TRY(lf_config_read(&r->config, LF_COMMAND_RUN, argc - 1, argv + 1, environ, err));
    lf_log_set_level((enum lf_log_level)r->config.log_level);
    LF_TRY(lf_runtime_open(&r->rt, &r->config, true, err));
    LF_TRY(open_reference(r, err));
    LF_TRY(read_tasks(r, err));
    LF_TRY(walk_load(&r->rt, &r->config, r->tasks.longest + r->config.max_tokens, err));
    LF_TRY(walk_open(&r->walk, &r->rt, err));
    return run_tasks(r, err);
}

int main(int argc, char **argv)
{
    struct run r = {0};
    struct lf_err err = {0};
    enum lf_status status = run(&r, argc, argv, &err);
    enum lf_status closed = reference_close(&r.ref, status == LF_OK ? &err : NULL);
    if (status == LF_OK) status = closed;
    if (status != LF_OK) fprintf(stderr, "accuracy_driver: %s\n", err.message);
    walk_close(&r.walk);
    task_list_deinit(&r.tasks);
    lf_runtime_close(&r.rt);
    lf_config_deinit(&r.config);
    return status == LF_OK ? LF_EXIT_OK : status == LF_DEVICE ? LF_EXIT_FAILED : LF_EXIT_REFUSED;
}
