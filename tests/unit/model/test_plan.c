#include "core/json.h"
#include "core/limits.h"
#include "tests/support/model_rig.h"
#include "tests/unit/model/plan_bench.h"

static void a_plan_has_room_for_two_requests_unless_told_otherwise(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    struct lf_plan p = plan(&b);
    assert_true(p.fits);
    /* 4 layers, K and V, 1 head of 32, 2 bytes */
    assert_int_equal(p.kv_token_bytes, 4 * 2 * 32 * 2);
    assert_int_equal(p.n_blocks, 250);
    assert_int_equal(p.n_concurrent, 2);
    assert_int_equal(p.longest_ctx, 8000);
    assert_int_equal(p.limit_bytes, b.info.available_bytes / 5 * 4);
    b.opts.concurrency = 5;
    p = plan(&b);
    assert_int_equal(p.n_blocks, 625);
    b.opts.ctx = 0;
    b.opts.concurrency = 0;
    p = plan(&b);
    assert_int_equal(p.ctx, 131072);
    assert_int_equal(p.n_blocks, 2 * 2048);
    assert_int_equal(p.chunk, 512);
    assert_int_equal(p.max_seqs, LF_RUNNING_N);
    assert_int_equal(p.max_out, LF_RUNNING_N);
    b.opts.kv_dtype = LF_F32;
    assert_int_equal(plan(&b).kv_token_bytes, 2 * p.kv_token_bytes);
    bench_close(&b);
}

static void the_index_of_blocks_on_disk_takes_room_from_the_cache(void **state)
{
    (void)state;
    struct bench b;
    struct lf_buf out;
    bench_open(&b);
    b.opts.memory_bytes = 200 * MIB;
    struct lf_plan without = plan(&b);
    b.opts.disk_index_bytes = 10 * without.kv_block_bytes;
    b.opts.disk_tokens = 640000;
    b.opts.disk_bytes = 400 * MIB;
    struct lf_plan with = plan(&b);
    assert_int_equal(with.n_blocks, without.n_blocks - 10);
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&with, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "index of the disk"));
    assert_non_null(strstr(out.ptr, "of 640000 tokens in 400.00 MiB of --cache-dir"));
    lf_buf_clear(&out);
    lf_plan_print(&without, &b.hp, &out);
    assert_null(strstr(out.ptr, "disk"));
    lf_buf_clear(&out);
    lf_plan_print_json(&with, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "\"disk_tokens\":640000,\"disk_bytes\":419430400"));
    lf_buf_deinit(&out);
    bench_close(&b);
}

/* Both are the host's, so they stand behind the sum. (That a GPU's cache has no block less for them: e2e/http_dummy.)
 */
static void what_lies_below_a_gpus_cache_is_no_part_of_its_sum(void **state)
{
    (void)state;
    struct bench b;
    struct lf_buf out;
    bench_open(&b);
    b.opts.disk_tokens = 640000;
    b.opts.disk_bytes = 400 * MIB;
    b.opts.below_tokens = 12800;
    b.opts.below_bytes = 300 * MIB;
    struct lf_plan p = plan(&b);
    p.is_host = false;
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&p, &b.hp, &out);
    assert_true(strstr(out.ptr, "index of the disk") > strstr(out.ptr, "total"));
    assert_non_null(strstr(out.ptr, "--cache-memory           300.00 MiB  12800 tokens below the cache"));
    lf_buf_clear(&out);
    lf_plan_print_json(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "\"cache_memory_tokens\":12800,\"cache_memory_bytes\":314572800"));
    lf_buf_deinit(&out);
    bench_close(&b);
}

static void less_memory_leaves_one_request_and_then_none(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    struct lf_plan p = plan(&b);
    uint64_t fixed = p.total_bytes - p.kv_bytes, one = 125 * p.kv_block_bytes;
    b.info.available_bytes = (fixed + 2 * one) / 4 * 5 + 5;
    assert_int_equal(plan(&b).n_concurrent, 2);
    b.info.available_bytes = (fixed + 2 * one - p.kv_block_bytes) / 4 * 5 + 5;
    p = plan(&b);
    assert_true(p.fits && p.n_concurrent == 1 && p.n_blocks == 249);
    b.info.available_bytes = (fixed + one) / 4 * 5 + 5;
    p = plan(&b);
    assert_true(p.fits && p.n_concurrent == 1 && p.n_blocks == 125);
    b.info.available_bytes = (fixed + one - p.kv_block_bytes) / 4 * 5 + 5;
    p = plan(&b);
    assert_true(!p.fits && p.n_concurrent == 0 && p.n_blocks == 125 && p.longest_ctx == 124 * 64);
    b.info.available_bytes = 1000;
    p = plan(&b);
    assert_true(!p.fits && p.longest_ctx == 0);
    assert_non_null(strstr(p.advice, "no context fits"));
    bench_close(&b);
}

