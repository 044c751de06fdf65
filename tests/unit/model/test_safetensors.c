#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "model/safetensors.h"
#include "tests/support/tensor_file.h"

#define T(name, dtype, shape, from, to)                                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #from "," #to "]}"

/* A header, how many bytes of data follow it, and what opening the file must say. */
static const struct {
    const char *header;
    size_t n_data;
    enum lf_status status;
    const char *says;
} rows[] = {
    {"{}", 0, LF_OK, ""},
    {" \t\r\n{} \n", 0, LF_OK, ""},
    {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, LF_OK, ""},
    {"{" T("a", "F32", "2,3", 0, 24) "}", 24, LF_OK, ""},
    {"{" T("scalar", "F32", "", 0, 4) "}", 4, LF_OK, ""},
    {"{" T("none", "F32", "2,0,5", 0, 0) "}", 0, LF_OK, ""},
    {"{" T("b", "BF16", "3", 4, 10) "," T("a", "F32", "1", 0, 4) "," T("n", "U8", "0", 4, 4) "}", 10, LF_OK, ""},
    {"{" T("four bits", "F4", "3,2", 0, 3) "}", 3, LF_OK, ""},
    {"{" T("six bits", "F6_E2M3", "4", 0, 3) "}", 3, LF_OK, ""},
    {"{" T("r", "U8", "1,1,1,1,1,1,1,1", 0, 1) "}", 1, LF_OK, ""},
    {"{" T("\\u0061b", "U8", "1", 0, 1) "}", 1, LF_OK, ""},

    {"", 0, LF_CORRUPT, ""},
    {"[]", 0, LF_CORRUPT, "the header is an array"},
    {"{", 0, LF_CORRUPT, ""},
    {"{}x", 0, LF_CORRUPT, ""},
    {"{\"__metadata__\":[]}", 0, LF_CORRUPT, "__metadata__ is an array"},
    {"{\"__metadata__\":{\"a\":1}}", 0, LF_CORRUPT, "\"a\" is a number"},
    {"{\"a\":7}", 0, LF_CORRUPT, "tensor a is a number"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, LF_CORRUPT, "\"dtype\" is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, LF_CORRUPT, "\"shape\" is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, LF_CORRUPT, "\"data_offsets\" is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, LF_UNSUPPORTED, "member \"x\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, LF_CORRUPT, "shape is an object"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, LF_CORRUPT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, LF_CORRUPT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4, LF_CORRUPT, "a string"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, LF_UNSUPPORTED, "dtype"},
    {"{" T("a", "F12", "1", 0, 4) "}", 4, LF_UNSUPPORTED, "\"F12\""},
    {"{" T("a", "f32", "1", 0, 4) "}", 4, LF_UNSUPPORTED, "\"f32\""},
    {"{" T("a", "F32", "-1", 0, 4) "}", 4, LF_CORRUPT, "shape"},
    {"{" T("a", "F32", "1.5", 0, 6) "}", 6, LF_CORRUPT, "shape"},
    {"{" T("a", "F32", "1", 0, 8) "}", 8, LF_CORRUPT, "4 bytes, its offsets hold 8"},
    {"{" T("a", "F32", "1", 4, 0) "}", 4, LF_CORRUPT, "before it begins"},
    {"{" T("a", "F32", "1", -4, 0) "}", 0, LF_CORRUPT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":7}}", 4, LF_CORRUPT, "an array of two numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{\"b\":0,\"e\":4}}}", 4, LF_CORRUPT, "of two numbers"},
    {"{" T("a", "F4", "3", 0, 2) "}", 2, LF_CORRUPT, "end on a byte"},
    {"{" T("a", "U8", "1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, LF_LIMIT, "9 dimensions"},
    {"{" T("a", "F32", "4294967296,4294967296", 0, 0) "}", 0, LF_CORRUPT, "overflows"},
    {"{" T("a", "F64", "4294967296,2147483648", 0, 0) "}", 0, LF_CORRUPT, "overflows"},
    {"{" T("a", "F32", "1", 0, 4) "," T("a", "F32", "1", 4, 8) "}", 8, LF_CORRUPT, ""},
    {"{" T("a", "F32", "1", 0, 4) "," T("\\u0061", "F32", "1", 4, 8) "}", 8, LF_CORRUPT, ""},
    {"{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 0, 4) "}", 4, LF_CORRUPT, "overlaps"},
    {"{" T("a", "F32", "2", 0, 8) "," T("b", "F32", "1", 4, 8) "}", 8, LF_CORRUPT, "overlaps"},
    {"{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "1", 8, 12) "}", 12, LF_CORRUPT, "hole"},
    {"{" T("a", "F32", "1", 4, 8) "}", 8, LF_CORRUPT, "hole"},
    {"{" T("a", "F32", "1", 0, 4) "}", 3, LF_CORRUPT, "take 4 bytes, the file holds 3"},
    {"{" T("a", "F32", "1", 0, 4) "}", 5, LF_CORRUPT, "take 4 bytes, the file holds 5"},
    {"{}", 1, LF_CORRUPT, "take 0 bytes, the file holds 1"},
    {"{" T("a", "U8", "9223372036854775807", 0, 9223372036854775807) "}", 1, LF_CORRUPT, ""},
    {"{\"\xff\":1}", 0, LF_CORRUPT, ""},
    {"{\"a\\u0000\":1}", 0, LF_CORRUPT, ""},
};

static void open_path(const struct temp_dir *d, const char *name, enum lf_status want, const char *says)
{
    struct lf_tensor_set set;
    struct lf_err err = {LF_OK, ""};
    char path[512];
    temp_dir_path(d, name, path);
    enum lf_status status = lf_tensor_set_open_file(&set, path, &err);
    if (status != want) fail_msg("%s instead of %s: %s", lf_status_name(status), lf_status_name(want), err.message);
    if (status == LF_OK) {
        lf_tensor_set_close(&set);
        return;
    }
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.message, name));
    if (!strstr(err.message, says)) fail_msg("\"%s\" lacks \"%s\"", err.message, says);
}

static void every_rule_of_the_format_is_checked(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tensor_file_write(&d, "x.safetensors", rows[i].header, rows[i].n_data);
        open_path(&d, "x.safetensors", rows[i].status, rows[i].says);
    }
    temp_dir_remove(&d);
}

