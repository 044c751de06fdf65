/* The plan of a model with states: how blocks and slots share memory, and what is said of it. */
#include "core/check.h"
#include "core/limits.h"
#include "model/batch.h"
#include "tests/unit/model/plan_bench.h"

/* Six layers with states of 3,328 bytes, two of attention: blocks of 16 KiB, slots of two of them. */
static void bench_open_with_states(struct bench *b)
{
    bench_open_as(b, config_delta_net());
}

static void slots_for_all_that_may_run_and_snapshots_lie_behind_the_blocks(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    struct lf_plan p = plan(&b);
    assert_true(p.fits && p.n_groups == 1);
    assert_int_equal(p.kv_block_bytes, 2 * 2 * 64 * 32 * 2);
    assert_int_equal(p.slot_bytes, 2 * p.kv_block_bytes);
    assert_int_equal(p.states.n_layers, 6);
    assert_int_equal(p.n_blocks, 250); /* two requests of 8000 tokens, as without states */
    assert_int_equal(p.n_snapshots, 2 + 72);
    assert_int_equal(p.n_slots, 72 + 2 + 72); /* 64 and 8 more may run */
    assert_int_equal(p.max_seqs_before, 0);
    b.opts.n_snapshots = 5;
    p = plan(&b);
    assert_true(p.n_snapshots == 5 && p.n_slots == 72 + 5 && p.n_blocks == 250);
    b.opts.n_snapshots = 0;
    b.opts.no_prefix_cache = true;
    p = plan(&b);
    assert_true(p.n_snapshots == 1 && p.n_slots == 72 + 1);
    b.opts.no_prefix_cache = false;
    b.opts.max_seqs = 3;
    b.opts.kv_tokens = 8193 * 8;
    b.opts.kv_dtype = LF_F32; /* larger blocks, so a slot is one */
    p = plan(&b);
    assert_int_equal(p.slot_bytes, p.kv_block_bytes);
    assert_int_equal(p.n_slots, 4 + 9 + 4);
    bench_close(&b);
    bench_open(&b);
    p = plan(&b);
    assert_true(p.n_slots == 0 && p.n_snapshots == 0 && p.slot_bytes == 0 && p.states.slot_blocks == 0);
    bench_close(&b);
}

/* As many blocks as have room with the slots that go with them, and not one more. */
static void blocks_and_slots_share_what_memory_leaves(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    b.opts.max_seqs = 4;
    for (uint64_t mib = 20; mib <= 900; mib += 41) {
        b.opts.memory_bytes = mib * MIB;
        for (b.opts.n_snapshots = 0; b.opts.n_snapshots < 40; b.opts.n_snapshots += 39) {
            struct lf_plan p = plan(&b);
            assert_true(p.fits && p.total_bytes <= b.opts.memory_bytes);
            uint64_t n_more = (p.kv_tokens + 64 + 8191) / 8192 - (p.kv_tokens + 8191) / 8192;
            uint64_t more = p.kv_block_bytes + (b.opts.n_snapshots ? 0 : n_more) * p.slot_bytes;
            assert_true(p.total_bytes + more > b.opts.memory_bytes);
            assert_int_equal(p.n_slots, 4 + 1 + p.n_snapshots);
            uint64_t by_default = (p.kv_tokens + 8191) / 8192 + 5;
            assert_int_equal(p.n_snapshots, b.opts.n_snapshots ? 39 : (int)by_default);
        }
    }
    bench_close(&b);
}

static void the_largest_context_leaves_room_for_slots(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    expect_longest_ctx(&b);
    bench_close(&b);
}

