/* What is exported is imported bit for bit; a stream that is not whole never brings a wrong block, nor breaks a store.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mix.h"
#include "kv/prefix_cache.h"
#include "kv/tiers/disk_stream.h"
#include "kv/tiers/disk_walk.h"
#include "tests/support/temp_dir.h"

enum {
    BLOCK_BYTES = 4096 + 512, /* a slot is 8,192 */
    SLOT_BYTES = 8192,
    HEAD_BYTES = 512,
    PLACE_BYTES = LF_DISK_RECORD_BYTES + BLOCK_BYTES, /* of a block in a stream */
    STREAM_BYTES = 1 << 20
};

struct fixture {
    struct temp_dir temp;
    char from[512], to[512], file[512]; /* two stores and a stream */
    uint8_t identity[LF_SHA256_BYTES];
    struct lf_disk_kind kind;
    struct lf_disk_found found; /* the last one of a walk */
    int n_found;
    uint8_t *stream; /* STREAM_BYTES */
    size_t n_stream;
    struct lf_disk_moved moved;
    struct lf_err err;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.temp = temp_dir_make();
    temp_dir_path(&f.temp, "from", f.from);
    temp_dir_path(&f.temp, "to", f.to);
    temp_dir_path(&f.temp, "file", f.file);
    f.kind = (struct lf_disk_kind){.name = "full", .block_bytes = BLOCK_BYTES, .share = 1};
    f.stream = malloc(STREAM_BYTES);
    assert_non_null(f.stream);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_remove_tree(&f->temp);
    free(f->stream);
    return 0;
}

/* ---- stores ---- */

struct aligned_block {
    struct lf_disk_block block;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    _Alignas(LF_DISK_ALIGN_BYTES) uint8_t bytes[SLOT_BYTES];
};

static struct aligned_block *make_block(int number)
{
    static struct aligned_block b;
    for (size_t i = 0; i < BLOCK_BYTES; i++) b.bytes[i] = (uint8_t)lf_random64((uint64_t)number, i);
    for (int i = 0; i < LF_KV_BLOCK_TOKENS; i++) b.ids[i] = number + i;
    memset(&b.block.prev, 1, sizeof(b.block.prev));
    lf_prefix_key_next(&b.block.prev, b.ids, LF_KV_BLOCK_TOKENS, &b.block.key);
    if (number % 3 == 2) b.block.key = lf_prefix_group_key(&b.block.key, 16 + 100 * number % 60000); /* of a state */
    b.block.ids = b.ids;
    b.block.origin = (struct lf_prefix_origin){.tenant = (uint64_t)number % 2, .depth = 64};
    b.block.bytes = b.bytes;
    return &b;
}

static void open_store(struct fixture *f, struct lf_disk_store *store, const char *dir, uint32_t n_slots)
{
    struct lf_disk_store_opts opts = {.dir = dir,
                                      .about = "a \x01model",
                                      .identity = f->identity,
                                      .budget_bytes = n_slots * (uint64_t)(SLOT_BYTES + LF_DISK_RECORD_BYTES),
                                      .kinds = &f->kind,
                                      .n_kinds = 1};
    if (lf_disk_store_open(store, &opts, &f->err) != LF_OK) fail_msg("%s", f->err.message);
}

/* Blocks first to end - 1. */
static void make_store(struct fixture *f, const char *dir, uint32_t n_slots, int first, int end)
{
    struct lf_disk_store store = {0};
    open_store(f, &store, dir, n_slots);
    for (int i = first; i < end; i++) {
        uint32_t n_listed;
        assert_int_equal(lf_disk_table_put(store.tables[0], &make_block(i)->block, 1, &n_listed, NULL), LF_OK);
        assert_int_equal(n_listed, 1);
    }
    lf_disk_store_close(&store);
}

/* Whether a store has a block; it is the one that was put, and no other. */
static bool has(struct lf_disk_store *store, int number)
{
    _Alignas(LF_DISK_ALIGN_BYTES) static uint8_t bytes[SLOT_BYTES];
    struct aligned_block *b = make_block(number);
    int32_t slot = lf_disk_table_get(store->tables[0], &b->block.key);
    if (slot < 0) return false;
    assert_int_equal(lf_disk_table_read(store->tables[0], slot, &b->block.prev, b->ids, bytes, NULL), LF_OK);
    assert_memory_equal(bytes, b->bytes, BLOCK_BYTES);
    lf_disk_table_release(store->tables[0], slot);
    return true;
}