static void auto_is_the_largest_context_that_fits(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    for (uint64_t mib = 20; mib <= 120; mib += 7) {
        b.opts.memory_bytes = mib * MIB;
        for (b.opts.concurrency = 1; b.opts.concurrency < 4; b.opts.concurrency++) {
            b.opts.ctx = LF_CTX_AUTO;
            struct lf_plan p = plan(&b);
            assert_true(p.fits && p.is_auto_ctx && p.ctx > 0);
            if (p.ctx == b.hp.max_positions) continue;
            b.opts.ctx = p.ctx;
            assert_true(plan(&b).fits && !plan(&b).is_auto_ctx);
            b.opts.ctx = p.ctx + LF_KV_BLOCK_TOKENS;
            struct lf_plan refused = plan(&b);
            assert_false(refused.fits);
            char named[64];
            snprintf(named, sizeof(named), "--ctx %d fits", p.ctx);
            assert_non_null(strstr(refused.advice, named));
            assert_int_equal(refused.longest_ctx, p.ctx);
            b.opts.fitting_ctx = p.ctx - LF_KV_BLOCK_TOKENS; /* a caller that knows better is believed */
            refused = plan(&b);
            snprintf(named, sizeof(named), "--ctx %d fits", p.ctx - LF_KV_BLOCK_TOKENS);
            assert_non_null(strstr(refused.advice, named));
            assert_int_equal(refused.longest_ctx, p.ctx - LF_KV_BLOCK_TOKENS);
            b.opts.fitting_ctx = 0;
        }
    }
    b.opts.concurrency = 0;
    b.opts.ctx = LF_CTX_AUTO;
    b.opts.memory_bytes = 0;
    assert_int_equal(plan(&b).ctx, b.hp.max_positions);
    b.opts.memory_bytes = MIB; /* none fits: the least is shown */
    struct lf_plan p = plan(&b);
    assert_true(!p.fits && p.ctx == LF_KV_BLOCK_TOKENS);
    struct lf_err err;
    b.opts.ctx = LF_CTX_AUTO - 1;
    assert_int_equal(lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &b.opts, &err), LF_INVALID);
    bench_close(&b);
}

static void memory_and_kv_tokens_are_obeyed(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.opts.memory_bytes = 100 * MIB;
    struct lf_plan p = plan(&b);
    assert_true(p.fits && p.total_bytes <= 100 * MIB && p.total_bytes + p.kv_block_bytes > 100 * MIB);
    assert_int_equal(p.limit_bytes, 100 * MIB);
    assert_int_equal(p.n_concurrent, p.n_blocks / 125);
    b.opts.memory_bytes = 2000 * MIB; /* more than there is */
    p = plan(&b);
    assert_false(p.fits);
    b.opts.memory_bytes = 0;
    b.opts.kv_tokens = 20001;
    p = plan(&b);
    assert_true(p.fits && p.n_blocks == 313 && p.n_concurrent == 2);
    b.opts.kv_tokens = 7936;
    p = plan(&b);
    assert_true(!p.fits && p.n_blocks == 124 && p.n_concurrent == 0);
    assert_non_null(strstr(p.advice, "--kv-tokens 7936"));
    bench_close(&b);
}

/* Of four layers three see 256 tokens: four groups of a layer each. */
static void bench_open_with_windows(struct bench *b)
{
    bench_open(b);
    assert_int_equal(b->hp.n_layers, 4);
    for (int i = 0; i < 3; i++) b->hp.layers[i].window = 256;
    b->opts.cache_groups = true;
}

