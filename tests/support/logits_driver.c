/* Logits of many models, for comparison with another implementation (tests/golden/model/random_configs.py).
 *
 *     logits_driver < lines
 *
 * A line is "DIR CHUNK N_DECODE": the ids of DIR/ids.bin (int32) but for the last N_DECODE are read in steps of CHUNK
 * tokens, the others one by one, as an answer is made. DIR/logits.bin becomes the logits of every id (float). A line
 * "ok", or why not, is printed for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "tests/support/model_rig.h"

enum { MAX_IDS_BYTES = 1 << 20, MAX_BLOCKS = 1024 };

/* The logits of all n ids, [n, n_vocab]. */
static void run(struct model_rig *rig, const int32_t *ids, int n, int chunk, int n_decode, float *logits)
{
    int32_t blocks[MAX_BLOCKS];
    int n_prompt = n - n_decode;
    model_rig_fill_table(rig, blocks, MAX_BLOCKS);
    model_rig_run(rig, blocks, ids, n_prompt, 0, chunk, true, logits);
    for (int i = n_prompt; i < n; i++)
        model_rig_run(rig, blocks, ids + i, 1, i, 1, true, logits + (size_t)i * (size_t)rig->hp.n_vocab);
}

static enum lf_status write_logits(const char *dir, const float *logits, size_t n, struct lf_err *err)
{
    char path[4096];
    LF_TRY(lf_path_join(path, sizeof(path), dir, "logits.bin"));
    FILE *file = fopen(path, "wb");
    bool is_written = file && fwrite(logits, sizeof(*logits), n, file) == n;
    if (file && fclose(file) != 0) is_written = false;
    return is_written ? LF_OK : lf_fail(err, LF_IO, "%s cannot be written", path);
}

static enum lf_status run_line(const char *dir, int chunk, int n_decode, struct lf_err *err)
{
    struct model_rig rig = {0};
    struct lf_buf ids;
    float *logits = NULL;
    lf_buf_init(&ids, MAX_IDS_BYTES);
    enum lf_status status = lf_file_read_in(&ids, dir, "ids.bin", MAX_IDS_BYTES, err);
    int n = (int)(ids.len / sizeof(int32_t));
    if (status == LF_OK && (n <= n_decode || n_decode < 0 || chunk < 1))
        status = lf_fail(err, LF_INVALID, "%d ids, %d of them decoded, chunks of %d", n, n_decode, chunk);
    struct model_rig_opts opts = {.dir = dir,
                                  .max_isa = -1,
                                  .n_threads = 1,
                                  .ctx = n,
                                  .chunk = chunk,
                                  .max_seqs = 1,
                                  .max_out = chunk,
                                  .kv_dtype = LF_F32};
    if (status == LF_OK) status = model_rig_open(&rig, &opts, err);
    if (status == LF_OK) {
        logits = calloc((size_t)n * (size_t)rig.hp.n_vocab, sizeof(*logits));
        LF_ASSERT(logits != NULL);
        run(&rig, (const int32_t *)(const void *)ids.ptr, n, chunk, n_decode, logits);
        status = write_logits(dir, logits, (size_t)n * (size_t)rig.hp.n_vocab, err);
        model_rig_close(&rig);
    }
    free(logits);
    lf_buf_deinit(&ids);
    return status;
}

int main(void)
{
    char line[2048];
    lf_log_set_level(LF_LOG_ERROR);
    while (fgets(line, sizeof(line), stdin)) {
        struct lf_err err = {0};
        char *rest = line + strcspn(line, " ");
        if (*rest) *rest++ = 0;
        int chunk = (int)strtol(rest, &rest, 10), n_decode = (int)strtol(rest, NULL, 10);
        printf("%s\n", run_line(line, chunk, n_decode, &err) == LF_OK ? "ok" : err.message);
        (void)fflush(stdout);
    }
    return 0;
}
