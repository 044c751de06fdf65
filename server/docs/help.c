/* --help: a page of the program, and one of each command. */
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/options.h"

enum { HELP_INDENT = 30, HELP_WIDTH = 110 };

/* Words of text, wrapped, each line from the column on; an empty line parts paragraphs. The first line starts where the
 * cursor is. Characters are counted as a terminal shows them. */
static void wrap(struct lf_buf *out, const char *text, size_t column)
{
    size_t at = column;
    while (*text) {
        size_t len = strcspn(text, " \n"), width = (size_t)lf_utf8_count(lf_str_from(text, len));
        if (at > column && at + 1 + width > HELP_WIDTH) {
            lf_buf_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            lf_buf_char(out, ' ');
            at++;
        }
        lf_buf_append(out, text, len);
        at += width;
        text += len;
        if (*text == '\n') {
            lf_buf_cstr(out, "\n\n");
            at = column;
        }
        text += strspn(text, " \n");
    }
    lf_buf_char(out, '\n');
}

static void print_option(const struct lf_option *o, struct lf_buf *out)
{
    size_t start = out->len;
    const char *value = lf_docs_value(o);
    lf_buf_printf(out, "  --%s%s%s", o->name, *value ? " " : "", value);
    size_t used = out->len - start;
    if (used + 2 > HELP_INDENT) {
        lf_buf_char(out, '\n');
        used = 0;
    }
    lf_buf_printf(out, "%*s", (int)(HELP_INDENT - used), "");
    struct lf_buf text, fallback;
    lf_buf_init(&text, 4096);
    lf_buf_init(&fallback, 4096);
    lf_docs_default(&fallback, o);
    lf_buf_cstr(&text, o->help);
    if (lf_docs_lists_choices(o)) lf_buf_printf(&text, ": %s", o->choices);
    bool says_nothing = fallback.len == 0 || lf_str_eq(lf_buf_view(&fallback), LF_STR("0"));
    if (!says_nothing) lf_buf_printf(&text, " (default %s)", fallback.ptr);
    wrap(out, lf_buf_view(&text).ptr, HELP_INDENT);
    lf_buf_deinit(&fallback);
    lf_buf_deinit(&text);
}

static void print_examples(const char *examples, struct lf_buf *out)
{
    lf_buf_char(out, '\n');
    while (*examples) {
        size_t len = strcspn(examples, "\n");
        lf_buf_printf(out, "  %.*s\n", (int)len, examples);
        examples += len + (examples[len] == '\n');
    }
}

static void print_program(struct lf_buf *out)
{
    lf_buf_cstr(out, "LongFlash answers questions about long documents, exactly, over the OpenAI API.\n\n");
    for (int i = 0; i < lf_command_rows_n; i++)
        lf_buf_printf(out, "  longflash %-10s %s\n", lf_command_rows[i].name, lf_command_rows[i].summary);
    lf_buf_cstr(out, "\nEach command explains itself: longflash serve --help. Start with:\n\n"
                     "  longflash plan               does it fit?\n"
                     "  longflash serve              the demo model on http://127.0.0.1:8080\n");
}

static void print_group(unsigned command, enum lf_option_group group, struct lf_buf *out)
{
    bool titled = false;
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        if (o->group != group || !(o->commands & command)) continue;
        if (!titled) lf_buf_printf(out, "\n%s\n", group == LF_GROUP_COMMAND ? "This command" : lf_option_groups[group]);
        titled = true;
        print_option(o, out);
    }
}

void lf_help_print(const char *command, struct lf_buf *out)
{
    const struct lf_command_row *row = lf_command_row_find(command);
    if (!row) {
        print_program(out);
        return;
    }
    lf_buf_printf(out, "longflash %s%s%s\n\n", row->name, *row->args ? " " : "", row->args);
    wrap(out, row->text, 0);
    if (row->examples) print_examples(row->examples, out);
    if (!row->command) return;
    for (int group = 0; group < LF_GROUPS_N; group++) print_group(row->command, (enum lf_option_group)group, out);
    lf_buf_char(out, '\n');
    wrap(out,
         "Numbers take K, M, G and T (× 1024). An option may also be set in the environment (LONGFLASH_CTX for --ctx) "
         "or in the file of --config (\"ctx\"); the command line wins over the environment, the environment over the "
         "file. More: longflash(1), docs/options.md.",
         0);
    wrap(out,
         "Exit status: 0 done; 1 failed on the way; 2 refused: what was asked for cannot be, and the message says why.",
         0);
}