static void windows_take_the_blocks_of_their_tokens_alone(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_windows(&b);
    b.opts.cache_groups = false;
    assert_int_equal(plan(&b).n_blocks, 250); /* masks only */
    assert_int_equal(plan(&b).n_groups, 1);
    b.opts.cache_groups = true;
    b.opts.chunk = 100;
    b.opts.max_seqs = 5;
    struct lf_plan p = plan(&b);
    assert_int_equal(p.n_groups, 4);
    assert_int_equal(p.kv_block_bytes, 64 * 2 * 32 * 2);
    assert_int_equal(p.kv_token_bytes, 2 * 32 * 2);
    assert_int_equal(p.n_request_blocks, 125 + 3 * (4 + 2));
    assert_int_equal(p.n_step_blocks, 3 * 2);
    assert_int_equal(p.n_blocks, 2 * p.n_request_blocks + p.n_step_blocks);
    assert_true(p.fits && p.n_concurrent == 2 && p.longest_ctx == 8000 && p.kv_tokens == 16000);
    b.opts.kv_tokens = 8000;
    p = plan(&b);
    assert_true(p.fits && p.n_concurrent == 1 && p.kv_tokens == 8000);
    assert_int_equal(p.n_blocks, p.n_request_blocks + p.n_step_blocks);
    b.opts.kv_tokens = 7900;
    p = plan(&b);
    assert_true(!p.fits && p.longest_ctx < 8000 && p.longest_ctx >= 7800);
    assert_non_null(strstr(p.advice, "--kv-tokens 8000 fits"));
    bench_close(&b);
}

static void the_longest_context_with_windows_fits_and_no_more(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_windows(&b);
    b.opts.chunk = 100;
    b.opts.max_seqs = 5;
    expect_longest_ctx(&b);
    bench_close(&b);
}

static void layers_of_each_window_have_a_line_of_their_own(void **state)
{
    (void)state;
    struct bench b;
    struct lf_buf out;
    bench_open_with_windows(&b);
    b.opts.chunk = 100;
    b.opts.max_seqs = 5;
    struct lf_plan p = plan(&b);
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr,
                           "full attention        1000.00 KiB  a request: 125 blocks, 1 layer in 1 group, 1 KV "
                           "head of 32\n"));
    assert_non_null(strstr(out.ptr, "window of 256          144.00 KiB  a request: 18 blocks, 3 layers in 3 groups"));
    assert_non_null(strstr(out.ptr, "tokens of a step        48.00 KiB  once: 6 blocks\n"));
    lf_buf_clear(&out);
    lf_plan_print_json(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "\"kv_request_blocks\":143,\"kv_step_blocks\":6"));
    assert_non_null(strstr(out.ptr, "\"kv_groups\":[{\"window\":0,\"layers\":1,\"kv_heads\":1,\"head_dim\":32,"
                                    "\"request_blocks\":125,\"unused_block_bytes\":0},{\"window\":256,"));
    lf_buf_deinit(&out);
    bench_close(&b);
}

/* Follows the advice that names an option, and returns the number it gives. */
static long follow(const struct lf_plan *p, const char *option)
{
    const char *at = strstr(p->advice, option);
    if (!at) fail_msg("\"%s\" lacks \"%s\"", p->advice, option);
    return strtol(at + strlen(option), NULL, 10);
}

static void advice_leads_to_a_plan_that_fits(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.opts.ctx = 131072;
    b.opts.kv_dtype = LF_F32;
    b.opts.chunk = 2048;
    b.opts.memory_bytes = 90 * MIB;
    struct lf_plan p = plan(&b);
    assert_false(p.fits);
    struct lf_plan_opts asked = b.opts;
    b.opts.ctx = (int)follow(&p, "--ctx ");
    assert_true(plan(&b).fits);
    b.opts.ctx += LF_KV_BLOCK_TOKENS;
    assert_false(plan(&b).fits);
    b.opts = asked;
    b.opts.memory_bytes = (uint64_t)follow(&p, "--memory ") * MIB; /* "90M" */
    assert_true(plan(&b).fits);
    b.opts.memory_bytes -= MIB;
    assert_false(plan(&b).fits);
    b.opts = asked;
    b.opts.other_memory = p.total_bytes + 5 * MIB; /* a caller that knows better is believed */
    struct lf_plan careful = plan(&b);
    assert_int_equal(follow(&careful, "--memory "), follow(&p, "--memory ") + 5);
    b.opts.other_memory = b.info.available_bytes;
    careful = plan(&b);
    assert_int_equal(follow(&careful, "--memory "), 1000);
    b.opts.other_memory++; /* more than there is */
    careful = plan(&b);
    assert_null(strstr(careful.advice, "--memory 1"));
    assert_non_null(strstr(p.advice, "--kv-dtype bf16 fits"));
    b.opts = asked;
    b.opts.kv_dtype = LF_BF16;
    assert_true(plan(&b).fits);
    b.opts = asked;
    b.opts.ctx = 8000;
    b.opts.memory_bytes = 0;
    b.opts.concurrency = b.opts.max_seqs = 256;
    p = plan(&b);
    assert_false(p.fits);
    b.opts.concurrency = (int)follow(&p, "--concurrency ");
    assert_true(plan(&b).fits);
    b.opts.concurrency++;
    assert_false(plan(&b).fits);
    b.opts.ctx = 64;
    b.opts.concurrency = b.opts.max_seqs = 0;
    b.opts.kv_tokens = 200 * LF_KV_BLOCK_TOKENS;
    p = plan(&b);
    assert_true(p.fits && p.n_blocks == 200 && p.n_blocks > p.max_seqs);
    assert_int_equal(p.n_concurrent, p.max_seqs);
    bench_close(&b);
}

