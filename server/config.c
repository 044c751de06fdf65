/* Reads a configuration: argv is taken apart first (so that --config is known), then defaults, file, environment and
 * command line are applied in this order, each over the one before. */
#include "server/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "server/option_hints.h"
#include "server/options.h"

enum { CONFIG_FILE_BYTES = 1024 * 1024, CONFIG_ARENA_BYTES = 4 * 1024 * 1024 };

/* One setting as it was written, and where: "--port", "LONGFLASH_PORT" or "demo.json: port". */
struct setting {
    const struct lf_option *option;
    const char *value;
    const char *source;
};

bool lf_config_parse_size(const char *text, uint64_t *out)
{
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno != 0) return false;
    int shift = 0;
    switch (*end) {
    case 'T':
    case 't':
        shift += 10; /* fall through */
    case 'G':
    case 'g':
        shift += 10; /* fall through */
    case 'M':
    case 'm':
        shift += 10; /* fall through */
    case 'K':
    case 'k':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || n > (uint64_t)INT64_MAX >> shift) return false;
    *out = (uint64_t)n << shift;
    return true;
}

static enum lf_status parse_choice(const struct setting *s, int *out, struct lf_err *err)
{
    struct lf_str rest = lf_str_c(s->option->choices), value = lf_str_c(s->value);
    for (int i = 0; rest.len > 0; i++) {
        ptrdiff_t bar = lf_str_find(rest, LF_STR("|"));
        size_t len = bar < 0 ? rest.len : (size_t)bar;
        if (lf_str_eq(lf_str_from(rest.ptr, len), value)) {
            *out = i;
            return LF_OK;
        }
        size_t skip = bar < 0 ? len : len + 1;
        rest = lf_str_from(rest.ptr + skip, rest.len - skip);
    }
    return lf_fail(err, LF_INVALID, "%s: expected %s, got \"%.100s\"", s->source, s->option->choices, s->value);
}

static enum lf_status parse_switch(const struct setting *s, bool *out, struct lf_err *err)
{
    bool on = strcmp(s->value, "on") == 0 || strcmp(s->value, "true") == 0 || strcmp(s->value, "1") == 0;
    bool off = strcmp(s->value, "off") == 0 || strcmp(s->value, "false") == 0 || strcmp(s->value, "0") == 0;
    if (!on && !off) return lf_fail(err, LF_INVALID, "%s: expected on or off, got \"%.100s\"", s->source, s->value);
    *out = on;
    return LF_OK;
}

static enum lf_status parse_number(const struct setting *s, uint64_t *out, struct lf_err *err)
{
    const struct lf_option *o = s->option;
    uint64_t n;
    if (!lf_config_parse_size(s->value, &n) || n < (uint64_t)o->min || n > (uint64_t)o->max)
        return lf_fail(err, LF_INVALID,
                       "%s: expected a whole number from %lld to %lld (K, M, G: × 1024)%s%s%s%s, got \"%.100s\"",
                       s->source, (long long)o->min, (long long)o->max, o->word ? " or " : "", o->word ? o->word : "",
                       o->zero ? " or " : "", o->zero ? o->zero : "", s->value);
    *out = n;
    return LF_OK;
}

static enum lf_status parse_real(const struct setting *s, double *out, struct lf_err *err)
{
    char *end;
    double x = strtod(s->value, &end);
    if (end == s->value || *end != '\0' || !(x >= (double)s->option->min && x <= (double)s->option->max))
        return lf_fail(err, LF_INVALID, "%s: expected a number from %lld to %lld, got \"%.100s\"", s->source,
                       (long long)s->option->min, (long long)s->option->max, s->value);
    *out = x;
    return LF_OK;
}

/* Appends the comma-separated parts of the value to the list, or all of it where commas separate nothing. */
static enum lf_status parse_list(struct lf_config *c, const struct setting *s, const char *const **list,
                                 struct lf_err *err)
{
    const char **out = lf_arena_array(&c->arena, LF_CONFIG_LIST_N + 1, sizeof(*out));
    if (!out) return lf_fail(err, LF_NO_MEMORY, "%s: out of memory", s->source);
    int n = 0;
    for (const char *const *old = *list; old && *old; old++) out[n++] = *old;
    const char *p = s->value;
    for (;;) {
        size_t len = strcspn(p, s->option->type == LF_OPTION_LIST ? "," : "");
        if (n == LF_CONFIG_LIST_N)
            return lf_fail(err, LF_LIMIT, "%s: more than %d values", s->source, LF_CONFIG_LIST_N);
        if (len > 0) {
            out[n] = lf_arena_strdup(&c->arena, lf_str_from(p, len));
            if (!out[n++]) return lf_fail(err, LF_NO_MEMORY, "%s: out of memory", s->source);
        }
        if (p[len] == '\0') break;
        p += len + 1;
    }
    *list = n > 0 ? out : NULL;
    return LF_OK;
}