/* How many of the blocks 0 to n - 1 the store has, all whole. */
static int count(struct fixture *f, const char *dir, uint32_t n_slots, int n)
{
    struct lf_disk_store store = {0};
    int n_there = 0;
    open_store(f, &store, dir, n_slots);
    lf_disk_table_check(store.tables[0]);
    for (int i = 0; i < n; i++) n_there += has(&store, i) ? 1 : 0;
    lf_disk_store_close(&store);
    return n_there;
}

static bool note(void *ctx, const struct lf_disk_found *found)
{
    struct fixture *f = ctx;
    f->found = *found;
    f->n_found++;
    assert_int_equal(found->n_broken + found->n_bad_records, 0);
    return true;
}

static void walk(struct fixture *f, const char *dir)
{
    f->n_found = 0;
    if (lf_disk_walk(dir, true, note, f, &f->err) != LF_OK) fail_msg("%s", f->err.message);
}

static void flip_in(const struct fixture *f, const char *dir, const char *name, uint64_t offset)
{
    char path[1200];
    uint8_t byte;
    snprintf(path, sizeof(path), "%s/%s/%s", dir, f->found.identity, name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= 2;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* ---- streams ---- */

static bool any(void *ctx, const char *identity)
{
    (void)ctx;
    return strlen(identity) == 64;
}

static void export(struct fixture *f)
{
    const struct lf_disk_end to = {open(f->file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "file"};
    if (lf_disk_export(&f->moved, f->from, &to, any, NULL, &f->err) != LF_OK) fail_msg("%s", f->err.message);
    ssize_t n = pread(to.fd, f->stream, STREAM_BYTES, 0);
    assert_true(n > 0 && n < STREAM_BYTES);
    f->n_stream = (size_t)n;
    assert_int_equal(f->moved.bytes, f->n_stream);
    close(to.fd);
}

static enum lf_status import(struct fixture *f, const uint8_t *bytes, size_t n, bool makes)
{
    temp_dir_write(&f->temp, "file", bytes, n);
    const struct lf_disk_end from = {open(f->file, O_RDONLY | O_CLOEXEC), "file"};
    enum lf_status status = lf_disk_import(&f->moved, f->to, &from, makes, &f->err);
    close(from.fd);
    return status;
}

static void import_whole(struct fixture *f, bool makes)
{
    if (import(f, f->stream, f->n_stream, makes) != LF_OK) fail_msg("%s", f->err.message);
}

static void what_is_exported_is_imported_bit_for_bit(void **state)
{
    struct fixture *f = *state;
    make_store(f, f->from, 100, 0, 70); /* more than a batch */
    make_store(f, f->to, 200, 60, 62);
    export(f);
    assert_int_equal(f->moved.n_blocks, 70);
    assert_int_equal(f->moved.n_tokens, 70 * LF_KV_BLOCK_TOKENS);
    assert_int_equal(f->n_stream, HEAD_BYTES + 70 * PLACE_BYTES);
    import_whole(f, false);
    assert_int_equal(f->moved.n_blocks, 70);
    assert_int_equal(f->moved.n_tokens, 70 * LF_KV_BLOCK_TOKENS);
    assert_int_equal(f->moved.n_there, 2);
    assert_int_equal(f->moved.n_gone, 0);
    assert_int_equal(f->moved.bytes, f->n_stream);
    assert_int_equal(count(f, f->to, 200, 80), 70);
    import_whole(f, false); /* once more changes nothing */
    assert_int_equal(f->moved.n_there, 70);
    assert_int_equal(count(f, f->to, 200, 80), 70);
}

/* The head as the essay in disk_stream.h has it. */
static void the_format_is_the_one_that_is_written_down(void **state)
{
    struct fixture *f = *state;
    uint8_t head[HEAD_BYTES] = "LFKVexp1", sha[LF_SHA256_BYTES], digits[3] = {0};
    struct lf_disk_record r;
    make_store(f, f->from, 10, 5, 8);
    walk(f, f->from);
    export(f);
    head[12] = 1;
    head[16] = 3;
    head[24] = BLOCK_BYTES & 255;
    head[25] = BLOCK_BYTES >> 8;
    for (int i = 0; i < 32; i++) {
        memcpy(digits, f->found.identity + 2 * i, 2);
        head[32 + i] = (uint8_t)strtoul((char *)digits, NULL, 16);
    }
    memcpy(head + 64, "full", 4);
    memcpy(head + 80, "a ?model", 8);
    lf_sha256(head, 480, head + 480);
    assert_memory_equal(f->stream, head, sizeof(head));
    for (uint64_t i = 0; i < 3; i++) {
        const uint8_t *at = f->stream + HEAD_BYTES + i * PLACE_BYTES;
        struct aligned_block *b = make_block(5 + (int)i);
        assert_int_equal(lf_disk_record_decode(&r, i, at), LF_DISK_RECORD_WHOLE);
        assert_memory_equal(r.ids, b->ids, sizeof(r.ids));
        assert_true(r.origin.tenant == b->block.origin.tenant && r.origin.depth == 64);
        assert_memory_equal(at + LF_DISK_RECORD_BYTES, b->bytes, BLOCK_BYTES);
        lf_sha256(b->bytes, BLOCK_BYTES, sha);
        assert_memory_equal(sha, r.data_sha, sizeof(sha));
    }
    assert_int_equal(f->n_stream, HEAD_BYTES + 3 * PLACE_BYTES);
}

static void a_stream_that_ends_anywhere_is_refused_and_leaves_a_whole_store(void **state)
{
    struct fixture *f = *state;
    int most = 0;
    make_store(f, f->from, 10, 0, 6);
    make_store(f, f->to, 10, 0, 0);
    export(f);
    for (size_t n = 0; n < f->n_stream; n += 1 + lf_random64(1, n) % 400) {
        assert_int_equal(import(f, f->stream, n, false), LF_CORRUPT);
        assert_non_null(strstr(f->err.message, "ends in the middle"));
        int expected = n < HEAD_BYTES ? 0 : (int)((n - HEAD_BYTES) / PLACE_BYTES);
        assert_int_equal(f->moved.n_blocks, expected);
        most = expected > most ? expected : most;
        assert_int_equal(count(f, f->to, 10, 6), most);
        walk(f, f->to);
    }
    assert_int_equal(most, 5);
    f->stream[f->n_stream] = 0;
    assert_int_equal(import(f, f->stream, f->n_stream + 1, false), LF_CORRUPT);
    assert_non_null(strstr(f->err.message, "goes on behind its end"));
    assert_int_equal(count(f, f->to, 10, 6), 6);
}

static void every_flipped_bit_is_noticed_and_no_wrong_block_is_listed(void **state)
{
    struct fixture *f = *state;
    make_store(f, f->from, 10, 0, 4);
    export(f);
    for (uint64_t i = 0; i < 1500; i++) {
        /* heads and records as often as all the rest */
        uint64_t at = lf_random64(2, i) % f->n_stream;
        if (i % 2) at = at % (HEAD_BYTES + LF_DISK_RECORD_BYTES);
        make_store(f, f->to, 10, 0, 0);
        f->stream[at] ^= (uint8_t)(1 << i % 8);
        enum lf_status status = import(f, f->stream, f->n_stream, true);
        assert_true(status == LF_CORRUPT || (at < 8 && status == LF_UNSUPPORTED));
        uint64_t expected = at < HEAD_BYTES ? 0 : (at - HEAD_BYTES) / PLACE_BYTES;
        assert_int_equal(f->moved.n_blocks, expected);
        assert_int_equal(count(f, f->to, 10, 4), expected);
        f->stream[at] ^= (uint8_t)(1 << i % 8);
        walk(f, f->to);
        assert_int_equal(f->n_found, 1);
        assert_int_equal(lf_disk_remove(f->to, f->found.identity, &f->err), LF_OK);
    }
}

static void what_was_put_together_otherwise_is_noticed(void **state)
{
    struct fixture *f = *state;
    uint8_t *first = f->stream + HEAD_BYTES, copy[PLACE_BYTES];
    make_store(f, f->from, 10, 0, 4);
    make_store(f, f->to, 10, 0, 0);
    export(f);
    memcpy(copy, first, PLACE_BYTES); /* two blocks change places */
    memmove(first, first + PLACE_BYTES, PLACE_BYTES);
    memcpy(first + PLACE_BYTES, copy, PLACE_BYTES);
    assert_int_equal(import(f, f->stream, f->n_stream, false), LF_CORRUPT);
    assert_int_equal(f->moved.n_blocks, 0);
    export(f); /* one is gone */
    memmove(first, first + PLACE_BYTES, f->n_stream - HEAD_BYTES - PLACE_BYTES);
    assert_int_equal(import(f, f->stream, f->n_stream - PLACE_BYTES, false), LF_CORRUPT);
    assert_int_equal(count(f, f->to, 10, 4), 0);
}

/* A record whose key is not that of its ids, under a right checksum. */
static void a_block_under_another_texts_key_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_record r;
    uint8_t *first = f->stream + HEAD_BYTES;
    make_store(f, f->from, 10, 0, 1);
    make_store(f, f->to, 10, 0, 0);
    export(f);
    assert_int_equal(lf_disk_record_decode(&r, 0, first), LF_DISK_RECORD_WHOLE);
    r.ids[7]++;
    lf_disk_record_encode(&r, 0, first);
    assert_int_equal(import(f, f->stream, f->n_stream, false), LF_CORRUPT);
    walk(f, f->to);
    assert_int_equal(f->found.n_listed, 0);
}

/* Names and numbers that no export writes, under a right checksum: a kind is the name of a file. */
static void heads_that_cannot_be_are_refused(void **state)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t n;
        enum lf_status status;
    } cases[] = {
        {7, "2", 1, LF_UNSUPPORTED},       {64, "../../x", 8, LF_CORRUPT},
        {64, "\0\0\0\0", 4, LF_CORRUPT},   {16, "\0", 1, LF_CORRUPT}, /* no blocks */
        {20, "\1", 1, LF_CORRUPT},                                    /* more than 2^32 */
        {24, "\0\0", 2, LF_CORRUPT},                                  /* blocks of no bytes */
        {28, "\1", 1, LF_CORRUPT},                                    /* of more than 4 GiB */
        {24, "\1\0\0\x40", 4, LF_CORRUPT},                            /* one more than the limit */
        {12, "\0", 1, LF_CORRUPT},                                    /* of no sections */
        {8, "\1", 1, LF_CORRUPT},                                     /* not the first one */
        {12, "\2", 1, LF_CORRUPT},                                    /* the second one is not there */
    };
    struct fixture *f = *state;
    make_store(f, f->from, 10, 0, 2);
    make_store(f, f->to, 10, 0, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        export(f);
        memcpy(f->stream + cases[i].at, cases[i].bytes, cases[i].n);
        lf_sha256(f->stream, 480, f->stream + 480);
        if (import(f, f->stream, f->n_stream, true) != cases[i].status) fail_msg("case %zu: %s", i, f->err.message);
        walk(f, f->to);
        assert_int_equal(f->n_found, 1);
    }
}