/* The same with a name of 200 bytes for the tensor a: the verdicts stay, and messages show 80 bytes of it. */
static void long_names_are_shown_up_to_a_bound(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_buf text;
    char many[201], shown[81], path[512];
    size_t n_shown = 0;
    memset(many, '#', sizeof many);
    many[200] = 0;
    snprintf(shown, sizeof shown, "%.80s", many);
    lf_buf_init(&text, 1 << 16);
    temp_dir_path(&d, "x.safetensors", path);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *name = strstr(rows[i].header, "\"a\":");
        if (!name || !rows[i].says[0]) continue;
        lf_buf_clear(&text);
        lf_buf_printf(&text, "%.*s\"%s%s", (int)(name - rows[i].header), rows[i].header, many, name + 2);
        tensor_file_write(&d, "x.safetensors", text.ptr, rows[i].n_data);
        struct lf_tensor_set set;
        struct lf_err err = {LF_OK, ""};
        assert_int_equal(lf_tensor_set_open_file(&set, path, &err), rows[i].status);
        const char *in_message = strstr(err.message, shown);
        if (in_message && in_message[80] == '#') fail_msg("%s", err.message);
        n_shown += in_message != NULL;
    }
    assert_true(n_shown > 20);
    open_path(&d, "x.safetensors", LF_CORRUPT, "");
    lf_buf_deinit(&text);
    temp_dir_remove(&d);
}

/* The same for names of members, element types and metadata, which stand beside the tensor's in a message. */
static void long_words_are_shown_up_to_a_bound(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail, *says;
    } words[] = {
        {"{\"a\":{\"dtype\":\"", "\",\"shape\":[1],\"data_offsets\":[0,4]}}", "\" is not an element type"},
        {"{\"a\":{\"", "\":1}}", "the format has no member \"####"},
        {"{\"__metadata__\":{\"", "\":1}}", "#\" is a number, expected a string"},
    };
    struct temp_dir d = temp_dir_make();
    char many[201], header[400], shown[81], path[512];
    memset(many, '#', sizeof many);
    many[200] = 0;
    snprintf(shown, sizeof shown, "%.80s", many);
    temp_dir_path(&d, "x", path);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct lf_tensor_set set;
        struct lf_err err = {LF_OK, ""};
        snprintf(header, sizeof header, "%s%s%s", words[i].head, many, words[i].tail);
        tensor_file_write(&d, "x", header, 4);
        assert_int_not_equal(lf_tensor_set_open_file(&set, path, &err), LF_OK);
        const char *in_message = strstr(err.message, shown);
        if (!in_message || in_message[80] == '#' || !strstr(err.message, words[i].says)) fail_msg("%s", err.message);
    }
    temp_dir_remove(&d);
}

