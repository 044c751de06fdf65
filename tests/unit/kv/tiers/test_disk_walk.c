/* What is said of a store from outside is what is in it, and saying it changes nothing. */
#include <sys/wait.h>
#include <unistd.h>

#include "core/mix.h"
#include "kv/prefix_cache.h"
#include "kv/tiers/disk_lock.h"
#include "core/check.h"
#include "kv/tiers/disk_walk.h"
#include "tests/support/temp_dir.h"

enum {
    BLOCK_BYTES = 4096 + 512, /* a slot is 8,192 */
    SLOT_BYTES = 8192,
    SLOTS_N = 12,
    FOUND_N = 8
};

struct fixture {
    struct temp_dir temp;
    char dir[512];
    uint8_t identity[LF_SHA256_BYTES];
    struct lf_disk_kind kind;
    struct lf_disk_store_opts opts;
    struct lf_disk_found found[FOUND_N]; /* of the last walk */
    int n_found, n_wanted;
    struct lf_err err;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    f.temp = temp_dir_make();
    temp_dir_path(&f.temp, "cache", f.dir);
    f.kind = (struct lf_disk_kind){.name = "full", .block_bytes = BLOCK_BYTES, .share = 1};
    f.opts = (struct lf_disk_store_opts){.dir = f.dir,
                                         .about = "a model",
                                         .identity = f.identity,
                                         .budget_bytes = SLOTS_N * (SLOT_BYTES + LF_DISK_RECORD_BYTES),
                                         .kinds = &f.kind,
                                         .n_kinds = 1};
    f.n_wanted = FOUND_N;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_remove_tree(&f->temp);
    return 0;
}

/* ---- a store with blocks ---- */

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
    b.block.ids = b.ids;
    b.block.bytes = b.bytes;
    return &b;
}