static void asking_for_more_than_there_is_or_for_too_few_blocks_is_told_the_way_out(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.opts.ctx = 8000;
    b.opts.memory_bytes = (uint64_t)1 << 50;
    struct lf_plan p = plan(&b);
    assert_false(p.fits);
    assert_non_null(strstr(p.advice, "but 1000.00 MiB are available; without it: it fits"));
    b.opts.memory_bytes = 0;
    assert_true(plan(&b).fits);
    const uint64_t too_few_or_many[] = {1, (uint64_t)1 << 40};
    for (size_t i = 0; i < 2; i++) {
        b.opts.kv_tokens = too_few_or_many[i];
        p = plan(&b);
        assert_false(p.fits);
        assert_non_null(strstr(p.advice, "--kv-tokens 8000 fits"));
        b.opts.kv_tokens = 8000;
        assert_true(plan(&b).fits);
    }
    bench_close(&b);
}

/* More than the machine has is asked for, and the context would not fit into all that it has either. */
static void advice_behind_too_much_memory_is_advice_without_it(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.opts.ctx = 131072;
    b.info.available_bytes = 80 * MIB;
    b.opts.memory_bytes = 1000 * MIB;
    struct lf_plan p = plan(&b);
    assert_false(p.fits);
    assert_int_equal(p.n_blocks, 2048); /* what is missing is said for what was asked, not for all of --memory */
    assert_non_null(strstr(p.advice, "--memory is 1000.00 MiB, but 80.00 MiB are available; without it: "));
    b.opts.memory_bytes = 0;
    b.opts.ctx = (int)follow(&p, "--ctx ");
    assert_true(b.opts.ctx > 0 && plan(&b).fits);
    bench_close(&b);
}

static void a_share_that_is_too_small_is_told_the_memory_that_would_do(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    struct lf_plan p = plan(&b);
    b.info.available_bytes = (p.total_bytes - p.kv_bytes + 125 * p.kv_block_bytes) / 9 * 10; /* 80% are too few */
    p = plan(&b);
    assert_false(p.fits);
    b.opts.memory_bytes = (uint64_t)follow(&p, "--memory ") * MIB;
    assert_true(plan(&b).fits);
    bench_close(&b);
}

static void a_gpu_has_one_type_of_cache_for_a_model(void **state)
{
    (void)state;
    struct bench b;
    struct lf_plan p;
    struct lf_err err;
    bench_open(&b);
    b.info.is_host = false;
    b.info.act_dtype = LF_F16;
    for (int i = 0; i < 2; i++) { /* fp8 neither: it is for activations in bf16 */
        b.opts.kv_dtype = i == 0 ? LF_BF16 : LF_E4M3;
        assert_int_equal(lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &b.opts, &err),
                         LF_UNSUPPORTED);
        assert_non_null(strstr(err.message, i == 0
                                                ? "--kv-dtype bf16: on a GPU this model's KV cache is in f16, leave"
                                                : "--kv-dtype fp8: on a GPU this model's KV cache is in f16, leave"));
    }
    b.info.act_dtype = LF_BF16;
    b.opts.kv_dtype = LF_F32;
    assert_int_equal(lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &b.opts, &err),
                     LF_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--kv-dtype f32: on a GPU this model's KV cache is in bf16 or fp8"));
    bench_close(&b);
}

