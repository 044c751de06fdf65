#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/prefix_cache.h"
#include "kv/tiers/disk_lock.h"
#include "kv/tiers/disk_store.h"
#include "tests/support/temp_dir.h"

enum { BLOCK_BYTES = 8192, BUDGET = 10 * (BLOCK_BYTES + LF_DISK_RECORD_BYTES) };

struct fixture {
    struct temp_dir temp;
    char dir[512];
    uint8_t identity[LF_SHA256_BYTES];
    struct lf_disk_kind kind;
    struct lf_disk_store_opts opts;
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
                                         .budget_bytes = BUDGET,
                                         .kinds = &f.kind,
                                         .n_kinds = 1};
    *state = &f;
    return 0;
}

/* Entries of the store's directory beside the lock, and the name of one. */
static int n_entries(const char *dir, char last[256])
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "lock") == 0) continue;
        n++;
        if (last) snprintf(last, 256, "%s", e->d_name);
    }
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_remove_tree(&f->temp);
    return 0;
}

static void open_store(struct fixture *f, struct lf_disk_store *store)
{
    if (lf_disk_store_open(store, &f->opts, &f->err) != LF_OK) fail_msg("%s", f->err.message);
}

struct aligned_block {
    struct lf_disk_block block;
    int32_t ids[LF_KV_BLOCK_TOKENS];
    _Alignas(LF_DISK_ALIGN_BYTES) uint8_t bytes[BLOCK_BYTES];
};

static void make_block(struct aligned_block *b, int number)
{
    memset(b->bytes, number, sizeof(b->bytes));
    for (int i = 0; i < LF_KV_BLOCK_TOKENS; i++) b->ids[i] = number;
    memset(&b->block.prev, 1, sizeof(b->block.prev));
    lf_prefix_key_next(&b->block.prev, b->ids, LF_KV_BLOCK_TOKENS, &b->block.key);
    b->block.ids = b->ids;
    b->block.bytes = b->bytes;
}

static void put(struct lf_disk_store *store, int number)
{
    static struct aligned_block b;
    uint32_t n_listed;
    make_block(&b, number);
    assert_int_equal(lf_disk_table_put(store->tables[0], &b.block, 1, &n_listed, NULL), LF_OK);
    assert_int_equal(n_listed, 1);
}

static bool reads(struct lf_disk_store *store, int number)
{
    static struct aligned_block b;
    _Alignas(LF_DISK_ALIGN_BYTES) static uint8_t bytes[BLOCK_BYTES];
    make_block(&b, number);
    int32_t slot = lf_disk_table_get(store->tables[0], &b.block.key);
    if (slot < 0) return false;
    assert_int_equal(lf_disk_table_read(store->tables[0], slot, &b.block.prev, b.ids, bytes, NULL), LF_OK);
    lf_disk_table_release(store->tables[0], slot);
    assert_memory_equal(bytes, b.bytes, BLOCK_BYTES);
    return true;
}

static void blocks_survive_a_restart(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    open_store(f, &store);
    for (int i = 1; i <= 12; i++) put(&store, i);
    assert_true(store.bytes <= BUDGET);
    lf_disk_store_close(&store);
    open_store(f, &store);
    for (int i = 1; i <= 12; i++) assert_int_equal(reads(&store, i), i > 2); /* ten have room */
    lf_disk_store_close(&store);
}

/* KILL while blocks are being written: those whose put returned are there. */
static void blocks_survive_being_killed(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    int pipe_fds[2];
    char n_put = 0;
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        open_store(f, &store);
        for (char i = 1;; i = (char)(i % 100 + 1)) {
            put(&store, i);
            if (write(pipe_fds[1], &i, 1) != 1) _exit(1);
        }
    }
    for (int i = 0; i < 25; i++) assert_int_equal(read(pipe_fds[0], &n_put, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pipe_fds[1]);
    while (read(pipe_fds[0], &n_put, 1) == 1) continue; /* what was put before the signal came */
    close(pipe_fds[0]);
    open_store(f, &store);
    struct lf_disk_table_stats stats;
    for (int i = n_put; i > n_put - 9; i--) assert_true(reads(&store, i)); /* the tenth may have made room */
    lf_disk_table_stats(store.tables[0], &stats);
    assert_int_equal(stats.n_broken, 0);
    lf_disk_store_close(&store);
}

