/* The parser: one pass over the text, no recursion, no decoding; see json.h for the idea.
 *
 * Open containers are linked through the nodes themselves: while a container is open its `next` holds the index of its
 * parent, and becomes the real `next` when it closes. So the depth costs no memory of its own.
 *
 * Names of one object must differ. All names of the document go into one hash table under (object, hash of the
 * unescaped name), allocated once for the number of names and dropped after the parse. */
#include "core/json.h"

#include <math.h>

#include "core/check.h"
#include "core/hash.h"
#include "core/mix.h"
#include "core/json_text.h"
#include "core/text_memory.h"
#include "core/work.h"

const struct lf_json_limits lf_json_limits_request = {LF_JSON_DEPTH, LF_JSON_NODES};
const struct lf_json_limits lf_json_limits_file = {LF_JSON_DEPTH, LF_JSON_FILE_NODES};

enum { NO_PARENT = 0xffffffffu >> 1 };

struct parser {
    const char *text;
    size_t len, pos;
    struct lf_json_node *nodes;
    uint32_t n_nodes, cap;
    uint32_t open; /* innermost open container, NO_PARENT outside */
    uint32_t depth;
    uint32_t n_names;
    const struct lf_json_limits *limits;
    struct lf_work *work;
    struct lf_text_memory *memory; /* the work's */
    size_t looked_pos;             /* work is counted up to here */
    struct lf_err *err;
};

static enum lf_status fail_at(struct parser *p, enum lf_status status, const char *what)
{
    return lf_fail(p->err, status, "invalid JSON at byte %zu: %s", p->pos, what);
}

static void skip_space(struct parser *p)
{
    p->pos = lf_json_space_end(p->text, p->len, p->pos);
}

static enum lf_status count_work(struct parser *p)
{
    size_t n = p->pos - p->looked_pos;
    p->looked_pos = p->pos;
    enum lf_status status = lf_work_step(p->work, n);
    return status == LF_OK ? LF_OK : fail_at(p, status, "nobody waits for the rest");
}

static enum lf_status add_node(struct parser *p, enum lf_json_type type, uint32_t *idx)
{
    if (p->n_nodes >= p->limits->max_nodes) return fail_at(p, LF_LIMIT, "more values than are accepted");
    if (p->n_nodes == p->cap) {
        uint32_t cap = p->cap ? p->cap * 2 : 64;
        if (cap > p->limits->max_nodes) cap = p->limits->max_nodes;
        struct lf_json_node *nodes = lf_text_realloc(p->memory, p->nodes, (size_t)cap * sizeof *nodes);
        if (!nodes) return fail_at(p, LF_NO_MEMORY, "no memory for its values");
        p->nodes = nodes;
        p->cap = cap;
    }
    *idx = p->n_nodes++;
    p->nodes[*idx] = (struct lf_json_node){.text_off = (uint32_t)p->pos, .next = p->n_nodes, .type = (uint8_t)type};
    return LF_OK;
}

/* pos is behind the opening quote. */
static enum lf_status parse_string(struct parser *p)
{
    uint32_t idx;
    LF_TRY(add_node(p, LF_JSON_STRING, &idx));
    size_t start = p->pos;
    bool escaped = false;
    for (;;) {
        if (p->pos >= p->len) return fail_at(p, LF_INVALID, "the text ends inside a string");
        unsigned char c = (unsigned char)p->text[p->pos];
        if (c == '"') break;
        if (c < 0x20) return fail_at(p, LF_INVALID, "a control character inside a string is not escaped");
        if (c == '\\') {
            escaped = true;
            uint32_t cp;
            int n = lf_json_unescape(p->text + p->pos, p->len - p->pos, &cp);
            if (n == 0) return fail_at(p, LF_INVALID, "a bad escape, a lone surrogate or \\u0000 in a string");
            p->pos += (size_t)n;
        } else if (c < 0x80) {
            p->pos++;
        } else {
            uint32_t cp;
            int n = lf_utf8_decode(p->text + p->pos, p->len - p->pos, &cp);
            if (n == 0) return fail_at(p, LF_INVALID, "the bytes are not valid UTF-8");
            p->pos += (size_t)n;
        }
    }
    p->nodes[idx].text_len = (uint32_t)(p->pos - start);
    p->nodes[idx].escaped = escaped;
    p->pos++;
    return LF_OK;
}

_Static_assert(LF_JSON_NUMBER_BYTES == 4095, "the words below name it");

/* Where the number at pos ends, or what is wrong with it. */
static size_t number_end(const struct parser *p, const char **why)
{
    size_t end = lf_json_number_end(p->text, p->len, p->pos, why), n = end - p->pos;
    const char *start = p->text + p->pos;
    if (*why) return end;
    if (n > LF_JSON_NUMBER_BYTES) {
        *why = "a number of more than 4095 characters";
        return end;
    }
    /* a short number without exponent cannot overflow; of the rest strtod knows */
    if (n > 300 || memchr(start, 'e', n) || memchr(start, 'E', n)) {
        double x;
        if (!lf_json_number_text(lf_str_from(start, n), &x) || !isfinite(x)) *why = "a number that no double can hold";
    }
    return end;
}