static void put(struct lf_disk_store *store, int number)
{
    uint32_t n_listed;
    assert_int_equal(lf_disk_table_put(store->tables[0], &make_block(number)->block, 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
}

/* What reading it says, and nothing else: a broken one is dropped. */
static enum lf_status read_block(struct lf_disk_store *store, int number)
{
    _Alignas(LF_DISK_ALIGN_BYTES) static uint8_t bytes[SLOT_BYTES];
    struct aligned_block *b = make_block(number);
    int32_t slot = lf_disk_table_get(store->tables[0], &b->block.key);
    assert_true(slot >= 0);
    enum lf_status status = lf_disk_table_read(store->tables[0], slot, &b->block.prev, b->ids, bytes, NULL);
    lf_disk_table_release(store->tables[0], slot);
    return status;
}

/* Blocks 1 to n, in slots 0 to n - 1 or others. */
static void make_store(struct fixture *f, int n)
{
    struct lf_disk_store store = {0};
    if (lf_disk_store_open(&store, &f->opts, &f->err) != LF_OK) fail_msg("%s", f->err.message);
    for (int i = 1; i <= n; i++) put(&store, i);
    lf_disk_store_close(&store);
}

static void file_path(const struct fixture *f, const struct lf_disk_found *found, const char *name, char out[1024])
{
    snprintf(out, 1024, "%s/%s/%s", f->dir, found->identity, name);
}

static void flip(const char *path, uint64_t offset, int bit)
{
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* ---- walking ---- */

static bool note(void *ctx, const struct lf_disk_found *found)
{
    struct fixture *f = ctx;
    assert_true(f->n_found < FOUND_N);
    f->found[f->n_found++] = *found;
    return f->n_found < f->n_wanted;
}

static void walk(struct fixture *f, bool reads)
{
    f->n_found = 0;
    if (lf_disk_walk(f->dir, reads, note, f, &f->err) != LF_OK) fail_msg("%s", f->err.message);
}

static void a_store_is_described(void **state)
{
    struct fixture *f = *state;
    make_store(f, 5);
    for (int reads = 0; reads < 2; reads++) {
        walk(f, reads);
        assert_int_equal(f->n_found, 1);
        const struct lf_disk_found *found = &f->found[0];
        assert_int_equal(strlen(found->identity), 64);
        assert_string_equal(found->about, "a model");
        assert_string_equal(found->kind, "full");
        assert_int_equal(found->n_slots, SLOTS_N);
        assert_int_equal(found->n_listed, 5);
        assert_int_equal(found->n_tokens, 5 * LF_KV_BLOCK_TOKENS);
        assert_int_equal(found->n_bad_records, 0);
        assert_int_equal(found->n_broken, 0);
        assert_true(found->disk_bytes >= 5 * SLOT_BYTES && found->disk_bytes <= f->opts.budget_bytes + 8192);
        assert_true(found->written_s > 1700000000);
    }
}

/* Bits of blocks, one after the other: the count says how many blocks are broken, not how many bits. */
static void every_flipped_bit_of_a_block_is_found(void **state)
{
    struct fixture *f = *state;
    char path[1024];
    make_store(f, 5);
    walk(f, true);
    file_path(f, &f->found[0], "full.data", path);
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t slot = i % 5, at = slot * SLOT_BYTES + lf_random64(5, i) % BLOCK_BYTES;
        flip(path, at, (int)(i % 8));
        walk(f, true);
        assert_int_equal(f->found[0].n_broken, 1);
        assert_int_equal(f->found[0].n_listed, 5);
        flip(path, at, (int)(i % 8));
    }
    for (uint64_t slot = 0; slot < 4; slot++) flip(path, slot * SLOT_BYTES + 7, 3);
    walk(f, true);
    assert_int_equal(f->found[0].n_broken, 4);
    walk(f, false); /* without reading it nobody knows */
    assert_int_equal(f->found[0].n_broken, 0);
}

static void what_fills_a_slot_behind_its_block_is_not_looked_at(void **state)
{
    struct fixture *f = *state;
    char path[1024];
    make_store(f, 2);
    walk(f, false);
    file_path(f, &f->found[0], "full.data", path);
    flip(path, BLOCK_BYTES, 0);
    walk(f, true);
    assert_int_equal(f->found[0].n_broken, 0);
}

static void a_flipped_bit_of_a_record_unlists_its_block(void **state)
{
    struct fixture *f = *state;
    char path[1024];
    make_store(f, 5);
    walk(f, false);
    file_path(f, &f->found[0], "full.index", path);
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t at = lf_random64(6, i) % (5 * LF_DISK_RECORD_BYTES);
        flip(path, at, (int)(i % 8));
        walk(f, true);
        assert_int_equal(f->found[0].n_listed, 4);
        assert_int_equal(f->found[0].n_bad_records, 1);
        assert_int_equal(f->found[0].n_broken, 0);
        flip(path, at, (int)(i % 8));
    }
}

/* A block that was broken when it was read was computed anew and written to another slot. Its old record is still
 * there, and nobody asks for it. */
static void of_two_records_of_a_block_the_newer_one_counts(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    char path[1024];
    make_store(f, 3);
    walk(f, false);
    file_path(f, &f->found[0], "full.data", path);
    for (uint64_t slot = 0; slot < 3; slot++) flip(path, slot * SLOT_BYTES, 0);
    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_OK);
    put(&store, 4); /* takes a slot that was free, so that 2 gets another one than it had */
    assert_int_equal(read_block(&store, 2), LF_CORRUPT);
    put(&store, 5);
    put(&store, 2);
    lf_disk_store_close(&store);
    walk(f, true);
    assert_int_equal(f->found[0].n_listed, 5);
    assert_int_equal(f->found[0].n_broken, 2); /* 1 and 3 */
}

static void without_its_data_everything_is_broken(void **state)
{
    struct fixture *f = *state;
    char path[1024];
    make_store(f, 5);
    walk(f, false);
    file_path(f, &f->found[0], "full.data", path);
    assert_int_equal(truncate(path, 2 * SLOT_BYTES), 0);
    walk(f, true);
    assert_int_equal(f->found[0].n_broken, 3);
    assert_int_equal(unlink(path), 0);
    walk(f, true);
    assert_int_equal(f->found[0].n_broken, 5);
}