/* Working slots have a quarter of the memory for the cache; nobody asked for 64 sequences. */
static void fewer_sequences_run_by_default_where_their_states_take_much(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    b.opts.ctx = 64;
    for (uint64_t slots = 0; slots < 72 * 4 + 40; slots += 7) {
        b.opts.max_seqs = 0;
        b.opts.memory_bytes = 0;
        struct lf_plan p = plan(&b);
        assert_int_equal(p.max_seqs, 64);
        uint64_t fixed = p.total_bytes - p.kv_bytes - p.state_bytes;
        b.opts.memory_bytes = fixed + slots * p.slot_bytes;
        p = plan(&b);
        int most = LF_MIN((int)slots / 4, 72), n = 64;
        while (n > 1 && lf_batch_n_slots(n) > most) n--;
        assert_int_equal(p.max_seqs, n);
        assert_int_equal(p.max_out, n);
        assert_int_equal(p.max_seqs_before, n < 64 ? 64 : 0);
        if (n < 64 && n > 1) assert_true(p.fits && p.n_concurrent <= n);
        b.opts.concurrency = 9; /* is not lowered away */
        p = plan(&b);
        assert_int_equal(p.max_seqs, LF_MAX(n, 9));
        b.opts.concurrency = 0;
        b.opts.max_seqs = 64; /* asked for: obeyed, or refused with numbers */
        p = plan(&b);
        assert_true(p.max_seqs == 64 && p.max_seqs_before == 0);
    }
    bench_close(&b);
}

static void sequences_and_snapshots_that_do_not_fit_are_told_how_many_do(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    b.opts.max_seqs = 512;
    b.opts.memory_bytes = 30 * MIB;
    struct lf_plan p = plan(&b);
    assert_true(!p.fits && p.max_seqs == 512);
    b.opts.max_seqs = (int)strtol(strstr(p.advice, "--max-seqs ") + 11, NULL, 10);
    assert_true(b.opts.max_seqs > 1 && plan(&b).fits);
    b.opts.max_seqs++;
    assert_false(plan(&b).fits);
    b.opts.max_seqs = 8;
    b.opts.n_snapshots = 3000;
    p = plan(&b);
    assert_false(p.fits);
    b.opts.n_snapshots = (int)strtol(strstr(p.advice, "--snapshots ") + 12, NULL, 10);
    assert_true(b.opts.n_snapshots > 1 && plan(&b).fits);
    b.opts.n_snapshots++;
    assert_false(plan(&b).fits);
    bench_close(&b);
}

static void refuses_snapshots(struct bench *b, int n, const char *says)
{
    struct lf_plan p;
    struct lf_err err = {0};
    b->opts.n_snapshots = n;
    assert_int_equal(lf_plan_make(&p, &b->hp, b->weight_bytes, lf_device_ops(b->dev), &b->info, &b->opts, &err),
                     LF_INVALID);
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
}

static void snapshots_without_states_or_a_prefix_cache_are_refused(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    refuses_snapshots(&b, 3, "--snapshots is 3, but no layer of LlamaForCausalLM has a state");
    bench_close(&b);
    bench_open_with_states(&b);
    refuses_snapshots(&b, LF_SNAPSHOTS_N + 1, "--snapshots is 65537");
    refuses_snapshots(&b, -1, "--snapshots is -1");
    b.opts.n_snapshots = LF_SNAPSHOTS_N;
    b.info.available_bytes = 10000 * MIB;
    assert_true(plan(&b).fits);
    b.opts.no_prefix_cache = true;
    refuses_snapshots(&b, 3, "--prefix-cache is off");
    bench_close(&b);
}

/* However much the blocks hold. */
static void snapshots_by_default_are_no_more_than_may_be_asked_for(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    b.info.available_bytes = (uint64_t)1 << 42;
    b.opts.kv_tokens = (uint64_t)LF_SNAPSHOTS_N * 8192 + 1;
    struct lf_plan p = plan(&b);
    assert_true(p.fits && p.kv_tokens > (uint64_t)LF_SNAPSHOTS_N * 8192);
    assert_int_equal(p.n_snapshots, LF_SNAPSHOTS_N);
    bench_close(&b);
}

