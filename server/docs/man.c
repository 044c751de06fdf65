/* The man page, in the macros of man(7). */
#include "core/check.h"
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/options.h"

/* Text as roff reads it back: dashes stay dashes that can be copied, no line begins with a request, and what is not
 * ASCII is written by its code point. */
static void roff(struct lf_buf *out, const char *text)
{
    if (*text == '.' || *text == '\'') lf_buf_cstr(out, "\\&");
    for (size_t left = strlen(text); left > 0;) {
        uint32_t cp = 0;
        int n = lf_utf8_decode(text, left, &cp);
        LF_ASSERT(n > 0);
        if (cp == '-')
            lf_buf_cstr(out, "\\-");
        else if (cp == '\\')
            lf_buf_cstr(out, "\\e");
        else if (cp > 126)
            lf_buf_printf(out, "\\[u%04X]", (unsigned)cp);
        else if (cp == '\n')
            lf_buf_cstr(out, "\n.PP\n");
        else
            lf_buf_append(out, text, (size_t)n);
        while (cp == '\n' && text[n] == '\n') n++;
        text += n;
        left -= (size_t)n;
    }
}

static void roff_buf(struct lf_buf *out, struct lf_buf *text)
{
    roff(out, text->len ? text->ptr : "");
    lf_buf_clear(text);
}

static void examples(struct lf_buf *out, const char *lines)
{
    lf_buf_cstr(out, ".PP\n.EX\n");
    while (*lines) {
        size_t len = strcspn(lines, "\n");
        char line[256];
        LF_ASSERT(len < sizeof line);
        memcpy(line, lines, len);
        line[len] = '\0';
        roff(out, line);
        lf_buf_char(out, '\n');
        lines += len + (lines[len] == '\n');
    }
    lf_buf_cstr(out, ".EE\n");
}

static void command(struct lf_buf *out, const struct lf_command_row *row)
{
    lf_buf_printf(out, ".SS \"longflash %s\"\n", row->name);
    if (*row->args) {
        lf_buf_printf(out, ".B longflash %s\n", row->name);
        roff(out, row->args);
        lf_buf_cstr(out, "\n.PP\n");
    }
    roff(out, row->text);
    lf_buf_char(out, '\n');
    if (row->examples) examples(out, row->examples);
}

static void option(struct lf_buf *out, const struct lf_option *o)
{
    struct lf_buf text;
    char name[64];
    lf_buf_init(&text, 4096);
    lf_buf_cstr(out, ".TP\n\\fB\\-\\-");
    roff(out, o->name);
    lf_buf_cstr(out, "\\fR");
    if (*lf_docs_value(o)) {
        lf_buf_cstr(out, " \\fI");
        roff(out, lf_docs_value(o));
        lf_buf_cstr(out, "\\fR");
    }
    lf_buf_char(out, '\n');
    lf_buf_cstr(&text, o->help);
    if (lf_docs_lists_choices(o)) lf_buf_printf(&text, ": %s", o->choices);
    lf_buf_printf(&text, ".%s%s", o->detail ? " " : "", o->detail ? o->detail : "");
    roff_buf(out, &text);
    lf_docs_default(&text, o);
    lf_buf_cstr(out, "\n.br\n");
    if (text.len > 0) {
        lf_buf_cstr(out, "Default: ");
        roff_buf(out, &text);
        lf_buf_cstr(out, ". ");
    }
    lf_option_env_name(o, name);
    lf_buf_printf(out, "Environment: \\fB%s\\fR. Commands: ", name);
    lf_docs_commands(&text, o);
    roff_buf(out, &text);
    lf_buf_cstr(out, ".\n");
    lf_buf_deinit(&text);
}

static const char before[] =
    ".TH LONGFLASH 1 \"\" \"LongFlash " LF_VERSION "\" \"User Commands\"\n"
    ".SH NAME\nlongflash \\- answers questions about long documents over the OpenAI API\n"
    ".SH SYNOPSIS\n.B longflash\n.I COMMAND\n[options] [arguments]\n"
    ".SH DESCRIPTION\n"
    "LongFlash serves a language model over HTTP, for documents of 100,000 tokens and more: exact attention, a cache "
    "of "
    "documents that were read before, and a memory plan that is made, and refused where it does not fit, before a "
    "weight is read. It runs on CPUs and, where the backend was built in, on NVIDIA GPUs.\n"
    ".SH COMMANDS\n";
static const char between[] =
    ".SH OPTIONS\n"
    "Numbers take K, M, G and T (\\[u00D7] 1024). An option may also be set in the environment or in the JSON file of "
    "\\fB\\-\\-config\\fR, where dashes are underscores (\"max_seqs\"); the command line wins over the environment, "
    "the "
    "environment over the file. Unknown names are refused, in all three.\n";
static const char after[] =
    ".SH ENVIRONMENT\n"
    "Each option has a variable, named above.\n"
    ".TP\n.B LONGFLASH_API_KEYS\nThe keys of clients, separated by commas, beside those of "
    "\\fB\\-\\-api\\-keys\\-file\\fR. \\fBload\\fR sends the first one.\n"
    ".SH SIGNALS\n"
    ".TP\n.BR SIGTERM \", \" SIGINT\n\\fBserve\\fR takes no new requests, gives those in flight "
    "\\fB\\-\\-drain\\-timeout\\fR and ends with 0; a second one ends it at once with 1.\n"
    ".TP\n.B SIGHUP\n\\fBserve\\fR reads the keys again and reopens the log.\n"
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nDone.\n"
    ".TP\n.B 1\nFailed on the way.\n"
    ".TP\n.B 2\nRefused: what was asked for cannot be, and the message says why.\n"
    ".SH FILES\n"
    ".TP\n.I share/longflash/demo/model\nThe demo model, beside the folder of the program: what \\fBdemo/model\\fR, "
    "the default, names where no such folder is.\n"
    ".TP\n.I share/longflash/configs\nExamples for \\fB\\-\\-config\\fR.\n"
    ".TP\n.I share/doc/longflash\nThe documents: api.md, options.md and others.\n";

void lf_docs_man(struct lf_buf *out)
{
    lf_buf_cstr(out, ".\\\" made by `longflash docs man` from server/options.c and server/docs/\n");
    lf_buf_cstr(out, before);
    for (int i = 0; i < lf_command_rows_n; i++) command(out, &lf_command_rows[i]);
    lf_buf_cstr(out, between);
    for (int group = 0; group < LF_GROUPS_N; group++) {
        lf_buf_printf(out, ".SS \"%s\"\n", lf_option_groups[group]);
        for (int i = 0; i < lf_options_n(); i++)
            if ((int)lf_option_at(i)->group == group) option(out, lf_option_at(i));
    }
    lf_buf_cstr(out, after);
}
