/* A row of logits has the same bits alone, among others, in chunks of any size, and whether or not its neighbours are
 * wanted: for every instruction set of the machine, bfloat16 and float weights, bfloat16 and float KV. */
#include "core/check.h"
#include "core/mix.h"
#include "core/log.h"
#include "tests/support/model_rig.h"
#include "tests/support/temp_dir.h"

/* The prompt passes a split of attention (512 keys); the sequences beside it start again at OTHERS_N tokens. The plain
 * C kernels, which are slow, run it again from LATE_ROW only. */
enum {
    LATE_ROW = 440,
    OTHERS_N = 100,
    N_IDS = 550,
    N_VOCAB = 48,
    CTX = 576,
    CHUNK = 512,
    N_SEQS = 17,
    BLOCKS_PER_SEQ = CTX / LF_KV_BLOCK_TOKENS
};

static const char config_format[] =
    "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":72,\"intermediate_size\":100,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":48,\"vocab_size\":48,"
    "\"max_position_embeddings\":768,\"rms_norm_eps\":1e-6,\"use_sliding_window\":true,\"sliding_window\":150,"
    "\"max_window_layers\":1,\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"],"
    "\"torch_dtype\":\"%s\"}";

static uint64_t rng_state;

static int random_below(int n)
{
    return (int)(lf_random64(7, rng_state++) % (uint64_t)n);
}

/* One opened model, its prompt, and the logits of all tokens of the prompt run alone. */
struct fixture {
    struct model_rig rig;
    int first; /* row from which the prompt is run again; those before stay in the cache */
    int32_t ids[N_SEQS][N_IDS];
    int32_t blocks[N_SEQS][BLOCKS_PER_SEQ]; /* a shuffled pool */
    float *expected;                        /* [N_IDS, N_VOCAB] of sequence 0 */
    float *logits;                          /* the same size */
};

static void shuffle_blocks(struct fixture *f)
{
    int32_t *all = &f->blocks[0][0];
    const int n = N_SEQS * BLOCKS_PER_SEQ;
    for (int i = 0; i < n; i++) all[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = random_below(i + 1);
        int32_t swap = all[i];
        all[i] = all[j];
        all[j] = swap;
    }
}

static void poison(struct fixture *f)
{
    for (int i = 0; i < f->rig.plan.n_blocks; i++) lf_kv_cache_poison(&f->rig.kv, i);
}

/* False where the machine has not that instruction set. */
static bool open_fixture(struct fixture *f, const char *dir, int isa, enum lf_dtype kv_dtype)
{
    struct lf_err err;
    struct model_rig_opts opts = {.dir = dir,
                                  .load = LF_LOAD_DUMMY,
                                  .seed = 5,
                                  .max_isa = isa,
                                  .n_threads = 2,
                                  .ctx = CTX,
                                  .chunk = CHUNK,
                                  .max_seqs = N_SEQS,
                                  .max_out = CHUNK,
                                  .kv_tokens = CTX * N_SEQS,
                                  .kv_dtype = kv_dtype};
    enum lf_status status = model_rig_open(&f->rig, &opts, &err);
    if (status == LF_UNSUPPORTED) return false;
    if (status != LF_OK) fail_msg("%s", err.message);
    f->expected = calloc(N_IDS * N_VOCAB, sizeof(float));
    f->logits = calloc(N_IDS * N_VOCAB, sizeof(float));
    for (int s = 0; s < N_SEQS; s++) {
        for (int i = 0; i < N_IDS; i++) f->ids[s][i] = random_below(N_VOCAB);
    }
    shuffle_blocks(f);
    poison(f);
    model_rig_run(&f->rig, f->blocks[0], f->ids[0], N_IDS, 0, CHUNK, true, f->expected);
    for (int i = 0; i < N_IDS * N_VOCAB; i++) assert_true(f->expected[i] > -1e3f && f->expected[i] < 1e3f);
    return true;
}

static void close_fixture(struct fixture *f)
{
    model_rig_close(&f->rig);
    free(f->expected);
    free(f->logits);
}

static void check_rows(const struct fixture *f, const float *logits, int row, int n_rows)
{
    size_t at = (size_t)row * N_VOCAB, n = (size_t)n_rows * N_VOCAB * sizeof(float);
    if (memcmp(f->expected + at, logits, n) == 0) return;
    for (int i = 0; i < n_rows; i++) {
        if (memcmp(f->expected + at + (size_t)i * N_VOCAB, logits + (size_t)i * N_VOCAB, N_VOCAB * sizeof(float)) != 0)
            fail_msg("row %d differs", row + i);
    }
}