static void identities_come_in_order_and_the_walk_ends_when_it_is_told(void **state)
{
    struct fixture *f = *state;
    for (uint8_t i = 0; i < 4; i++) {
        f->identity[0] = i;
        make_store(f, i);
    }
    walk(f, true);
    assert_int_equal(f->n_found, 4);
    uint32_t n_listed = 0;
    for (int i = 0; i < 4; i++) {
        n_listed += f->found[i].n_listed;
        if (i > 0) assert_true(strcmp(f->found[i - 1].identity, f->found[i].identity) < 0);
    }
    assert_int_equal(n_listed, 0 + 1 + 2 + 3);
    f->n_wanted = 2;
    walk(f, true);
    assert_int_equal(f->n_found, 2);
}

/* All bytes of both files, and when they were changed. */
static void fingerprint(const struct fixture *f, uint8_t out[LF_SHA256_BYTES])
{
    static uint8_t bytes[SLOTS_N * SLOT_BYTES];
    const char *const names[] = {"about", "full.index", "full.data"};
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    for (int i = 0; i < 3; i++) {
        char path[1024];
        struct stat st;
        file_path(f, &f->found[0], names[i], path);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, bytes, sizeof(bytes));
        assert_true(n > 0 && fstat(fd, &st) == 0);
        lf_sha256_update(&sha, bytes, (size_t)n);
        lf_sha256_update(&sha, &st.st_mtim, sizeof(st.st_mtim));
        close(fd);
    }
    lf_sha256_final(&sha, out);
}

static void reading_a_store_changes_nothing_in_it(void **state)
{
    struct fixture *f = *state;
    uint8_t before[LF_SHA256_BYTES], after[LF_SHA256_BYTES];
    char path[1024];
    make_store(f, 5);
    walk(f, false);
    file_path(f, &f->found[0], "full.data", path);
    flip(path, 100, 1);
    fingerprint(f, before);
    walk(f, true);
    assert_int_equal(f->found[0].n_broken, 1);
    fingerprint(f, after);
    assert_memory_equal(before, after, sizeof(after));
}

static void what_is_none_of_the_stores_is_left_alone(void **state)
{
    struct fixture *f = *state;
    char path[1024], link[1024];
    make_store(f, 1);
    walk(f, false);
    snprintf(path, sizeof(path), "%s/%s", f->dir, f->found[0].identity);
    snprintf(link, sizeof(link), "%s/%064d", f->dir, 7); /* a name as an identity has it, and a link */
    assert_int_equal(symlink(path, link), 0);
    snprintf(path, sizeof(path), "%s/notes", f->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    walk(f, false);
    assert_int_equal(f->n_found, 1);
    assert_int_equal(lf_disk_remove(f->dir, strrchr(link, '/') + 1, &f->err), LF_NOT_FOUND);
    assert_int_equal(lf_disk_remove(f->dir, f->found[0].identity, &f->err), LF_OK);
    assert_int_equal(lf_disk_remove(f->dir, f->found[0].identity, &f->err), LF_NOT_FOUND);
    walk(f, false);
    assert_int_equal(f->n_found, 0);
    assert_int_equal(access(path, F_OK), 0);
}

static void a_directory_that_a_crash_left_without_blocks_is_seen_and_removed(void **state)
{
    struct fixture *f = *state;
    char path[1024];
    make_store(f, 0);
    walk(f, false);
    file_path(f, &f->found[0], "full.index", path);
    assert_int_equal(unlink(path), 0);
    walk(f, true);
    assert_int_equal(f->n_found, 1);
    assert_string_equal(f->found[0].kind, "");
    assert_int_equal(lf_disk_remove(f->dir, f->found[0].identity, &f->err), LF_OK);
}

static void a_line_about_a_model_has_no_control_characters(void **state)
{
    struct fixture *f = *state;
    f->opts.about = "a\x1b[31mmodel\nwith two lines";
    make_store(f, 0);
    walk(f, false);
    assert_string_equal(f->found[0].about, "a?[31mmodel");
}

/* C1 has the terminal's escapes too, and cut UTF-8 would take what follows it. */
static void nor_those_of_C1_or_bytes_of_no_text(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {{"\xc3\xa9\xc2\x9b"
                  "31m",
                  "\xc3\xa9??31m"},
                 {"a\x9b"
                  "31m",
                  "a?31m"},
                 {"a\xc2", "a?"},
                 {"\x7f\xc2\x80\xc2\xa0", "???\xc2\xa0"}};
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        char text[32];
        snprintf(text, sizeof(text), "%s", cases[i].text);
        lf_disk_clean_about(text);
        assert_string_equal(text, cases[i].shown);
    }
    (void)state;
}