static enum lf_status parse_number(struct parser *p)
{
    uint32_t idx;
    const char *why;
    size_t end = number_end(p, &why);
    if (why) return fail_at(p, LF_INVALID, why);
    LF_TRY(add_node(p, LF_JSON_NUMBER, &idx));
    p->nodes[idx].text_len = (uint32_t)(end - p->pos);
    p->pos = end;
    return LF_OK;
}

static enum lf_status parse_word(struct parser *p)
{
    static const struct {
        struct lf_str word;
        enum lf_json_type type;
    } words[] = {{{"true", 4}, LF_JSON_TRUE}, {{"false", 5}, LF_JSON_FALSE}, {{"null", 4}, LF_JSON_NULL}};
    struct lf_str rest = lf_str_from(p->text + p->pos, p->len - p->pos);
    for (size_t i = 0; i < LF_N_ELEMS(words); i++) {
        if (!lf_str_starts(rest, words[i].word)) continue;
        uint32_t idx;
        LF_TRY(add_node(p, words[i].type, &idx));
        p->nodes[idx].text_len = (uint32_t)words[i].word.len;
        p->pos += words[i].word.len;
        return LF_OK;
    }
    return fail_at(p, LF_INVALID, "expected a value");
}

/* pos is behind the bracket of array idx: the whole array, if it holds only numbers. Else, and also where something is
 * wrong in it, pos stays and its elements are parsed one by one. So each number is looked at twice at most: only by
 * the array right around it. */
static enum lf_status pack_numbers(struct parser *p, uint32_t idx, bool *packed)
{
    size_t start = p->pos;
    uint32_t n = 0;
    *packed = false;
    for (;;) {
        const char *why;
        skip_space(p);
        size_t end = number_end(p, &why);
        if (why) break;
        p->pos = end;
        n++;
        skip_space(p);
        LF_TRY(count_work(p));
        if (p->pos >= p->len || (p->text[p->pos] != ',' && p->text[p->pos] != ']')) break;
        *packed = p->text[p->pos++] == ']';
        if (*packed) break;
    }
    if (*packed) {
        struct lf_json_node *node = &p->nodes[idx];
        node->packed = true;
        node->n_children = n;
        node->text_len = (uint32_t)(p->pos - node->text_off);
    } else {
        p->pos = p->looked_pos = start;
    }
    return LF_OK;
}

/* A packed array is closed again at once. */
static enum lf_status open_container(struct parser *p, enum lf_json_type type)
{
    if (p->depth >= p->limits->max_depth) return fail_at(p, LF_LIMIT, "nested deeper than is accepted");
    uint32_t idx;
    bool packed = false;
    LF_TRY(add_node(p, type, &idx));
    p->pos++;
    if (type == LF_JSON_ARRAY) LF_TRY(pack_numbers(p, idx, &packed));
    if (packed) return LF_OK;
    p->nodes[idx].next = p->open;
    p->open = idx;
    p->depth++;
    return LF_OK;
}

static void close_container(struct parser *p)
{
    struct lf_json_node *node = &p->nodes[p->open];
    p->pos++;
    node->text_len = (uint32_t)(p->pos - node->text_off);
    p->open = node->next;
    node->next = p->n_nodes;
    p->depth--;
}

/* One value; a container that is not packed is only opened. */
static enum lf_status parse_value(struct parser *p)
{
    if (p->pos >= p->len) return fail_at(p, LF_INVALID, "the text ends where a value is expected");
    switch (p->text[p->pos]) {
    case '{':
        return open_container(p, LF_JSON_OBJECT);
    case '[':
        return open_container(p, LF_JSON_ARRAY);
    case '"':
        p->pos++;
        return parse_string(p);
    case 't':
    case 'f':
    case 'n':
        return parse_word(p);
    default:
        return parse_number(p);
    }
}

/* A name and its colon. */
static enum lf_status parse_name(struct parser *p)
{
    if (p->pos >= p->len || p->text[p->pos] != '"') return fail_at(p, LF_INVALID, "expected a name in quotes");
    p->pos++;
    LF_TRY(parse_string(p));
    p->n_names++;
    skip_space(p);
    if (p->pos >= p->len || p->text[p->pos] != ':') return fail_at(p, LF_INVALID, "expected a colon behind a name");
    p->pos++;
    skip_space(p);
    return LF_OK;
}

/* Inside the open container, before an element, a comma or the end: parses up to and including one value, or closes. */
static enum lf_status parse_in_container(struct parser *p)
{
    struct lf_json_node *node = &p->nodes[p->open];
    bool object = node->type == LF_JSON_OBJECT;
    skip_space(p);
    if (p->pos >= p->len) return fail_at(p, LF_INVALID, "the text ends inside an array or object");
    if (p->text[p->pos] == (object ? '}' : ']')) {
        close_container(p);
        return LF_OK;
    }
    if (node->n_children) {
        if (p->text[p->pos] != ',') return fail_at(p, LF_INVALID, "expected a comma or the end of the array or object");
        p->pos++;
        skip_space(p);
    }
    node->n_children++;
    if (object) LF_TRY(parse_name(p));
    return parse_value(p);
}