static void the_second_process_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0}, second = {0};
    char expected[64];
    open_store(f, &store);
    assert_int_equal(lf_disk_store_open(&second, &f->opts, &f->err), LF_INVALID);
    snprintf(expected, sizeof(expected), "in use by another process, %ld", (long)getpid());
    assert_non_null(strstr(f->err.message, expected));
    lf_disk_store_close(&second);
    put(&store, 1);
    lf_disk_store_close(&store);
    open_store(f, &store); /* the lock went with its owner */
    assert_true(reads(&store, 1));
    lf_disk_store_close(&store);
}

/* What a program can ask for before it has read the model that the identity is of. */
static void a_lock_needs_no_room_on_the_disk(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    enum lf_status status = lf_disk_store_lock(&store, f->dir, &f->err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, LF_OK);
    assert_int_equal(lf_disk_store_lock(&(struct lf_disk_store){0}, f->dir, &f->err), LF_INVALID); /* it is one */
    lf_disk_store_close(&store);
}

static void a_pipe_for_a_lock_hangs_nobody(void **state)
{
    struct fixture *f = *state;
    char path[600];
    int fd = -1;
    assert_int_equal(mkdir(f->dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/lock", f->dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(lf_disk_lock_to_read(&fd, f->dir, &f->err), LF_OK);
    alarm(0);
    close(fd);
}

static void the_lock_comes_before_the_identity(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0}, second = {0};
    assert_int_equal(lf_disk_store_lock(&store, f->dir, &f->err), LF_OK);
    assert_int_equal(lf_disk_store_lock(&second, f->dir, &f->err), LF_INVALID);
    assert_non_null(strstr(f->err.message, "in use by another process"));
    lf_disk_store_close(&second);
    open_store(f, &store);
    put(&store, 1);
    lf_disk_store_close(&store);
    assert_int_equal(lf_disk_store_lock(&store, f->dir, &f->err), LF_OK);
    lf_disk_store_close(&store); /* without having been opened */
    open_store(f, &store);
    assert_true(reads(&store, 1));
    lf_disk_store_close(&store);
}

/* Another model, another shape: another directory, which counts towards the budget. */
static void other_identities_never_match(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    char name[256];
    open_store(f, &store);
    assert_string_equal(store.other, "");
    put(&store, 1);
    lf_disk_store_close(&store);
    assert_int_equal(n_entries(f->dir, name), 1);
    assert_int_equal(strlen(name), 64);

    f->identity[31] = 1;
    open_store(f, &store);
    assert_false(reads(&store, 1));
    assert_true(store.bytes < BUDGET - BLOCK_BYTES);
    assert_string_equal(store.other, name);
    lf_disk_store_close(&store);
    assert_int_equal(n_entries(f->dir, NULL), 2);

    f->identity[31] = 0;
    open_store(f, &store);
    assert_true(reads(&store, 1));
    assert_string_not_equal(store.other, name);
    assert_int_equal(strlen(store.other), 64);
    lf_disk_store_close(&store);

    f->kind.block_bytes = BLOCK_BYTES / 2;
    open_store(f, &store);
    assert_int_equal(n_entries(f->dir, NULL), 3);
    lf_disk_store_close(&store);
}

static void kinds_share_the_budget(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    struct lf_disk_table_stats stats;
    const struct lf_disk_kind kinds[] = {{"full", BLOCK_BYTES, 4}, {"window", BLOCK_BYTES, 1}};
    f->opts.kinds = kinds;
    f->opts.n_kinds = 2;
    open_store(f, &store);
    const uint32_t n_slots[] = {8, 2};
    for (int i = 0; i < 2; i++) {
        lf_disk_table_stats(store.tables[i], &stats);
        assert_int_equal(stats.n_slots, n_slots[i]);
        assert_int_equal(lf_disk_store_n_slots(BUDGET, kinds, 2, i), n_slots[i]);
    }
    lf_disk_store_close(&store);
}

static void what_cannot_be_a_store_is_said(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    f->opts.budget_bytes = BLOCK_BYTES;
    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_LIMIT);
    assert_non_null(strstr(f->err.message, "hold no block"));
    f->opts.budget_bytes = BLOCK_BYTES + LF_DISK_RECORD_BYTES;
    open_store(f, &store);
    lf_disk_store_close(&store);

    temp_dir_write_text(&f->temp, "file", "x");
    char path[512];
    temp_dir_path(&f->temp, "file", path);
    f->opts.dir = path;
    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_INVALID);
    assert_non_null(strstr(f->err.message, "not a directory"));
    temp_dir_path(&f->temp, "no/such", path);
    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_IO);
    lf_disk_store_close(&store);
}