static void what_is_no_directory_is_said(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lf_disk_walk(f->dir, true, note, f, &f->err), LF_NOT_FOUND);
    temp_dir_write_text(&f->temp, "cache", "x");
    assert_int_equal(lf_disk_walk(f->dir, true, note, f, &f->err), LF_INVALID);
}

/* ---- the lock ---- */

static void readers_share_a_store_and_writers_do_not(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    int one, two, writer;
    char expected[64];
    assert_int_equal(lf_disk_lock_to_read(&one, f->temp.path, &f->err), LF_OK); /* never locked: nothing is written */
    assert_int_equal(one, -1);
    assert_int_equal(rmdir(f->temp.path), 0);
    assert_int_equal(mkdir(f->temp.path, 0700), 0);

    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_OK);
    assert_int_equal(lf_disk_lock_to_read(&one, f->dir, &f->err), LF_INVALID);
    snprintf(expected, sizeof(expected), "in use by another process, %ld", (long)getpid());
    assert_non_null(strstr(f->err.message, expected));
    lf_disk_store_close(&store);

    assert_int_equal(lf_disk_lock_to_read(&one, f->dir, &f->err), LF_OK);
    assert_int_equal(lf_disk_lock_to_read(&two, f->dir, &f->err), LF_OK);
    assert_int_equal(lf_disk_lock(&writer, f->dir, &f->err), LF_INVALID);
    close(one);
    close(two);
    assert_int_equal(lf_disk_lock(&writer, f->dir, &f->err), LF_OK);
    close(writer);
}

/* Who only reads leaves the number of the process before it in the file. */
static void the_number_of_a_process_that_has_ended_is_not_named(void **state)
{
    struct fixture *f = *state;
    int reader, writer;
    make_store(f, 0);
    pid_t child = fork();
    if (child == 0) _exit(lf_disk_lock(&writer, f->dir, NULL) == LF_OK ? 0 : 1);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(lf_disk_lock_to_read(&reader, f->dir, &f->err), LF_OK);
    assert_int_equal(lf_disk_lock(&writer, f->dir, &f->err), LF_INVALID);
    const char *end = "in use by another process";
    assert_string_equal(f->err.message + strlen(f->err.message) - strlen(end), end);
    close(reader);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_store_is_described),
        TEST(every_flipped_bit_of_a_block_is_found),
        TEST(what_fills_a_slot_behind_its_block_is_not_looked_at),
        TEST(a_flipped_bit_of_a_record_unlists_its_block),
        TEST(of_two_records_of_a_block_the_newer_one_counts),
        TEST(without_its_data_everything_is_broken),
        TEST(identities_come_in_order_and_the_walk_ends_when_it_is_told),
        TEST(reading_a_store_changes_nothing_in_it),
        TEST(what_is_none_of_the_stores_is_left_alone),
        TEST(a_directory_that_a_crash_left_without_blocks_is_seen_and_removed),
        TEST(a_line_about_a_model_has_no_control_characters),
        TEST(nor_those_of_C1_or_bytes_of_no_text),
        TEST(what_is_no_directory_is_said),
        TEST(readers_share_a_store_and_writers_do_not),
        TEST(the_number_of_a_process_that_has_ended_is_not_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