struct name_slot {
    uint32_t object; /* index + 1; 0: free */
    uint32_t name;
    uint64_t hash;
};

static uint64_t hash_name(const struct lf_json *doc, uint32_t object, uint32_t name, struct lf_buf *scratch)
{
    struct lf_str s;
    struct lf_json_value v = {.json = doc, .idx = name};
    if (!lf_json_borrow(v, &s)) {
        lf_buf_clear(scratch);
        if (!lf_json_string(v, scratch)) return 0; /* no memory: noticed by the caller through scratch->status */
        s = lf_buf_view(scratch);
    }
    return lf_mix64(lf_hash64(s.ptr, s.len) ^ object);
}

static bool same_name(const struct lf_json *doc, uint32_t a, uint32_t b, struct lf_buf *sa, struct lf_buf *sb)
{
    lf_buf_clear(sa);
    lf_buf_clear(sb);
    return lf_json_string((struct lf_json_value){.json = doc, .idx = a}, sa) &&
           lf_json_string((struct lf_json_value){.json = doc, .idx = b}, sb) &&
           lf_str_eq(lf_buf_view(sa), lf_buf_view(sb));
}

static enum lf_status check_names(struct parser *p, const struct lf_json *doc)
{
    if (p->n_names < 2) return LF_OK;
    size_t n_slots = 16;
    while (n_slots < (size_t)p->n_names * 2) n_slots *= 2;
    struct name_slot *slots = lf_text_alloc_zeroed(p->memory, n_slots * sizeof *slots);
    struct lf_buf sa, sb;
    lf_buf_init_in(&sa, p->len + 16, p->memory);
    lf_buf_init_in(&sb, p->len + 16, p->memory);
    enum lf_status status = LF_OK;
    if (!slots) status = fail_at(p, LF_NO_MEMORY, "no memory to compare its names");
    for (uint32_t object = 0; status == LF_OK && object < doc->n_nodes; object++) {
        struct lf_json_value v = {.json = doc, .idx = object};
        if (doc->nodes[object].type != LF_JSON_OBJECT || doc->nodes[object].n_children < 2) continue;
        for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
            uint64_t hash = hash_name(doc, object, it.idx, &sa);
            size_t at = hash & (n_slots - 1);
            while (slots[at].object && !(slots[at].object == object + 1 && slots[at].hash == hash &&
                                         same_name(doc, slots[at].name, it.idx, &sa, &sb)))
                at = (at + 1) & (n_slots - 1);
            if (slots[at].object) {
                p->pos = doc->nodes[it.idx].text_off;
                status = fail_at(p, LF_INVALID, "a name appears twice in one object");
                break;
            }
            slots[at] = (struct name_slot){object + 1, it.idx, hash};
        }
        if (sa.status != LF_OK || sb.status != LF_OK) status = fail_at(p, LF_NO_MEMORY, "no memory for its names");
    }
    lf_text_free(p->memory, slots);
    lf_buf_deinit(&sa);
    lf_buf_deinit(&sb);
    return status;
}

static enum lf_status parse_document(struct parser *p)
{
    skip_space(p);
    LF_TRY(parse_value(p));
    while (p->open != NO_PARENT) {
        LF_TRY(parse_in_container(p));
        LF_TRY(count_work(p));
    }
    skip_space(p);
    if (p->pos < p->len) return fail_at(p, LF_INVALID, "something follows the end of the value");
    struct lf_json doc = {p->text, p->len, p->nodes, p->n_nodes, NULL};
    return check_names(p, &doc);
}

enum lf_status lf_json_parse(struct lf_json *out, struct lf_str text, const struct lf_json_limits *limits,
                             struct lf_err *err)
{
    return lf_json_parse_in(out, text, limits, NULL, err);
}

enum lf_status lf_json_parse_in(struct lf_json *out, struct lf_str text, const struct lf_json_limits *limits,
                                struct lf_work *work, struct lf_err *err)
{
    struct parser p = {
        .text = text.ptr, .len = text.len, .open = NO_PARENT, .limits = limits, .work = work, .err = err};
    p.memory = lf_work_memory(work);
    if (text.len >= 0xffffffffu) return fail_at(&p, LF_LIMIT, "the text is larger than 4 GiB");
    enum lf_status status = parse_document(&p);
    if (status != LF_OK) {
        lf_text_free(p.memory, p.nodes);
        return status;
    }
    /* what doubling left over goes back: a tape may live as long as the server */
    struct lf_json_node *fitted = lf_text_realloc(p.memory, p.nodes, (size_t)p.n_nodes * sizeof *fitted);
    *out = (struct lf_json){text.ptr, text.len, fitted ? fitted : p.nodes, p.n_nodes, p.memory};
    return LF_OK;
}

void lf_json_deinit(struct lf_json *json)
{
    lf_text_free(json->memory, json->nodes);
    *json = (struct lf_json){0};
}
