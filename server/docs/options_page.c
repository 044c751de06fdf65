/* docs/options.md: a table of options for each group. A bar in the text of a cell would end it. */
#include <string.h>

#include "core/check.h"
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/option_hints.h"
#include "server/options.h"

static void row(const struct lf_option *o, struct lf_buf *out)
{
    const char *value = lf_docs_value(o);
    lf_buf_printf(out, "| `--%s`", o->name);
    if (*value) {
        lf_buf_cstr(out, " `");
        lf_buf_escaped(out, value, "|");
        lf_buf_char(out, '`');
    }
    lf_buf_cstr(out, " | ");
    lf_docs_default(out, o);
    lf_buf_cstr(out, " | ");
    lf_docs_commands(out, o);
    lf_buf_cstr(out, " | ");
    lf_buf_escaped(out, o->help, "|");
    if (lf_docs_lists_choices(o)) {
        lf_buf_cstr(out, ": `");
        lf_buf_escaped(out, o->choices, "|");
        lf_buf_char(out, '`');
    }
    if (o->detail) {
        lf_buf_cstr(out, ". ");
        lf_buf_escaped(out, o->detail, "|");
    }
    lf_buf_cstr(out, " |\n");
}

/* "`--ctx-size`", and so on for each name of the row. */
static void their_names(const char *theirs, struct lf_buf *out)
{
    while (*theirs) {
        size_t n = strcspn(theirs, " ");
        lf_buf_printf(out, "`%.*s`%s", (int)n, theirs, theirs[n] ? ", " : "");
        theirs += n + (theirs[n] == ' ');
    }
}

/* "`--ctx TOKENS|auto`" */
static void ours(struct lf_buf *out, const struct lf_option_hint *h)
{
    const struct lf_option *o = lf_option_find(h->ours, strlen(h->ours), 0);
    LF_ASSERT(o != NULL);
    lf_buf_printf(out, "`--%s%s", o->name, o->arg ? " " : "");
    lf_buf_escaped(out, o->arg ? o->arg : "", "|");
    lf_buf_printf(out, "`%s", h->say ? ", " : "");
}

static void hints(struct lf_buf *out)
{
    lf_buf_cstr(out, "\n## Coming from vLLM or llama.cpp\n\nTheir options are refused, and the refusal says what "
                     "this table says.\n\n| there | here |\n|---|---|\n");
    for (int i = 0; i < lf_option_hints_n; i++) {
        const struct lf_option_hint *h = &lf_option_hints[i];
        lf_buf_cstr(out, "| ");
        their_names(h->theirs, out);
        lf_buf_cstr(out, " | ");
        if (h->ours) ours(out, h);
        if (h->say) lf_buf_escaped(out, h->say, "|");
        lf_buf_cstr(out, " |\n");
    }
}

void lf_docs_options(struct lf_buf *out)
{
    lf_buf_cstr(out,
                "<!-- made by `longflash docs options` from server/options.c, server/option_hints.c -->\n# Options\n\n"
                "Each may be given on the command line (`--max-seqs 8`, `--max-seqs=8`), in the environment "
                "(`LONGFLASH_MAX_SEQS=8`)\nor in the JSON file of `--config` (`\"max_seqs\": 8`); the command "
                "line wins over the environment, the environment over the\nfile. Numbers take K, M, G and T "
                "(× 1024). What cannot be meant is refused in one line, unknown names too.\n\n"
                "| command | what it does |\n|---|---|\n");
    for (int i = 0; i < lf_command_rows_n; i++)
        lf_buf_printf(out, "| `longflash %s` | %s |\n", lf_command_rows[i].name, lf_command_rows[i].summary);
    for (int group = 0; group < LF_GROUPS_N; group++) {
        lf_buf_printf(out, "\n## %s\n\n| option | default | commands | what it is |\n|---|---|---|---|\n",
                      lf_option_groups[group]);
        for (int i = 0; i < lf_options_n(); i++)
            if ((int)lf_option_at(i)->group == group) row(lf_option_at(i), out);
    }
    hints(out);
}
