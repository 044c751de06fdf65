/* What the files of the schema compiler share: reading keywords, naming places, and sets of schemas. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/mix.h"
#include "core/sort.h"
#include "grammar/schema_impl.h"

struct lf_json_value lf_schema_of(const struct lf_schema *s, uint32_t item)
{
    return (struct lf_json_value){.json = s->root.json, .idx = item / 2};
}

/* Appends one step of a JSON pointer. */
static void add_step(struct lf_buf *out, struct lf_str name)
{
    lf_buf_char(out, '/');
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == '~' || name.ptr[i] == '/')
            lf_buf_cstr(out, name.ptr[i] == '~' ? "~0" : "~1");
        else
            lf_buf_char(out, name.ptr[i]);
    }
}

/* Where a walk from the root to a node is. */
struct way {
    struct lf_json_value at, name; /* name: of the member it is, NONE in an array */
    uint32_t i;                    /* which child */
};

/* One step towards the node. False: it is there. */
static bool step_towards(struct way *way, struct lf_json_value target)
{
    struct lf_json_value found = {0}, at = way->at;
    bool is_object = lf_json_type(at) == LF_JSON_OBJECT;
    uint32_t i = 0;
    if (at.idx == target.idx) return false;
    LF_SCHEMA_EACH(it, at)
    {
        struct lf_json_value value = is_object ? lf_json_member(it) : it;
        if (value.number_off || value.idx > target.idx) break;
        found = it;
        i++;
    }
    if (!found.json) return false;
    *way =
        (struct way){is_object ? lf_json_member(found) : found, is_object ? found : (struct lf_json_value){0}, i - 1};
    return true;
}

/* Whether what stands under this keyword is a value, or somebody's own, and no schema. */
static bool is_data_word(struct lf_json_value keyword)
{
    static const char *const words[] = {"enum",     "const", "default",      "example",
                                        "examples", "xml",   "externalDocs", "discriminator"};
    if (lf_json_type(keyword) != LF_JSON_STRING) return false; /* an array's place */
    for (size_t i = 0; i < LF_N_ELEMS(words); i++)
        if (lf_json_string_is(keyword, words[i])) return true;
    struct lf_str raw = lf_json_raw(keyword);
    return raw.len > 2 && memcmp(raw.ptr, "x-", 2) == 0;
}

bool lf_schema_is_data(struct lf_schema *s, struct lf_json_value at)
{
    static const char *const maps[] = {"properties", "patternProperties", "$defs", "definitions"};
    struct way way = {.at = s->root};
    bool of_names = false; /* the step goes to a name that somebody chose, not to a keyword */
    while (step_towards(&way, at) && lf_compilation_step(s->c, lf_json_len(way.at) + 8)) {
        bool is_map = false;
        if (!of_names && is_data_word(way.name)) return true;
        for (size_t i = 0; i < LF_N_ELEMS(maps) && !of_names; i++) is_map |= lf_json_string_is(way.name, maps[i]);
        of_names = is_map;
    }
    return false;
}

/* The pointer to a node. */
static void write_pointer(struct lf_buf *out, struct lf_json_value root, struct lf_json_value target)
{
    struct way way = {.at = root};
    while (step_towards(&way, target)) {
        char number[16];
        int n = snprintf(number, sizeof number, "%u", way.i);
        add_step(out, way.name.json ? lf_json_raw(way.name) : lf_str_from(number, (size_t)n));
    }
}

void lf_schema_fail(struct lf_schema *s, struct lf_json_value at, enum lf_status status, const char *fmt, ...)
{
    char what[256];
    struct lf_buf path;
    va_list args;
    if (!lf_compilation_ok(s->c)) return;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    lf_buf_init(&path, 200);
    write_pointer(&path, s->root, at);
    bool whole = path.status == LF_OK;
    if (!whole) path.len = path.len < 190 ? path.len : 190;
    lf_compilation_fail(s->c, status, "schema at \"#%.*s%s\": %s", (int)path.len, path.ptr ? path.ptr : "",
                        whole ? "" : "...", what);
    lf_buf_deinit(&path);
}

struct lf_json_value lf_schema_member(struct lf_schema *s, struct lf_json_value schema, const char *name,
                                      enum lf_json_type type)
{
    struct lf_json_value v = lf_json_get(schema, name);
    lf_compilation_step(s->c, lf_json_len(schema));
    if (lf_json_type(v) == LF_JSON_NONE || lf_json_type(v) == type) return v;
    static const char *const names[] = {[LF_JSON_NUMBER] = "a number",
                                        [LF_JSON_STRING] = "a string",
                                        [LF_JSON_ARRAY] = "an array",
                                        [LF_JSON_OBJECT] = "an object"};
    lf_schema_fail(s, v, LF_INVALID, "\"%s\" must be %s, got %s", name, names[type], lf_json_type_name(v));
    return (struct lf_json_value){0};
}