static void the_length_of_the_header_is_checked_against_the_file(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    for (size_t n = 0; n < 8; n++) {
        temp_dir_write(&d, "x", "\2\0\0\0\0\0\0\0", n);
        open_path(&d, "x", LF_CORRUPT, "too few");
    }
    static const uint64_t lengths[] = {3, 1000, 99999999, 100000000};
    for (size_t i = 0; i < 4; i++) {
        tensor_file_write_raw(&d, "x", lengths[i], "{}", 2, 0);
        open_path(&d, "x", LF_CORRUPT, "in a file of 10");
    }
    static const uint64_t over[] = {100000001, 1ull << 40, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < 4; i++) {
        tensor_file_write_raw(&d, "x", over[i], "{}", 2, 0);
        open_path(&d, "x", LF_LIMIT, "at most 100000000");
    }
    temp_dir_remove(&d);
}

static void what_is_no_file_is_said_so(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    struct lf_err err;
    open_path(&d, "missing", LF_NOT_FOUND, "");
    assert_int_equal(lf_tensor_set_open(&set, d.path, &err), LF_NOT_FOUND);
    assert_non_null(strstr(err.message, "neither model.safetensors nor"));
    assert_int_equal(lf_tensor_set_open_file(&set, d.path, &err), LF_INVALID);
    temp_dir_remove(&d);
}

static void tensors_are_found_by_name_with_shape_and_place(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    struct lf_err err;
    char shape[64];
    enum lf_dtype dtype;
    const char *header = "{" T("b", "BF16", "3,1", 4, 10) "," T("a", "F32", "1", 0, 4) "," T("i", "I64", "0", 4, 4) "}";
    tensor_file_write(&d, "model.safetensors", header, 10);
    assert_int_equal(lf_tensor_set_open(&set, d.path, &err), LF_OK);
    assert_int_equal(set.n_tensors, 3);
    const struct lf_tensor *b = lf_tensor_find(&set, LF_STR("b"));
    assert_non_null(b);
    assert_int_equal(b->offset, 8 + strlen(header) + 4);
    assert_int_equal(b->n_bytes, 6);
    assert_true(lf_tensor_dtype(b, &dtype) && dtype == LF_BF16);
    lf_tensor_shape_text(b, shape, sizeof(shape));
    assert_string_equal(shape, "[3, 1]");
    lf_tensor_shape_text(b, shape, 4);
    assert_string_equal(shape, "[3,");
    struct lf_tensor wide = {.rank = LF_TENSOR_RANK}, scalar = {.rank = 0};
    for (int i = 0; i < LF_TENSOR_RANK; i++) wide.shape[i] = UINT64_MAX;
    char longest[256];
    lf_tensor_shape_text(&wide, longest, sizeof longest);
    assert_int_equal(strlen(longest), LF_TENSOR_RANK * 22);
    assert_string_equal(longest + strlen(longest) - 21, "18446744073709551615]");
    lf_tensor_shape_text(&scalar, shape, sizeof(shape));
    assert_string_equal(shape, "[]");
    assert_false(lf_tensor_dtype(lf_tensor_find(&set, LF_STR("i")), &dtype));
    assert_null(lf_tensor_find(&set, LF_STR("c")));
    assert_null(lf_tensor_find(&set, LF_STR("")));
    lf_tensor_set_close(&set);
    temp_dir_remove(&d);
}

/* An index and up to two shards with tensors a (4 bytes) and b (2 bytes). */
static void check_index(const char *index, const char *one, const char *two, enum lf_status want, const char *says)
{
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    struct lf_err err = {LF_OK, ""};
    temp_dir_write_text(&d, "model.safetensors.index.json", index);
    if (one) tensor_file_write(&d, "1.safetensors", one, 4);
    if (two) tensor_file_write(&d, "2.safetensors", two, 2);
    enum lf_status status = lf_tensor_set_open(&set, d.path, &err);
    if (status != want) fail_msg("%s: %s", lf_status_name(status), err.message);
    if (status == LF_OK) {
        assert_int_equal(set.n_tensors, 2);
        assert_int_equal(set.n_files, 2);
        assert_non_null(strstr(set.files[lf_tensor_find(&set, LF_STR("b"))->file_idx].path, "/2.safetensors"));
        lf_tensor_set_close(&set);
    } else if (!strstr(err.message, says)) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, says);
    }
    temp_dir_remove(&d);
}