/* Before a run: from the start everything moves and is poisoned. */
static void begin_run(struct fixture *f)
{
    if (f->first > 0) return;
    shuffle_blocks(f);
    poison(f);
}

static void check_chunks(struct fixture *f)
{
    static const int chunks[] = {1, 7, 64, 500};
    const int first = f->first, n = N_IDS - first;
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        begin_run(f);
        model_rig_run(&f->rig, f->blocks[0], f->ids[0] + first, n, first, chunks[i], true, f->logits);
        check_rows(f, f->logits, first, n);
        if (chunks[i] < 64) continue;
        begin_run(f);
        model_rig_run(&f->rig, f->blocks[0], f->ids[0] + first, n, first, chunks[i], false, f->logits);
        check_rows(f, f->logits, N_IDS - 1, 1);
    }
}

/* Sequences advance by random chunks in random company; a random part of sequence 0's tokens is wanted each time. */
static void check_company(struct fixture *f)
{
    int done[N_SEQS] = {f->first};
    int32_t ids[CHUNK], logits_idx[CHUNK], positions[CHUNK];
    static float logits[CHUNK * N_VOCAB];
    begin_run(f);
    while (done[0] < N_IDS) {
        struct lf_kv_seq seqs[N_SEQS];
        struct lf_batch b = {.ids = ids, .seqs = seqs, .logits_idx = logits_idx};
        int sort = random_below(3); /* how many of a sequence's tokens are wanted: few, many, all */
        for (int s = 0; s < N_SEQS; s++) {
            int order = (s + 5) % N_SEQS, n = 1 + random_below(random_below(2) ? 29 : 3);
            if (order != 0 && random_below(4) == 0) continue;
            int end = order == 0 ? N_IDS : OTHERS_N;
            if (order != 0 && done[order] == end) done[order] = 0;
            n = n < end - done[order] ? n : end - done[order];
            for (int i = 0; i < n; i++) {
                ids[b.n_tokens + i] = f->ids[order][done[order] + i];
                bool wanted = sort == 2 || random_below(10) < (sort ? 6 : 1);
                if (!wanted) continue;
                positions[b.n_out] = order == 0 ? done[order] + i : -1;
                logits_idx[b.n_out++] = b.n_tokens + i;
            }
            done[order] += n;
            seqs[b.n_seqs++] = (struct lf_kv_seq){
                .blocks = f->blocks[order], .first_token = b.n_tokens, .n_tokens = n, .kv_len = done[order]};
            b.n_tokens += n;
        }
        LF_ASSERT(lf_model_step(f->rig.model, &f->rig.kv, &b, logits, NULL) == LF_OK);
        for (int i = 0; i < b.n_out; i++) {
            if (positions[i] >= 0) check_rows(f, logits + (size_t)i * N_VOCAB, positions[i], 1);
        }
    }
}

static void check_all(const char *dtype)
{
    static struct fixture f;
    char config[1024];
    struct temp_dir dir = temp_dir_make();
    snprintf(config, sizeof(config), config_format, dtype);
    temp_dir_write_text(&dir, "config.json", config);
    for (int isa = LF_ISA_C; isa <= LF_ISA_AMX; isa++) {
        for (int kv = 0; kv < 2; kv++) {
            if (!open_fixture(&f, dir.path, isa, kv ? LF_BF16 : LF_F32)) continue;
            f.first = isa == LF_ISA_C ? LATE_ROW : 0;
            uint64_t n_allocs = lf_device_n_allocs(f.rig.dev);
            check_chunks(&f);
            check_company(&f);
            assert_int_equal(lf_device_n_allocs(f.rig.dev), n_allocs);
            close_fixture(&f);
        }
    }
    temp_dir_remove(&dir);
}

static void rows_have_the_same_bits_in_any_company_with_bf16_weights(void **state)
{
    (void)state;
    check_all("bfloat16");
}

static void rows_have_the_same_bits_in_any_company_with_f16_weights(void **state)
{
    (void)state;
    check_all("float16");
}

static void rows_have_the_same_bits_in_any_company_with_f32_weights(void **state)
{
    (void)state;
    check_all("float32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_same_bits_in_any_company_with_bf16_weights),
        cmocka_unit_test(rows_have_the_same_bits_in_any_company_with_f16_weights),
        cmocka_unit_test(rows_have_the_same_bits_in_any_company_with_f32_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