bool lf_schema_count(struct lf_schema *s, struct lf_json_value schema, const char *name, uint32_t most, uint32_t *out)
{
    int64_t n;
    struct lf_json_value v = lf_schema_member(s, schema, name, LF_JSON_NUMBER);
    if (!v.json || lf_json_type(v) == LF_JSON_NONE) return false;
    if (!lf_json_int64(v, &n) || n < 0) {
        lf_schema_fail(s, v, LF_INVALID, "\"%s\" must be an integer of at least 0", name);
        return false;
    }
    if (n > most) {
        lf_schema_fail(s, v, LF_LIMIT, "\"%s\" is more than %u", name, most);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

struct lf_str lf_schema_text(struct lf_schema *s, struct lf_json_value string)
{
    struct lf_str raw = lf_json_raw(string);
    struct lf_buf buf;
    char *copy = lf_compilation_scratch(s->c, raw.len + 1, 1);
    if (!copy || !lf_compilation_step(s->c, raw.len)) return LF_STR("");
    lf_buf_init_in(&buf, raw.len + 1, lf_work_memory(s->c->work));
    bool read = lf_json_string(string, &buf);
    size_t len = buf.len;
    if (read && len) memcpy(copy, buf.ptr, len);
    lf_buf_deinit(&buf);
    if (!read) lf_compilation_fail(s->c, LF_NO_MEMORY, "no memory to compile the grammar");
    return lf_str_from(copy, len);
}

static bool u32_before(const void *a, const void *b)
{
    return *(const uint32_t *)a < *(const uint32_t *)b;
}

struct lf_schema_set lf_schema_set_of(struct lf_schema *s, uint32_t *items, uint32_t n)
{
    uint32_t n_kept = 0;
    lf_compilation_step(s->c, n);
    lf_sort(items, n, sizeof *items, u32_before);
    for (uint32_t i = 0; i < n; i++)
        if (n_kept == 0 || items[n_kept - 1] != items[i]) items[n_kept++] = items[i];
    return (struct lf_schema_set){items, n_kept};
}

uint32_t lf_schema_item(struct lf_schema *s, struct lf_json_value schema)
{
    enum lf_json_type type = lf_json_type(schema);
    if (type == LF_JSON_FALSE) return LF_SCHEMA_FALSE;
    if (schema.number_off || (type != LF_JSON_OBJECT && type != LF_JSON_TRUE))
        lf_schema_fail(s, schema, LF_INVALID, "a schema must be an object or a boolean, got %s",
                       lf_json_type_name(schema));
    return schema.idx * 2;
}

static bool enlarge(struct lf_schema *s)
{
    size_t len = s->table_len ? 2 * s->table_len : 64;
    uint32_t *table = lf_compilation_scratch(s->c, len, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < s->n_rules; i++) {
        size_t at = s->rules[i].hash & (len - 1);
        while (table[at]) at = (at + 1) & (len - 1);
        table[at] = (uint32_t)i + 1;
    }
    s->table = table;
    s->table_len = len;
    return true;
}

uint32_t lf_schema_intern(struct lf_schema *s, enum lf_schema_kind kind, struct lf_schema_set set, bool *fresh)
{
    uint64_t hash = 2 * kind + s->whole;
    *fresh = false;
    for (uint32_t i = 0; i < set.n; i++) hash = lf_mix64(hash ^ set.items[i]);
    if (!lf_compilation_step(s->c, set.n + 1) || (2 * (s->n_rules + 1) > s->table_len && !enlarge(s))) return 0;
    size_t at = hash & (s->table_len - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_len - 1)) {
        const struct lf_schema_rule *r = &s->rules[s->table[at] - 1];
        if (r->hash == hash && r->kind == kind && r->whole == s->whole && r->set.n == set.n &&
            (set.n == 0 || memcmp(r->set.items, set.items, set.n * sizeof *set.items) == 0))
            return s->table[at] - 1;
    }
    struct lf_schema_rule *rules = lf_compilation_grow(s->c, s->rules, s->n_rules, &s->rules_cap, sizeof *rules);
    if (!rules) return 0;
    s->rules = rules;
    rules[s->n_rules] = (struct lf_schema_rule){.kind = kind, .set = set, .hash = hash, .whole = s->whole};
    if (kind != LF_SCHEMA_VALUE) rules[s->n_rules].start = lf_network_node(s->net, s->c);
    s->table[at] = (uint32_t)s->n_rules + 1;
    *fresh = true;
    return (uint32_t)s->n_rules++;
}