/* Either plan says what both would hold, and each holds it. */
static void check_room(struct bench *b)
{
    struct lf_plan of[2];
    for (int fp8 = 0; fp8 < 2; fp8++) {
        b->opts.kv_dtype = fp8 ? LF_E4M3 : LF_BF16;
        of[fp8] = plan(b);
        assert_true(of[fp8].fits && of[fp8].requests.tokens == 8000 && of[fp8].requests.plain == LF_BF16);
        assert_true(of[fp8].n_concurrent > 4 && of[fp8].n_concurrent < 64);
    }
    for (int fp8 = 0; fp8 < 2; fp8++) {
        assert_int_equal(of[fp8].requests.n_plain, of[0].n_concurrent);
        assert_int_equal(of[fp8].requests.n_fp8, of[1].n_concurrent);
    }
    assert_true(of[1].n_concurrent * 10 >= of[0].n_concurrent * 17);
    uint64_t elems = of[0].kv_block_bytes / 2; /* a scale for each head of 32 */
    assert_int_equal(of[1].kv_block_bytes, elems + elems / 32);
}

static void either_cache_says_how_many_requests_both_would_hold(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.opts.memory_bytes = 100 * MIB;
    check_room(&b);
    b.opts.kv_tokens = 8000;
    uint64_t enough = plan(&b).total_bytes;
    b.opts.kv_tokens = 0;
    b.opts.kv_dtype = LF_BF16;
    b.opts.memory_bytes = enough;
    struct lf_plan p = plan(&b);
    assert_true(!p.fits && p.requests.n_plain == 0 && p.requests.n_fp8 == 1);
    assert_non_null(strstr(p.advice, "--kv-dtype fp8 fits"));
    bench_close(&b);
    bench_open_with_windows(&b);
    b.opts.cache_groups = true;
    b.opts.memory_bytes = 30 * MIB;
    check_room(&b);
    bench_close(&b);
}

static void options_that_contradict_each_other_or_the_model_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct lf_plan_opts opts;
        const char *says;
    } rows[] = {
        {{.ctx = 131073, .kv_dtype = LF_BF16}, "--ctx is 131073, but the model has positions for 131072"},
        {{.ctx = -2, .kv_dtype = LF_BF16}, "--ctx is -2"},
        {{.chunk = -1, .kv_dtype = LF_BF16}, "--chunk is -1"},
        {{.chunk = LF_STEP_TOKENS_N + 1, .kv_dtype = LF_BF16}, "--chunk is 65537"},
        {{.max_seqs = LF_RUNNING_MAX_N + 1, .kv_dtype = LF_BF16}, "--max-seqs is 1025"},
        {{.chunk = 16, .max_seqs = 17, .kv_dtype = LF_BF16}, "--max-seqs is 17"},
        {{.concurrency = -2, .kv_dtype = LF_BF16}, "--concurrency is -2"},
        {{.max_out = -2, .kv_dtype = LF_BF16}, "rows of logits"},
        {{.kv_dtype = LF_F16}, "--kv-dtype f16"},
    };
    struct bench b;
    bench_open(&b);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lf_plan p;
        struct lf_err err;
        assert_int_not_equal(
            lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &rows[i].opts, &err), LF_OK);
        if (!strstr(err.message, rows[i].says)) fail_msg("\"%s\" lacks \"%s\"", err.message, rows[i].says);
    }
    b.opts.chunk = LF_STEP_TOKENS_N;
    b.opts.max_seqs = LF_RUNNING_MAX_N;
    assert_true(plan(&b).workspace_bytes > 0);
    b.opts = (struct lf_plan_opts){.chunk = 16, .kv_dtype = LF_BF16, .ctx = 100};
    assert_int_equal(plan(&b).max_seqs, 16);
    b.opts = (struct lf_plan_opts){.max_seqs = 1000, .kv_dtype = LF_BF16, .ctx = 100};
    assert_int_equal(plan(&b).chunk, 1000);
    bench_close(&b);
}