static void an_index_and_its_shards_must_agree(void **state)
{
    (void)state;
    const char *a = "{" T("a", "F32", "1", 0, 4) "}", *b = "{" T("b", "BF16", "1", 0, 2) "}";
    const char *a_as_b = "{" T("b", "F32", "1", 0, 4) "}",
               *two = "{" T("b", "U8", "1", 0, 1) "," T("c", "U8", "1", 1, 2) "}";
#define MAP(text) "{\"metadata\":{\"total_size\":6},\"weight_map\":{" text "}}"
#define GOOD      MAP("\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"")
    check_index(GOOD, a, b, LF_OK, "");
    check_index(GOOD, a, NULL, LF_NOT_FOUND, "2.safetensors");
    check_index(GOOD, NULL, b, LF_NOT_FOUND, "1.safetensors");
    check_index(GOOD, a_as_b, b, LF_CORRUPT, "again in");
    check_index(GOOD, a, two, LF_CORRUPT, "names 2 tensors, the shards hold 3");
    check_index(MAP("\"a\":\"2.safetensors\",\"b\":\"1.safetensors\""), a, b, LF_CORRUPT, "where the index says");
    check_index(MAP("\"a\":\"1.safetensors\",\"c\":\"2.safetensors\""), a, b, LF_CORRUPT, "tensor c is not in");
    check_index(MAP("\"a\":\"1.safetensors\",\"a\":\"2.safetensors\""), a, b, LF_CORRUPT, "");
    check_index(MAP("\"a\":\"1.safetensors\",\"b\":2"), a, b, LF_CORRUPT, "expected a string");
    check_index(MAP(""), a, b, LF_CORRUPT, "names no tensor");
    check_index("{}", a, b, LF_CORRUPT, "weight_map is nothing");
    check_index("[]", a, b, LF_CORRUPT, "weight_map is nothing");
    check_index("{\"weight_map\":[]}", a, b, LF_CORRUPT, "weight_map is an array");
    check_index("{\"weight_map\"", a, b, LF_CORRUPT, "");
}

static void an_index_has_so_many_tensors_and_files(void **state)
{
    (void)state;
    struct lf_buf text;
    lf_buf_init(&text, 1 << 24);
    for (int n = LF_SAFETENSORS_TENSORS_N; n <= LF_SAFETENSORS_TENSORS_N + 1; n++) {
        lf_buf_clear(&text);
        lf_buf_cstr(&text, "{\"weight_map\":{\"0\":\"f\"");
        for (int i = 1; i < n; i++) lf_buf_printf(&text, ",\"%d\":\"f\"", i);
        lf_buf_cstr(&text, "}}");
        bool fits = n == LF_SAFETENSORS_TENSORS_N;
        check_index(text.ptr, NULL, NULL, fits ? LF_NOT_FOUND : LF_LIMIT,
                    fits ? "missing, first f" : "more than 200000 tensors");
    }
    for (int n = LF_SHARDS_N; n <= LF_SHARDS_N + 1; n++) {
        lf_buf_clear(&text);
        lf_buf_cstr(&text, "{\"weight_map\":{\"0\":\"f0\"");
        for (int i = 1; i < n; i++) lf_buf_printf(&text, ",\"%d\":\"f%d\"", i, i);
        lf_buf_cstr(&text, "}}");
        bool fits = n == LF_SHARDS_N;
        check_index(text.ptr, NULL, NULL, fits ? LF_NOT_FOUND : LF_LIMIT,
                    fits ? "missing, first f0" : "1025 shards, at most 1024");
    }
    lf_buf_deinit(&text);
}