static void another_identity_is_refused_by_name_or_made(void **state)
{
    struct fixture *f = *state;
    make_store(f, f->from, 10, 0, 3);
    walk(f, f->from);
    char identity[LF_DISK_NAME_BYTES];
    memcpy(identity, f->found.identity, sizeof(identity));
    export(f);
    f->identity[0] = 1;
    make_store(f, f->to, 10, 0, 1);
    assert_int_equal(import(f, f->stream, f->n_stream, false), LF_INVALID);
    assert_non_null(strstr(f->err.message, identity));
    assert_non_null(strstr(f->err.message, "(a ?model)"));
    walk(f, f->to);
    assert_int_equal(f->n_found, 1);
    import_whole(f, true);
    walk(f, f->to);
    assert_int_equal(f->n_found, 2);
    assert_int_equal(count(f, f->to, 10, 3), 1); /* its own blocks are as they were */
    f->identity[0] = 0;
    assert_int_equal(count(f, f->to, 10, 3), 3);
    import_whole(f, false); /* now it is there */
}

/* Within the room that there is; of those that make room for others the ones written first go first. */
static void a_store_that_is_too_small_keeps_what_came_last(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    make_store(f, f->from, 100, 0, 90);
    make_store(f, f->to, 20, 200, 210);
    export(f);
    import_whole(f, false);
    assert_int_equal(f->moved.n_gone, 10 + 70);
    open_store(f, &store, f->to, 20);
    for (int i = 0; i < 90; i++) assert_int_equal(has(&store, i), i >= 70);
    for (int i = 200; i < 210; i++) assert_false(has(&store, i));
    lf_disk_store_close(&store);
}

