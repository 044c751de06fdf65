/* What ranks must have in common is a line of text, for people too: where two differ, both say the words that do. Of
 * the weights it has what can be read in a moment: their headers, and samples from all over each file, in which another
 * fine-tune of the same shape shows. */
#include "server/rank_join.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "model/safetensors.h"
#include "server/commands.h"
#include "server/rendezvous/launchers.h"
#include "server/rendezvous/rendezvous.h"
#include "server/rendezvous/secret.h"

/* ---- options ---- */

static const char *variable(const char *name, void *user)
{
    (void)user;
    return getenv(name);
}

static bool is_env(const struct lf_config *c)
{
    return c->rank && strcmp(c->rank, "env") == 0;
}

static enum lf_status read_launcher(struct lf_launcher *out, int n_ranks, struct lf_err *err)
{
    LF_TRY(lf_launcher_read(out, variable, NULL, err));
    if (!out->by)
        return lf_fail(err, LF_INVALID,
                       "--rank env: no launcher has set RANK, OMPI_COMM_WORLD_RANK, PMI_RANK or "
                       "SLURM_PROCID: expected --rank with a number");
    if (out->n_ranks == n_ranks) return LF_OK;
    return lf_fail(err, LF_INVALID, "--rank env: the launcher has started %d ranks (%s), --parallel has %d",
                   out->n_ranks, out->by, n_ranks);
}

static enum lf_status read_number(int *rank, const char *text, int n_ranks, struct lf_err *err)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end != 0 || text[0] < '0' || text[0] > '9' || n >= n_ranks)
        return lf_fail(err, LF_INVALID,
                       "--rank: expected env, or a number from 0 to %d (--parallel has %d ranks), got "
                       "\"%.40s\"",
                       n_ranks - 1, n_ranks, text);
    *rank = (int)n;
    return LF_OK;
}

/* What is given beside --rank, or without it. */
static enum lf_status check(const struct lf_config *c, int n_ranks, struct lf_err *err)
{
    if (!c->rank && (c->ranks_address || c->ranks_secret_file))
        return lf_fail(err, LF_INVALID,
                       "--ranks-address and --ranks-secret-file are of ranks that are processes: "
                       "expected --rank beside them");
    if (!c->rank) return LF_OK;
    if (c->parallel && strcmp(c->parallel, "auto") == 0)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--parallel auto is not implemented with --rank: all ranks must be told the "
                       "same split, expected tp=N, cp=M or both");
    if (n_ranks == 1)
        return lf_fail(err, LF_INVALID, "--rank %.40s is one of several: expected --parallel with 2 ranks or more",
                       c->rank);
    if (!c->ranks_address && !is_env(c))
        return lf_fail(err, LF_INVALID, "--rank: expected --ranks-address, where rank 0 is");
    if (!c->ranks_secret_file)
        return lf_fail(err, LF_INVALID, "--rank: expected --ranks-secret-file, which all ranks have");
    return LF_OK;
}

enum lf_status lf_rank_read(int *rank, const struct lf_config *c, const struct lf_split *split, struct lf_err *err)
{
    int n_ranks = lf_split_world(split);
    struct lf_launcher launcher;
    LF_TRY(check(c, n_ranks, err));
    *rank = LF_RANK_THREADS;
    if (!c->rank) return LF_OK;
    if (!is_env(c)) return read_number(rank, c->rank, n_ranks, err);
    LF_TRY(read_launcher(&launcher, n_ranks, err));
    *rank = launcher.rank;
    return LF_OK;
}

/* ---- what must be the same ---- */

enum { SAMPLES_N = 64, SAMPLE_BYTES = 4096, DIGITS_N = 16 };

static enum lf_status add_samples(struct lf_sha256 *sha, const struct lf_tensor_file *file, struct lf_err *err)
{
    uint8_t bytes[SAMPLE_BYTES];
    uint64_t size;
    int fd;
    LF_TRY(lf_file_open(&fd, &size, file->path, err));
    enum lf_status status = LF_OK;
    size_t n = LF_MIN(size, (uint64_t)SAMPLE_BYTES);
    for (uint64_t i = 0; i < SAMPLES_N && status == LF_OK; i++) {
        status = lf_file_pread(fd, bytes, n, (size - n) / (SAMPLES_N - 1) * i, file->path, err);
        if (status == LF_OK) lf_sha256_update(sha, bytes, n);
    }
    (void)close(fd);
    return status;
}

static enum lf_status add_weights(struct lf_sha256 *sha, const char *dir, struct lf_err *err)
{
    struct lf_tensor_set set = {0};
    LF_TRY(lf_tensor_set_open(&set, dir, err));
    enum lf_status status = LF_OK;
    for (int i = 0; i < set.n_files && status == LF_OK; i++) {
        lf_sha256_update(sha, set.files[i].header_sha, sizeof(set.files[i].header_sha));
        status = add_samples(sha, &set.files[i], err);
    }
    lf_tensor_set_close(&set);
    return status;
}