/* Long names of an index: the longest file that a directory can hold, and one that is longer; in messages 80 bytes. */
static void an_index_with_long_names_is_refused_in_short(void **state)
{
    (void)state;
    char index[1200], many[301], shown[160];
    memset(many, '#', sizeof many);
    many[300] = 0;
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%.255s\"}}", many);
    check_index(index, NULL, NULL, LF_NOT_FOUND, "missing, first ####");
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%.256s\"}}", many);
    snprintf(shown, sizeof shown, "\"%.80s\" of a is not a plain file name", many);
    check_index(index, NULL, NULL, LF_CORRUPT, shown);
    snprintf(index, sizeof index, "{\"weight_map\":{\"%.256s\":\"..\"}}", many);
    snprintf(shown, sizeof shown, "of %.80s is not", many);
    check_index(index, NULL, NULL, LF_CORRUPT, shown);
    snprintf(index, sizeof index, "{\"weight_map\":{\"%.256s\":1}}", many);
    snprintf(shown, sizeof shown, "the file of %.80s is a number", many);
    check_index(index, NULL, NULL, LF_CORRUPT, shown);
    const char *a = "{" T("a", "F32", "1", 0, 4) "}";
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"1.safetensors\",\"%.256s\":\"1.safetensors\"}}", many);
    snprintf(shown, sizeof shown, "tensor %.80s is not in 1.safetensors", many);
    check_index(index, a, NULL, LF_CORRUPT, shown);
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    struct lf_err err = {LF_OK, ""};
    snprintf(index, sizeof index, "{\"weight_map\":{\"b\":\"%.100s\"}}", many);
    temp_dir_write_text(&d, "model.safetensors.index.json", index);
    snprintf(index, sizeof index, "%.100s", many);
    tensor_file_write(&d, index, a, 4);
    assert_int_equal(lf_tensor_set_open(&set, d.path, &err), LF_CORRUPT);
    snprintf(shown, sizeof shown, "%.80s, where the index", many);
    assert_non_null(strstr(err.message, shown));
    temp_dir_remove(&d);
}

/* Through "/./././": paths that the file system knows, but that leave no room for the names in the directory. */
static void paths_that_are_too_long_are_said_so(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    char dir[4200], file[256], index[400];
    memset(file, 'f', sizeof file);
    file[255] = 0;
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", file);
    temp_dir_write_text(&d, "model.safetensors.index.json", index);
    static const struct {
        size_t len;
        enum lf_status status;
    } cases[] = {
        {4095 - 256, LF_NOT_FOUND}, /* the shard's path has the 4,095 bytes that a path may have */
        {4096 - 256, LF_LIMIT},     {4095 - 29, LF_LIMIT}, /* the index is read, its path being that long */
        {4096 - 29, LF_LIMIT},      {4096 - 18, LF_LIMIT}, /* not even that of model.safetensors */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lf_err err = {LF_OK, ""};
        size_t n = (size_t)snprintf(dir, sizeof dir, "%s%s", d.path, (cases[i].len - strlen(d.path)) % 2 ? "/" : "");
        while (n < cases[i].len) n += (size_t)snprintf(dir + n, sizeof dir - n, "/.");
        assert_int_equal(n, cases[i].len);
        enum lf_status status = lf_tensor_set_open(&set, dir, &err);
        if (status != cases[i].status) fail_msg("%zu bytes: %s: %s", n, lf_status_name(status), err.message);
        if (i >= 3) assert_non_null(strstr(err.message, " is too long"));
    }
    temp_dir_remove(&d);
}

static void an_index_names_files_of_the_directory_only(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",   ".",    "..",     "../1.safetensors", "/etc/passwd", "a/../b",    "a//b",
        "a/", "a/.b", "a\\\\b", ".hidden",          "a\\u0001b",   "a\\u007fb", "./1.safetensors"};
    char index[256];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(index, sizeof(index), "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        check_index(index, NULL, NULL, LF_CORRUPT, "is not a plain file name");
    }
    check_index("{\"weight_map\":{\"a\":\"a/b\",\"b\":\"a/b/c\",\"c\":\"a/b\"}}", NULL, NULL, LF_NOT_FOUND,
                "2 of the 2 files that it names are missing, first a/b");
}