static void a_broken_block_is_left_out(void **state)
{
    struct fixture *f = *state;
    make_store(f, f->from, 10, 0, 5);
    make_store(f, f->to, 10, 0, 0);
    walk(f, f->from);
    flip_in(f, f->from, "full.data", 2 * SLOT_BYTES + 99);
    flip_in(f, f->from, "full.index", 4 * LF_DISK_RECORD_BYTES + 99); /* and this one is not even listed */
    export(f);
    assert_int_equal(f->moved.n_blocks, 3);
    assert_int_equal(f->moved.n_broken, 1);
    import_whole(f, false);
    assert_int_equal(f->moved.n_blocks, 3);
    assert_int_equal(f->moved.n_broken, 1);
    struct lf_disk_store store = {0};
    open_store(f, &store, f->to, 10);
    for (int i = 0; i < 5; i++) assert_int_equal(has(&store, i), i != 2 && i != 4);
    lf_disk_store_close(&store);
}

static void several_identities_are_several_sections(void **state)
{
    struct fixture *f = *state;
    for (uint8_t i = 0; i < 3; i++) {
        f->identity[0] = i;
        make_store(f, f->from, 10, 0, i == 1 ? 0 : 2 + i); /* one without blocks: it is no section */
    }
    export(f);
    assert_int_equal(f->n_stream, 2 * HEAD_BYTES + (2 + 4) * PLACE_BYTES);
    assert_int_equal(mkdir(f->to, 0700), 0);
    import_whole(f, true);
    walk(f, f->to);
    assert_int_equal(f->n_found, 2);
    for (uint8_t i = 0; i < 3; i += 2) {
        f->identity[0] = i;
        assert_int_equal(count(f, f->to, 10, 10), 2 + i);
    }
    /* the second half alone */
    size_t n_first = f->stream[16] == 2 ? HEAD_BYTES + 2 * PLACE_BYTES : HEAD_BYTES + 4 * PLACE_BYTES;
    assert_int_equal(import(f, f->stream + n_first, f->n_stream - n_first, true), LF_CORRUPT);
    /* the second half says that there is but one */
    f->stream[n_first + 12] = 1;
    lf_sha256(f->stream + n_first, 480, f->stream + n_first + 480);
    assert_int_equal(import(f, f->stream, f->n_stream, true), LF_CORRUPT);
    assert_non_null(strstr(f->err.message, "a section is not in its place"));
}