static enum lf_status hash_model(char out[DIGITS_N + 1], const struct lf_model_opts *model, struct lf_err *err)
{
    struct lf_sha256 sha;
    struct lf_buf config;
    uint8_t digest[LF_SHA256_BYTES];
    lf_sha256_init(&sha);
    lf_buf_init(&config, LF_JSON_FILE_BYTES);
    enum lf_status status = lf_file_read_in(&config, model->dir, "config.json", LF_JSON_FILE_BYTES, err);
    if (status == LF_OK) lf_sha256_update(&sha, config.ptr, config.len);
    lf_buf_deinit(&config);
    LF_TRY(status);
    if (model->load == LF_LOAD_FILES) LF_TRY(add_weights(&sha, model->dir, err));
    lf_sha256_final(&sha, digest);
    for (int i = 0; i < DIGITS_N / 2; i++) (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return LF_OK;
}

/* The sizes that memory decides are rank 0's, and told behind this (runtime.h). */
static enum lf_status print_identity(char out[LF_IDENTITY_BYTES], const struct lf_config *c,
                                     const struct lf_hparams *hp, const struct lf_model_opts *model,
                                     enum lf_dtype kv_dtype, const struct lf_device_info *info, struct lf_err *err)
{
    static const char *const formats[] = {"none", "fp8", "int8", "int4"}; /* by choice */
    char program[LF_PROGRAM_BYTES], hash[DIGITS_N + 1], load[48] = "files";
    const struct lf_stretch *s = &hp->stretch;
    LF_TRY(hash_model(hash, model, err));
    lf_program_print(program);
    if (model->load == LF_LOAD_DUMMY) (void)snprintf(load, sizeof(load), "dummy seed=%" PRIu64, model->dummy_seed);
    (void)snprintf(
        out, LF_IDENTITY_BYTES,
        "%s; device=%s isa=%s model=%s load=%s quantize=%s positions=%d yarn=%d:%d tp=%d cp=%d kv=%s fusion=%d",
        program, info->kind, info->name, hash, load, formats[c->quantize], s->max_position, s->yarn, s->yarn_original,
        lf_split_n_ranks(&hp->split), lf_split_n_cp(&hp->split), lf_dtype_name(kv_dtype), !c->no_fusion);
    return LF_OK;
}

/* ---- joining ---- */

static enum lf_status find_address(char out[LF_LAUNCHER_ADDRESS_BYTES], const struct lf_config *c, struct lf_err *err)
{
    struct lf_launcher launcher = {.rank = 0};
    out[0] = 0;
    if (is_env(c) && !c->ranks_address) {
        LF_TRY(lf_launcher_read(&launcher, variable, NULL, err));
        (void)snprintf(out, LF_LAUNCHER_ADDRESS_BYTES, "%s", launcher.address);
        if (!out[0])
            return lf_fail(err, LF_INVALID,
                           "--rank env: the launcher says which rank this is (%s), and not where rank "
                           "0 is: expected --ranks-address, or MASTER_ADDR and MASTER_PORT",
                           launcher.by);
        return LF_OK;
    }
    int n = snprintf(out, LF_LAUNCHER_ADDRESS_BYTES, "%s", c->ranks_address);
    return n < LF_LAUNCHER_ADDRESS_BYTES ? LF_OK : lf_fail(err, LF_INVALID, "--ranks-address: expected HOST:PORT");
}

enum lf_status lf_rank_join(int sockets[LF_RANKS_N], int rank, const struct lf_config *c, const struct lf_hparams *hp,
                            const struct lf_model_opts *model, enum lf_dtype kv_dtype,
                            const struct lf_device_info *info, struct lf_err *err)
{
    char identity[LF_IDENTITY_BYTES], address[LF_LAUNCHER_ADDRESS_BYTES];
    uint8_t secret[LF_SECRET_MAX_BYTES];
    struct lf_rendezvous_opts opts = {.rank = rank,
                                      .n_ranks = lf_split_world(&hp->split),
                                      .address = address,
                                      .secret = secret,
                                      .timeout_ms = c->ranks_timeout * 1000,
                                      .identity = identity};
    LF_TRY(find_address(address, c, err));
    LF_TRY(print_identity(identity, c, hp, model, kv_dtype, info, err));
    enum lf_status status = lf_rendezvous_read_secret(secret, &opts.n_secret, c->ranks_secret_file, err);
    if (status != LF_OK) return lf_fail_within(err, status, "--ranks-secret-file");
    LF_INFO("rank %d of %d waits for the others at %s", rank, opts.n_ranks, address);
    status = lf_rendezvous(sockets, &opts, err);
    explicit_bzero(secret, sizeof(secret));
    return status;
}