static void a_pointer_of_git_lfs_is_no_file_of_weights(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_tensor_set set;
    struct lf_err err;
    temp_dir_write_text(&d, "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    assert_int_equal(lf_tensor_set_open(&set, d.path, &err), LF_CORRUPT);
    assert_non_null(strstr(err.message, "git lfs pull"));
    temp_dir_remove(&d);
}

/* Without a limit of time here: a slow machine is no defect. The figure is printed. */
static void a_header_of_100000_entries_is_read_quickly(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct temp_dir d = temp_dir_make();
    struct lf_buf text;
    struct lf_tensor_set set;
    struct lf_err err;
    char path[512];
    lf_buf_init(&text, 1 << 26);
    lf_buf_char(&text, '{');
    for (int i = 0; i < N; i++) {
        lf_buf_printf(&text, "%s\"model.layers.%d.weight\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[%d,%d]}",
                      i ? "," : "", i, (N - 1 - i) * 2, (N - i) * 2);
    }
    lf_buf_char(&text, '}');
    tensor_file_write(&d, "x", text.ptr, (size_t)N * 2);
    temp_dir_path(&d, "x", path);
    int64_t start = lf_clock_ns();
    assert_int_equal(lf_tensor_set_open_file(&set, path, &err), LF_OK);
    print_message("100000 entries: %.0f ms\n", (double)(lf_clock_ns() - start) / 1e6);
    assert_int_equal(set.n_tensors, N);
    assert_non_null(lf_tensor_find(&set, LF_STR("model.layers.77777.weight")));
    lf_tensor_set_close(&set);
    lf_buf_deinit(&text);
    temp_dir_remove(&d);
}

static void too_many_tensors_are_refused(void **state)
{
    (void)state;
    struct temp_dir d = temp_dir_make();
    struct lf_buf text;
    lf_buf_init(&text, 1 << 26);
    for (int n = LF_SAFETENSORS_TENSORS_N; n <= LF_SAFETENSORS_TENSORS_N + 1; n++) {
        lf_buf_clear(&text);
        lf_buf_char(&text, '{');
        for (int i = 0; i < n; i++) {
            lf_buf_printf(&text, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i);
        }
        lf_buf_char(&text, '}');
        tensor_file_write(&d, "x", text.ptr, 0);
        open_path(&d, "x", n > LF_SAFETENSORS_TENSORS_N ? LF_LIMIT : LF_OK, "more than 200000 tensors");
    }
    lf_buf_deinit(&text);
    temp_dir_remove(&d);
}

/* Files with the verdict of the reference implementation, where they are at hand. */
static void the_reference_implementation_agrees(void **state)
{
    (void)state;
    char dir[512], path[600];
    struct lf_buf text;
    struct lf_json json;
    struct lf_err err;
    snprintf(dir, sizeof(dir), "%s/safetensors", test_assets());
    snprintf(path, sizeof(path), "%s/expected.json", dir);
    lf_buf_init(&text, 1 << 20);
    if (lf_file_read(&text, path, 1 << 20, &err) != LF_OK) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    assert_int_equal(lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_file, &err), LF_OK);
    struct lf_json_value list = lf_json_root(&json);
    int n = 0;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it), n++) {
        struct lf_tensor_set set;
        struct lf_str file = lf_json_raw(lf_json_get(it, "file"));
        snprintf(path, sizeof(path), "%s/%.*s", dir, (int)file.len, file.ptr);
        bool good = lf_json_string_is(lf_json_get(it, "expect"), "ok");
        enum lf_status status = lf_tensor_set_open_file(&set, path, &err);
        if (good != (status == LF_OK)) fail_msg("%s: %s", path, lf_status_name(status));
        if (status == LF_OK) lf_tensor_set_close(&set);
    }
    assert_true(n > 0);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_of_the_format_is_checked),
        cmocka_unit_test(the_length_of_the_header_is_checked_against_the_file),
        cmocka_unit_test(what_is_no_file_is_said_so),
        cmocka_unit_test(tensors_are_found_by_name_with_shape_and_place),
        cmocka_unit_test(an_index_and_its_shards_must_agree),
        cmocka_unit_test(an_index_names_files_of_the_directory_only),
        cmocka_unit_test(a_pointer_of_git_lfs_is_no_file_of_weights),
        cmocka_unit_test(an_index_has_so_many_tensors_and_files),
        cmocka_unit_test(an_index_with_long_names_is_refused_in_short),
        cmocka_unit_test(paths_that_are_too_long_are_said_so),
        cmocka_unit_test(long_names_are_shown_up_to_a_bound),
        cmocka_unit_test(long_words_are_shown_up_to_a_bound),
        cmocka_unit_test(a_header_of_100000_entries_is_read_quickly),
        cmocka_unit_test(too_many_tensors_are_refused),
        cmocka_unit_test(the_reference_implementation_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
