/* docs/options.md: a table of options for each group. A bar in the text of a cell would end it. */
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
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

void lf_docs_options(struct lf_buf *out)
{
    lf_buf_cstr(out, "<!-- made by `longflash docs options` from server/options.c -->\n# Options\n\n"
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
        for (int i = 0; i < lf_options_n; i++)
            if ((int)lf_options[i].group == group) row(&lf_options[i], out);
    }
}