static void the_model_allocates_exactly_what_the_plan_says(void **state)
{
    (void)state;
    struct bench b;
    struct model_rig rig;
    struct lf_err err;
    bench_open(&b);
    struct model_rig_opts opts = {.dir = b.dir.path,
                                  .load = LF_LOAD_DUMMY,
                                  .max_isa = -1,
                                  .n_threads = 2,
                                  .ctx = 3000,
                                  .chunk = 100,
                                  .max_seqs = 5,
                                  .kv_dtype = LF_BF16};
    enum lf_status status = model_rig_open(&rig, &opts, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
    assert_int_equal(lf_device_allocated_bytes(rig.dev), rig.plan.total_bytes);
    uint8_t one[32], two[32];
    lf_model_identity(rig.model, one);
    model_rig_close(&rig);
    opts.seed = 9;
    assert_int_equal(model_rig_open(&rig, &opts, &err), LF_OK);
    lf_model_identity(rig.model, two);
    assert_memory_not_equal(one, two, 32);
    model_rig_close(&rig);
    bench_close(&b);
}

/* Gemma 4 26B-A4B: 25.2 billion weights, a table of RoPE and cache groups for each of two shapes. */
static void layers_of_two_shapes_are_counted_as_they_are(void **state)
{
    (void)state;
    static const char *const says[] = {"16 query and 8 KV heads of 256 (in 5 layers other ones: 2 of 512), vocabulary",
                                       "5 layers in 1 group, 2 KV heads of 512",
                                       "25 layers in 13 groups, 8 KV heads of 256"};
    struct bench b;
    struct lf_buf out;
    struct lf_err err;
    bench_open(&b);
    lf_hparams_deinit(&b.hp);
    const char *dir = "tests/bench/shapes/gemma-4-26b-a4b";
    if (lf_hparams_read(&b.hp, dir, &err) != LF_OK) fail_msg("%s", err.message);
    b.weight_bytes = bench_weight_bytes(dir, &b.hp, b.dev);
    assert_in_range(b.weight_bytes / 2, 25100000000, 25300000000);
    b.info.available_bytes = 100000 * MIB;
    b.opts.ctx = 131072;
    b.opts.cache_groups = true;
    struct lf_plan p = plan(&b);
    assert_int_equal(p.rope_bytes, (uint64_t)131072 * (512 + 256) * sizeof(float));
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&p, &b.hp, &out);
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
        if (!strstr(out.ptr, says[i])) fail_msg("\"%s\" is not in %s", says[i], out.ptr);
    lf_buf_deinit(&out);
    bench_close(&b);
}

static void both_printouts_hold_the_numbers(void **state)
{
    (void)state;
    struct bench b;
    struct lf_buf out;
    struct lf_json json;
    struct lf_err err;
    int64_t x;
    bool fits;
    bench_open(&b);
    lf_buf_init(&out, 1 << 16);
    for (int round = 0; round < 2; round++) {
        struct lf_plan p = plan(&b);
        lf_buf_clear(&out);
        lf_plan_print(&p, &b.hp, &out);
        static const char *const says[2][2] = {
            {"16000 tokens in 250 blocks, 512 B a token in bf16",
             "Fits: 2 requests of 8000 tokens at once; longest context 8000 tokens."},
            {"of 5.00 MiB (1000.00 MiB available)", "Does not fit: "}};
        assert_non_null(strstr(out.ptr, says[round][0]));
        assert_non_null(strstr(out.ptr, says[round][1]));
        char room[128];
        const struct lf_plan_requests *r = &p.requests;
        snprintf(room, sizeof(room), "\nRoom for %d request%s of 8000 tokens with --kv-dtype bf16, for %d with fp8.\n",
                 r->n_plain, r->n_plain == 1 ? "" : "s", r->n_fp8);
        assert_non_null(strstr(out.ptr, room));
        lf_buf_clear(&out);
        lf_plan_print_json(&p, &b.hp, &out);
        assert_int_equal(out.status, LF_OK);
        assert_int_equal(lf_json_parse(&json, lf_buf_view(&out), &lf_json_limits_request, &err), LF_OK);
        struct lf_json_value root = lf_json_root(&json);
        assert_true(lf_json_int64(lf_json_get(root, "total_bytes"), &x) && (uint64_t)x == p.total_bytes);
        assert_true(lf_json_int64(lf_json_get(root, "kv_blocks"), &x) && x == p.n_blocks);
        assert_true(lf_json_int64(lf_json_get(root, "concurrent_requests"), &x) && x == p.n_concurrent);
        assert_true(lf_json_bool(lf_json_get(root, "fits"), &fits) && fits == p.fits);
        struct lf_json_value json_room = lf_json_get(root, "room");
        assert_true(lf_json_int64(lf_json_get(json_room, "request_tokens"), &x) && x == 8000);
        assert_true(lf_json_int64(lf_json_get(json_room, "bf16"), &x) && x == r->n_plain);
        assert_true(lf_json_int64(lf_json_get(json_room, "fp8"), &x) && x == r->n_fp8);
        assert_true(lf_json_string_is(lf_json_get(root, "advice"), p.advice));
        assert_true(lf_json_string_is(lf_json_get(root, "device"), p.device));
        assert_true(strncmp(p.device, "cpu, ", 5) == 0 && strlen(p.device) > 5);
        lf_json_deinit(&json);
        b.opts.memory_bytes = 5 * MIB;
    }
    lf_buf_deinit(&out);
    bench_close(&b);
}