/* Rows of logits that somebody asked for stay, though fewer sequences run. */
static void fewer_sequences_leave_the_rows_that_were_asked_for(void **state)
{
    (void)state;
    struct bench b;
    bench_open_with_states(&b);
    b.opts.ctx = 64;
    b.opts.max_out = 50;
    struct lf_plan p = plan(&b);
    b.opts.memory_bytes = p.total_bytes - p.kv_bytes - p.state_bytes + 40 * p.slot_bytes;
    p = plan(&b);
    assert_true(p.max_seqs < 50 && p.max_seqs_before == 64);
    assert_int_equal(p.max_out, 50);
    bench_close(&b);
}

/* Known before a weight is read, not when the engine starts. */
static void a_gpu_needs_chunks_of_two_blocks_for_states(void **state)
{
    (void)state;
    struct bench b;
    struct lf_plan p;
    struct lf_err err = {0};
    bench_open_with_states(&b);
    b.opts.chunk = b.opts.max_seqs = 127;
    assert_int_equal(plan(&b).chunk, 127); /* on a CPU */
    b.info.is_host = false;
    b.info.act_dtype = LF_BF16;
    assert_int_equal(lf_plan_make(&p, &b.hp, b.weight_bytes, lf_device_ops(b.dev), &b.info, &b.opts, &err), LF_INVALID);
    if (strcmp(err.message,
               "--chunk is 127, but on a GPU Qwen3_5ForCausalLM, whose layers have states, needs 128 at least") != 0)
        fail_msg("%s", err.message);
    bench_close(&b);
}

static void states_have_a_line_of_their_own(void **state)
{
    (void)state;
    struct bench b;
    struct lf_buf out;
    bench_open_with_states(&b);
    struct lf_plan p = plan(&b);
    lf_buf_init(&out, 1 << 16);
    lf_plan_print(&p, &b.hp, &out);
    static const char *const says[] = {
        "full attention           1.95 MiB  a request: 125 blocks, 2 layers in 1 group, 1 KV head of 32\n",
        "  states                     4.56 MiB  32.00 KiB a slot, of 6 layers: 72 for sequences, 74 snapshots\n"};
    for (size_t i = 0; i < 2; i++)
        if (!strstr(out.ptr, says[i])) fail_msg("\"%s\" is not in %s", says[i], out.ptr);
    assert_null(strstr(out.ptr, "max-seqs"));
    lf_buf_clear(&out);
    lf_plan_print_json(&p, &b.hp, &out);
    assert_non_null(strstr(out.ptr, "\"state_layers\":6,\"state_slot_bytes\":32768,\"state_slots\":146,"
                                    "\"snapshots\":74,\"state_bytes\":4784128"));
    b.opts.memory_bytes = p.total_bytes - p.kv_bytes - p.state_bytes + 100 * p.slot_bytes;
    b.opts.ctx = 64;
    p = plan(&b);
    lf_buf_clear(&out);
    lf_plan_print(&p, &b.hp, &out);
    if (!strstr(out.ptr, "    --max-seqs                     23  by default 64, of which the states would take"))
        fail_msg("%s", out.ptr);
    lf_buf_deinit(&out);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_for_all_that_may_run_and_snapshots_lie_behind_the_blocks),
        cmocka_unit_test(blocks_and_slots_share_what_memory_leaves),
        cmocka_unit_test(the_largest_context_leaves_room_for_slots),
        cmocka_unit_test(fewer_sequences_run_by_default_where_their_states_take_much),
        cmocka_unit_test(sequences_and_snapshots_that_do_not_fit_are_told_how_many_do),
        cmocka_unit_test(snapshots_without_states_or_a_prefix_cache_are_refused),
        cmocka_unit_test(snapshots_by_default_are_no_more_than_may_be_asked_for),
        cmocka_unit_test(fewer_sequences_leave_the_rows_that_were_asked_for),
        cmocka_unit_test(a_gpu_needs_chunks_of_two_blocks_for_states),
        cmocka_unit_test(states_have_a_line_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