static void a_store_without_blocks_has_nothing_to_export(void **state)
{
    struct fixture *f = *state;
    const struct lf_disk_end to = {STDERR_FILENO, "standard error"};
    make_store(f, f->from, 10, 0, 0);
    assert_int_equal(lf_disk_export(&f->moved, f->from, &to, any, NULL, &f->err), LF_NOT_FOUND);
}

static void a_disk_that_is_full_is_said(void **state)
{
    struct fixture *f = *state;
    const struct lf_disk_end to = {open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full"};
    make_store(f, f->from, 10, 0, 2);
    assert_true(to.fd >= 0);
    assert_int_equal(lf_disk_export(&f->moved, f->from, &to, any, NULL, &f->err), LF_FULL);
    assert_non_null(strstr(f->err.message, "/dev/full"));
    close(to.fd);
}

/* The second batch finds no room: what is said to be imported is there. */
static void what_found_no_room_is_not_counted(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, less;
    make_store(f, f->from, 100, 0, 70);
    make_store(f, f->to, 100, 0, 0);
    export(f);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = (struct rlimit){66 * SLOT_BYTES, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    enum lf_status status = import(f, f->stream, f->n_stream, false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, LF_FULL);
    assert_int_equal(f->moved.n_blocks, LF_DISK_BATCH_N);
    assert_int_equal(count(f, f->to, 100, 70), LF_DISK_BATCH_N);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_exported_is_imported_bit_for_bit),
        TEST(the_format_is_the_one_that_is_written_down),
        TEST(a_stream_that_ends_anywhere_is_refused_and_leaves_a_whole_store),
        TEST(every_flipped_bit_is_noticed_and_no_wrong_block_is_listed),
        TEST(what_was_put_together_otherwise_is_noticed),
        TEST(a_block_under_another_texts_key_is_refused),
        TEST(heads_that_cannot_be_are_refused),
        TEST(another_identity_is_refused_by_name_or_made),
        TEST(a_store_that_is_too_small_keeps_what_came_last),
        TEST(a_broken_block_is_left_out),
        TEST(several_identities_are_several_sections),
        TEST(a_store_without_blocks_has_nothing_to_export),
        TEST(a_disk_that_is_full_is_said),
        TEST(what_found_no_room_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
