/* --help: the table of settings as a page. */
#include <string.h>

#include "core/check.h"
#include "server/options.h"

enum { HELP_INDENT = 30, HELP_WIDTH = 110 };

static const char *const group_titles[LF_GROUPS_N] = {"Model", "Memory",       "Device", "Scheduling",
                                                      "HTTP",  "This command", "Other"};

static const struct {
    unsigned command;
    const char *usage, *text;
} pages[] = {
    {LF_COMMAND_SERVE, "longflash serve [--model DIR] [options]",
     "Serves a model over HTTP with the OpenAI API: /v1/chat/completions, /v1/completions, /v1/models, /tokenize,\n"
     "/detokenize, /apply-template, /v1/capacity, /metrics, /livez, /readyz. The memory plan is made, and refused\n"
     "where it does not fit, before a weight is read. SIGTERM: no new requests, those in flight go on for up to\n"
     "--drain-timeout, exit status 0; a second one: ends at once, 1. SIGHUP: reads the keys again, reopens the log.\n\n"
     "  longflash serve --model /models/llama --ctx 128K --memory 40G\n"
     "  curl localhost:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
     "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'\n"},
    {LF_COMMAND_PLAN, "longflash plan [--model DIR] [options]",
     "Says what a configuration takes in memory, from config.json and the headers of the weights alone: weights,\n"
     "workspace, KV cache, how many requests of which length fit. Exit status 0: it fits; 2: it does not.\n\n"
     "  longflash plan --model /models/llama --ctx 128K --concurrency 4 --memory 64G\n"},
    {LF_COMMAND_RUN, "longflash run [--model DIR] [--document FILE] [options] QUESTION",
     "Answers one question on the terminal, without a server. The answer goes to standard output as it is made,\n"
     "timings to standard error.\n\n"
     "  longflash run --document demo/document.txt \"What is the capital of Laigburd?\"\n"},
    {LF_COMMAND_LOAD, "longflash load [--url URL] [options]",
     "Measures a server: every level of --concurrency with every length of --lengths, with time to first token, time\n"
     "between tokens and tokens per second. Prompts are random ids below 4000 (of a vocabulary of as many at least)\n"
     "and differ, so the prefix cache finds nothing. A server takes 64 connections from one address unless\n"
     "--connections-per-address says otherwise.\n\n"
     "  longflash load --concurrency 1,8,32 --lengths 1K,16K --csv load.csv\n"
     "  longflash load --find-limit --ttft-ms 20000 --itl-ms 200\n"},
    {LF_COMMAND_TOKENIZE, "longflash tokenize [--model DIR] [TEXT…]",
     "Prints the token ids of the arguments, or of standard input, with their pieces.\n\n"
     "  longflash tokenize --count < demo/document.txt\n"
     "  longflash tokenize --decode 321 288 4024 949\n"},
    {LF_COMMAND_HEALTH, "longflash health [--url URL]",
     "Asks a server's /readyz. Exit status 0: ready; 1: not. For a container's health check.\n"},
};

/* Words of text, wrapped, each line from the column on. The first line starts where the cursor is. */
static void wrap(struct lf_buf *out, const char *text, size_t column)
{
    size_t at = column;
    while (*text) {
        size_t len = strcspn(text, " ");
        if (at > column && at + 1 + len > HELP_WIDTH) {
            lf_buf_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            lf_buf_char(out, ' ');
            at++;
        }
        lf_buf_append(out, text, len);
        at += len;
        text += len;
        while (*text == ' ') text++;
    }
    lf_buf_char(out, '\n');
}

static void print_option(const struct lf_option *o, struct lf_buf *out)
{
    size_t start = out->len;
    lf_buf_printf(out, "  --%s%s%s", o->name, o->arg ? " " : "",
                  o->type == LF_OPTION_CHOICE && strlen(o->choices) < 18 ? o->choices
                  : o->arg                                               ? o->arg
                                                                         : "");
    size_t used = out->len - start;
    if (used + 2 > HELP_INDENT) {
        lf_buf_char(out, '\n');
        used = 0;
    }
    lf_buf_printf(out, "%*s", (int)(HELP_INDENT - used), "");
    struct lf_buf text;
    lf_buf_init(&text, 4096);
    lf_buf_cstr(&text, o->help);
    if (o->type == LF_OPTION_CHOICE && strlen(o->choices) >= 18) lf_buf_printf(&text, ": %s", o->choices);
    if (*o->fallback && o->type != LF_OPTION_FLAG && strcmp(o->fallback, "0") != 0)
        lf_buf_printf(&text, " (default: %s)", o->fallback);
    wrap(out, lf_buf_view(&text).ptr, HELP_INDENT);
    lf_buf_deinit(&text);
}

static void print_overview(struct lf_buf *out)
{
    lf_buf_cstr(out, "LongFlash answers questions about long documents, exactly, over the OpenAI API.\n\n");
    for (size_t i = 0; i < LF_N_ELEMS(pages); i++) lf_buf_printf(out, "  %s\n", pages[i].usage);
    lf_buf_cstr(out, "\nEach command explains itself: longflash serve --help. Start with:\n\n"
                     "  longflash plan               does it fit?\n"
                     "  longflash serve              the demo model on http://127.0.0.1:8080\n");
}

void lf_help_print(unsigned command, struct lf_buf *out)
{
    if (!command) {
        print_overview(out);
        return;
    }
    for (size_t i = 0; i < LF_N_ELEMS(pages); i++)
        if (pages[i].command == command) lf_buf_printf(out, "%s\n\n%s", pages[i].usage, pages[i].text);
    for (int group = 0; group < LF_GROUPS_N; group++) {
        bool titled = false;
        for (int i = 0; i < lf_options_n; i++) {
            const struct lf_option *o = &lf_options[i];
            if ((int)o->group != group || !(o->commands & command)) continue;
            if (!titled) lf_buf_printf(out, "\n%s\n", group_titles[group]);
            titled = true;
            print_option(o, out);
        }
    }
    lf_buf_cstr(
        out,
        "\nNumbers take K, M, G and T (× 1024). An option may also be set in the environment (LONGFLASH_CTX for\n"
        "--ctx) or in the file of --config (\"ctx\"); the command line wins over the environment, the environment\n"
        "over the file.\n"
        "Exit status: 0 done; 1 failed on the way; 2 refused: what was asked for cannot be, and the message says "
        "why.\n");
}