/* A word in a number's place. */
static bool parse_word(const struct setting *s, int *out)
{
    const struct lf_option *o = s->option;
    bool is_word = o->word && strcmp(s->value, o->word) == 0, is_zero = o->zero && strcmp(s->value, o->zero) == 0;
    if (is_word || is_zero) *out = is_word ? LF_OPTION_WORD : 0;
    return is_word || is_zero;
}

static enum lf_status apply(struct lf_config *c, const struct setting *s, struct lf_err *err)
{
    void *field = (char *)c + s->option->offset;
    uint64_t n = 0;
    switch (s->option->type) {
    case LF_OPTION_STRING: {
        const char *copy = lf_arena_strdup(&c->arena, lf_str_c(s->value));
        if (!copy) return lf_fail(err, LF_NO_MEMORY, "%s: out of memory, or the value is too long", s->source);
        *(const char **)field = *copy ? copy : NULL;
        return LF_OK;
    }
    case LF_OPTION_INT:
        if (parse_word(s, field)) return LF_OK;
        LF_TRY(parse_number(s, &n, err));
        *(int *)field = (int)n;
        return LF_OK;
    case LF_OPTION_SIZE:
        LF_TRY(parse_number(s, &n, err));
        *(uint64_t *)field = n;
        return LF_OK;
    case LF_OPTION_REAL:
        return parse_real(s, field, err);
    case LF_OPTION_CHOICE:
        return parse_choice(s, field, err);
    case LF_OPTION_SWITCH:
    case LF_OPTION_FLAG:
        return parse_switch(s, field, err);
    case LF_OPTION_LIST:
    case LF_OPTION_TEXTS:
        return parse_list(c, s, field, err);
    }
    return lf_fail(err, LF_INVALID, "%s: a setting of no type", s->source);
}

/* A list starts anew in each source. */
static void clear_list(struct lf_config *c, const struct lf_option *o)
{
    if (lf_option_is_list(o)) *(const char *const **)((char *)c + o->offset) = NULL;
}

/* ---- command line ---- */

struct command_line {
    struct setting *settings;
    int n;
};

/* An option of another server, with what to type here; LF_OK where it is none of those known. */
static enum lf_status check_foreign(const char *typed, enum lf_command command, struct lf_err *err)
{
    size_t len = strcspn(typed, "=");
    const struct lf_option_hint *hint = lf_option_hint_find(typed, len);
    struct lf_buf text;
    if (!hint) return LF_OK;
    lf_buf_init(&text, LF_ERR_MESSAGE_BYTES);
    lf_option_hint_print(hint, command, &text);
    enum lf_status status =
        lf_fail(err, LF_INVALID, "%.*s: unknown option; %s", (int)LF_MIN(len, 60u), typed, lf_buf_view(&text).ptr);
    lf_buf_deinit(&text);
    return status;
}

static enum lf_status unknown_option(const char *typed, const char *name, enum lf_command command, struct lf_err *err)
{
    const struct lf_option *elsewhere = lf_option_find(name, strlen(name), 0);
    if (elsewhere) return lf_fail(err, LF_INVALID, "--%s: this command has no such option; see --help", name);
    LF_TRY(check_foreign(typed, command, err));
    const struct lf_option *near = lf_option_nearest(name, command);
    if (near) return lf_fail(err, LF_INVALID, "--%.60s: unknown option; did you mean --%s?", name, near->name);
    return lf_fail(err, LF_INVALID, "--%.60s: unknown option; see --help", name);
}

static enum lf_status read_option(struct lf_config *c, enum lf_command command, struct command_line *line, int argc,
                                  char *const *argv, int *i, struct lf_err *err)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    const struct lf_option *o = lf_option_find(name, len, command);
    const char *bare = lf_arena_strdup(&c->arena, lf_str_from(name, len));
    char *source = lf_arena_alloc(&c->arena, len + 3);
    if (!source || !bare) return lf_fail(err, LF_NO_MEMORY, "the command line is too long");
    if (!o) return unknown_option(argv[*i], bare, command, err);
    memcpy(source, "--", 2);
    memcpy(source + 2, name, len);
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (o->type == LF_OPTION_FLAG) {
        if (value) return lf_fail(err, LF_INVALID, "%s takes no value", source);
        value = "on";
    } else if (!value) {
        if (*i + 1 >= argc) return lf_fail(err, LF_INVALID, "%s: expected %s behind it", source, o->arg);
        value = argv[++*i];
    }
    line->settings[line->n++] = (struct setting){o, value, source};
    return LF_OK;
}

