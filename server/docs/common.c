/* What the documents that are made of the options have in common: how a row names its value, default and commands. */
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/options.h"

enum { FEW_CHOICES_CHARS = 18 };

bool lf_docs_lists_choices(const struct lf_option *o)
{
    return o->type == LF_OPTION_CHOICE && strlen(o->choices) >= FEW_CHOICES_CHARS;
}

const char *lf_docs_value(const struct lf_option *o)
{
    if (o->type == LF_OPTION_FLAG) return "";
    return o->type == LF_OPTION_CHOICE && !lf_docs_lists_choices(o) ? o->choices : o->arg;
}

void lf_docs_default(struct lf_buf *out, const struct lf_option *o)
{
    if (o->type == LF_OPTION_FLAG) return;
    lf_buf_cstr(out, o->fallback);
    if (o->shown) lf_buf_printf(out, "%s%s", *o->fallback ? ": " : "", o->shown);
}

void lf_docs_commands(struct lf_buf *out, const struct lf_option *o)
{
    const char *comma = "";
    for (int i = 0; i < lf_command_rows_n; i++) {
        if (!(lf_command_rows[i].command & o->commands)) continue;
        lf_buf_printf(out, "%s%s", comma, lf_command_rows[i].name);
        comma = ", ";
    }
}