/* Only this user may read what people's documents have become, and a link is not followed. */
static void nobody_else_may_look(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    struct stat st;
    char name[256], path[1024];
    open_store(f, &store);
    lf_disk_store_close(&store);
    n_entries(f->dir, name);
    snprintf(path, sizeof(path), "%s/%s/full.data", f->dir, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(f->dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(lf_disk_store_open(&store, &f->opts, &f->err), LF_IO);
}

/* Who brings blocks from elsewhere knows their size by what he was told: the files that are there know better. */
static void other_sizes_leave_the_files_alone(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    char name[NAME_MAX + 1];
    open_store(f, &store);
    put(&store, 1);
    lf_disk_store_close(&store);
    n_entries(f->dir, name);
    struct lf_disk_named named = {
        .dir = f->dir, .identity = name, .kind = "full", .block_bytes = 64, .about = "", .n_slots = 1, .makes = true};
    struct lf_disk_table *table;
    assert_int_equal(lf_disk_store_open_named(&table, &named, &f->err), LF_CORRUPT);
    named.block_bytes = 2 * BLOCK_BYTES;
    assert_int_equal(lf_disk_store_open_named(&table, &named, &f->err), LF_CORRUPT);
    named.block_bytes = BLOCK_BYTES;
    assert_int_equal(lf_disk_store_open_named(&table, &named, &f->err), LF_OK);
    lf_disk_table_close(table);
    open_store(f, &store);
    assert_true(reads(&store, 1));
    lf_disk_store_close(&store);
}

/* Killed between the lengths of its two files: nothing is there yet, so nothing is in the way. */
static void a_store_that_was_being_made_is_made(void **state)
{
    struct fixture *f = *state;
    struct lf_disk_store store = {0};
    char name[NAME_MAX + 1], path[PATH_MAX];
    open_store(f, &store);
    lf_disk_store_close(&store);
    n_entries(f->dir, name);
    snprintf(path, sizeof(path), "%s/%s/full.data", f->dir, name);
    struct lf_disk_named named = {
        .dir = f->dir, .identity = name, .kind = "full", .block_bytes = BLOCK_BYTES, .about = "", .n_slots = 1};
    struct lf_disk_table *table;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(lf_disk_store_open_named(&table, &named, &f->err), LF_OK);
    lf_disk_table_close(table);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(lf_disk_store_open_named(&table, &named, &f->err), LF_OK);
    lf_disk_table_close(table);
    open_store(f, &store);
    put(&store, 1);
    assert_true(reads(&store, 1));
    lf_disk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_survive_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_survive_being_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_process_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_needs_no_room_on_the_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_for_a_lock_hangs_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lock_comes_before_the_identity, setup, teardown),
        cmocka_unit_test_setup_teardown(other_identities_never_match, setup, teardown),
        cmocka_unit_test_setup_teardown(kinds_share_the_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_a_store_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_else_may_look, setup, teardown),
        cmocka_unit_test_setup_teardown(other_sizes_leave_the_files_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_was_being_made_is_made, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