static enum lf_status read_command_line(struct lf_config *c, enum lf_command command, struct command_line *line,
                                        int argc, char *const *argv, struct lf_err *err)
{
    line->settings = lf_arena_array(&c->arena, (size_t)argc + 1, sizeof(*line->settings));
    if (!line->settings) return lf_fail(err, LF_NO_MEMORY, "the command line is too long");
    bool options = true;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && strcmp(arg, "-h") == 0) {
            c->help = true;
        } else if (options && strncmp(arg, "--", 2) == 0) {
            LF_TRY(read_option(c, command, line, argc, argv, &i, err));
        } else if (options && arg[0] == '-' && arg[1] != '\0') {
            LF_TRY(check_foreign(arg, command, err));
            return lf_fail(err, LF_INVALID, "%.60s: unknown option; options begin with two dashes", arg);
        } else {
            if (c->n_args == LF_CONFIG_ARGS_N)
                return lf_fail(err, LF_LIMIT, "more than %d arguments", LF_CONFIG_ARGS_N);
            c->args[c->n_args++] = arg;
        }
    }
    return LF_OK;
}

/* ---- environment ---- */

/* Kubernetes puts LONGFLASH_SERVICE_HOST, LONGFLASH_PORT=tcp://… and their like into every container beside a service
 * that is named longflash: nobody's settings. */
static bool is_service_link(const char *variable)
{
    return strncmp(variable, "LONGFLASH_SERVICE_", 18) == 0 || strncmp(variable, "LONGFLASH_PORT_", 15) == 0 ||
           strncmp(variable, "LONGFLASH_PORT=tcp://", 21) == 0;
}

static const char *env_value(char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (char *const *e = env; e && *e; e++)
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=' && !is_service_link(*e)) return *e + len + 1;
    return NULL;
}

/* A variable that no setting has is most likely a slip: refused like an unknown option. */
static enum lf_status check_env_names(char *const *env, struct lf_err *err)
{
    for (char *const *e = env; e && *e; e++) {
        size_t len = strcspn(*e, "=");
        if (strncmp(*e, "LONGFLASH_", 10) != 0 || strncmp(*e, "LONGFLASH_API_KEYS=", 19) == 0 || is_service_link(*e))
            continue;
        bool known = false;
        for (int i = 0; i < lf_options_n() && !known; i++) {
            char name[64];
            lf_option_env_name(lf_option_at(i), name);
            known = strlen(name) == len && memcmp(name, *e, len) == 0;
        }
        if (!known)
            return lf_fail(err, LF_INVALID, "%.*s: no setting has this environment variable; see --help",
                           (int)(len < 60 ? len : 60), *e);
    }
    return LF_OK;
}

static enum lf_status apply_env(struct lf_config *c, enum lf_command command, char *const *env, struct lf_err *err)
{
    LF_TRY(check_env_names(env, err));
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        char name[64];
        if (!(o->commands & command)) continue;
        lf_option_env_name(o, name);
        const char *value = env_value(env, name);
        if (!value || !*value) continue;
        clear_list(c, o);
        LF_TRY(apply(c, &(struct setting){o, value, name}, err));
    }
    const char *keys = env_value(env, "LONGFLASH_API_KEYS");
    c->api_keys_env = keys && *keys ? keys : NULL; /* empty is unset, as with every other variable */
    return LF_OK;
}

/* ---- file ---- */

static const struct lf_option *find_json_name(struct lf_json_value name, unsigned command)
{
    for (int i = 0; i < lf_options_n(); i++) {
        char json_name[64];
        if (command && !(lf_option_at(i)->commands & command)) continue;
        lf_option_json_name(lf_option_at(i), json_name);
        if (lf_json_string_is(name, json_name)) return lf_option_at(i);
    }
    return NULL;
}

