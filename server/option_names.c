/* Look-ups in the table of settings. */
#include "server/options.h"

#include <ctype.h>
#include <string.h>

#include "core/check.h"

const struct lf_option *lf_option_find(const char *name, size_t name_len, unsigned command)
{
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        if (command && !(o->commands & command)) continue;
        if (strlen(o->name) == name_len && memcmp(o->name, name, name_len) == 0) return o;
    }
    return NULL;
}

/* Levenshtein distance of two short words (Wagner & Fischer 1974); large where either is too long to be a name. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int row[65];
    if (n > 64 || m > 64) return 1000;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = LF_MIN(best, row[j] + 1);
            row[j] = LF_MIN(best, row[j - 1] + 1);
        }
    }
    return row[m];
}

const struct lf_option *lf_option_nearest(const char *name, unsigned command)
{
    const struct lf_option *best = NULL;
    int best_distance = 4; /* three letters off is still a slip */
    for (int i = 0; i < lf_options_n(); i++) {
        if (!(lf_option_at(i)->commands & command)) continue;
        int d = distance(name, lf_option_at(i)->name);
        if (d < best_distance) {
            best_distance = d;
            best = lf_option_at(i);
        }
    }
    return best;
}

/* The name with dashes as underscores. */
static void underscored(const char *name, char *out)
{
    size_t n = strlen(name);
    LF_ASSERT(n < 48);
    for (size_t i = 0; i <= n; i++) out[i] = name[i] == '-' ? '_' : name[i];
}

void lf_option_json_name(const struct lf_option *option, char out[64])
{
    underscored(option->name, out);
}

void lf_option_env_name(const struct lf_option *option, char out[64])
{
    static const char prefix[] = "LONGFLASH_";
    memcpy(out, prefix, sizeof(prefix) - 1);
    underscored(option->name, out + sizeof(prefix) - 1);
    for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
}