static struct lf_plan plan_of_ranks(const struct bench *b, const struct lf_plan_opts *opts)
{
    struct lf_plan p;
    struct lf_err err;
    enum lf_status status = lf_plan_make(&p, &b->hp, b->weight_bytes, lf_device_ops(b->dev), &b->info, opts, &err);
    if (status != LF_OK) fail_msg("%s", err.message);
    return p;
}

/* A process has its part alone; and one that is told the sizes of another one's plan comes to the same. */
static void ranks_apart_are_planned_one_by_one_and_alike(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    b.hp.split.n_ranks = 2;
    struct lf_plan together = plan_of_ranks(&b, &b.opts);
    b.opts.ranks_apart = true;
    struct lf_plan apart = plan_of_ranks(&b, &b.opts);
    uint64_t part = apart.weight_bytes + apart.workspace_bytes + apart.kv_bytes;
    assert_int_equal(apart.n_blocks, together.n_blocks);
    assert_int_equal(apart.total_bytes, part + apart.comm_bytes + apart.host_bytes);
    assert_int_equal(together.total_bytes, 2 * part + together.comm_bytes + together.host_bytes);
    assert_true(apart.comm_bytes < together.comm_bytes); /* a message less */
    b.opts.memory_bytes = 100 * MIB;
    struct lf_plan more = plan_of_ranks(&b, &b.opts);
    assert_true(more.fits && more.n_blocks > apart.n_blocks);
    struct lf_plan_opts told = b.opts;
    told.memory_bytes = 200 * MIB;
    told.max_seqs = more.max_seqs;
    told.max_out = more.max_out;
    told.chunk = more.chunk;
    told.n_blocks = more.n_blocks;
    struct lf_plan same = plan_of_ranks(&b, &told);
    assert_true(same.fits && same.n_blocks == more.n_blocks && same.total_bytes == more.total_bytes);
    told.memory_bytes = more.total_bytes - 1;
    assert_false(plan_of_ranks(&b, &told).fits);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_room_for_two_requests_unless_told_otherwise),
        cmocka_unit_test(the_index_of_blocks_on_disk_takes_room_from_the_cache),
        cmocka_unit_test(what_lies_below_a_gpus_cache_is_no_part_of_its_sum),
        cmocka_unit_test(less_memory_leaves_one_request_and_then_none),
        cmocka_unit_test(auto_is_the_largest_context_that_fits),
        cmocka_unit_test(memory_and_kv_tokens_are_obeyed),
        cmocka_unit_test(windows_take_the_blocks_of_their_tokens_alone),
        cmocka_unit_test(the_longest_context_with_windows_fits_and_no_more),
        cmocka_unit_test(layers_of_each_window_have_a_line_of_their_own),
        cmocka_unit_test(advice_leads_to_a_plan_that_fits),
        cmocka_unit_test(asking_for_more_than_there_is_or_for_too_few_blocks_is_told_the_way_out),
        cmocka_unit_test(advice_behind_too_much_memory_is_advice_without_it),
        cmocka_unit_test(a_share_that_is_too_small_is_told_the_memory_that_would_do),
        cmocka_unit_test(a_gpu_has_one_type_of_cache_for_a_model),
        cmocka_unit_test(either_cache_says_how_many_requests_both_would_hold),
        cmocka_unit_test(options_that_contradict_each_other_or_the_model_are_refused),
        cmocka_unit_test(the_model_allocates_exactly_what_the_plan_says),
        cmocka_unit_test(layers_of_two_shapes_are_counted_as_they_are),
        cmocka_unit_test(both_printouts_hold_the_numbers),
        cmocka_unit_test(ranks_apart_are_planned_one_by_one_and_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