/* The value as the command line would have it; numbers keep their digits. */
static enum lf_status json_text(struct lf_config *c, const char *source, struct lf_json_value v, const char **out,
                                struct lf_err *err)
{
    struct lf_buf buf;
    lf_buf_init(&buf, CONFIG_FILE_BYTES);
    enum lf_status status = LF_OK;
    switch (lf_json_type(v)) {
    case LF_JSON_STRING:
        if (!lf_json_string(v, &buf)) status = LF_NO_MEMORY;
        break;
    case LF_JSON_NUMBER:
        lf_buf_str(&buf, lf_json_raw(v));
        break;
    case LF_JSON_TRUE:
        lf_buf_cstr(&buf, "on");
        break;
    case LF_JSON_FALSE:
        lf_buf_cstr(&buf, "off");
        break;
    default:
        status = lf_fail(err, LF_INVALID, "%s: expected a string, a number or true/false, got %s", source,
                         lf_json_type_name(v));
    }
    if (status == LF_OK) {
        *out = lf_arena_strdup(&c->arena, lf_buf_view(&buf));
        if (!*out || buf.status != LF_OK) status = lf_fail(err, LF_NO_MEMORY, "%s: out of memory", source);
    }
    lf_buf_deinit(&buf);
    return status;
}

static enum lf_status apply_member(struct lf_config *c, enum lf_command command, const char *path,
                                   struct lf_json_value name, struct lf_err *err)
{
    struct lf_str raw = lf_json_raw(name);
    if (lf_json_string_is(name, "comment")) return LF_OK;
    const struct lf_option *o = find_json_name(name, command);
    if (!o && find_json_name(name, 0)) return LF_OK; /* a setting of another command: one file serves them all */
    if (!o || o->offset == offsetof(struct lf_config, config) || o->offset == offsetof(struct lf_config, help))
        return lf_fail(err, LF_INVALID, "%s: \"%.*s\" is no setting; --help lists them", path,
                       (int)(raw.len < 60 ? raw.len : 60), raw.ptr);
    struct lf_buf source;
    lf_buf_init(&source, LF_ERR_MESSAGE_BYTES);
    lf_buf_printf(&source, "%.200s: %.*s", path, (int)raw.len, raw.ptr);
    clear_list(c, o);
    struct lf_json_value v = lf_json_member(name);
    enum lf_status status = LF_OK;
    const char *text = NULL;
    if (lf_option_is_list(o) && lf_json_type(v) == LF_JSON_ARRAY) {
        for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
            LF_TRY_GOTO(json_text(c, source.ptr, it, &text, err), done);
            LF_TRY_GOTO(apply(c, &(struct setting){o, text, source.ptr}, err), done);
        }
    } else if (lf_json_type(v) != LF_JSON_NULL) {
        LF_TRY_GOTO(json_text(c, source.ptr, v, &text, err), done);
        LF_TRY_GOTO(apply(c, &(struct setting){o, text, source.ptr}, err), done);
    }
done:
    lf_buf_deinit(&source);
    return status;
}

static enum lf_status apply_file(struct lf_config *c, enum lf_command command, const char *path, struct lf_err *err)
{
    struct lf_buf text;
    struct lf_json json = {0};
    lf_buf_init(&text, CONFIG_FILE_BYTES);
    enum lf_status status;
    LF_TRY_GOTO(lf_file_read(&text, path, CONFIG_FILE_BYTES, err), done);
    status = lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_request, err);
    if (status != LF_OK) {
        status = lf_fail_within(err, status, "%s", path);
        goto done;
    }
    struct lf_json_value root = lf_json_root(&json);
    if (lf_json_type(root) != LF_JSON_OBJECT) {
        status = lf_fail(err, LF_INVALID, "%s: expected an object, got %s", path, lf_json_type_name(root));
        goto done;
    }
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it))
        LF_TRY_GOTO(apply_member(c, command, path, it, err), done);
done:
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status;
}

/* ---- all of it ---- */

enum lf_status lf_config_read(struct lf_config *out, enum lf_command command, int argc, char *const *argv,
                              char *const *env, struct lf_err *err)
{
    struct command_line line = {0};
    memset(out, 0, sizeof(*out));
    lf_arena_init(&out->arena, 4096, CONFIG_ARENA_BYTES);
    LF_TRY(read_command_line(out, command, &line, argc, argv, err));
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        if ((o->commands & command) && o->offset != offsetof(struct lf_config, help))
            LF_TRY(apply(out, &(struct setting){o, o->fallback, o->name}, err));
    }
    const char *path = env_value(env, "LONGFLASH_CONFIG");
    for (int i = 0; i < line.n; i++)
        if (line.settings[i].option->offset == offsetof(struct lf_config, config)) path = line.settings[i].value;
    if (path && *path && !out->help) LF_TRY(apply_file(out, command, path, err));
    LF_TRY(apply_env(out, command, env, err));
    for (int i = 0; i < line.n; i++) clear_list(out, line.settings[i].option);
    for (int i = 0; i < line.n; i++) LF_TRY(apply(out, &line.settings[i], err));
    return LF_OK;
}

void lf_config_deinit(struct lf_config *config)
{
    lf_arena_deinit(&config->arena);
}
