/* docs: prints what the program makes of its own tables. */
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "server/commands.h"
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/http/conn/http_server.h"

enum { PAGE_BYTES = 1024 * 1024 };

static const struct {
    const char *name;
    void (*write)(struct lf_buf *out);
} documents[] = {
    {"api", lf_http_api_docs},    {"metrics", lf_http_metrics_docs},
    {"options", lf_docs_options}, {"man", lf_docs_man},
    {"bash", lf_docs_bash},       {"zsh", lf_docs_zsh},
    {"fish", lf_docs_fish},
};

int lf_print(void (*write)(struct lf_buf *out))
{
    struct lf_buf page;
    lf_buf_init(&page, PAGE_BYTES);
    write(&page);
    LF_ASSERT(page.status != LF_LIMIT); /* only this program's own tables are in it */
    bool whole = page.status == LF_OK && fwrite(page.ptr, 1, page.len, stdout) == page.len;
    lf_buf_deinit(&page);
    return whole ? LF_EXIT_OK : LF_EXIT_FAILED;
}

int lf_docs_command(const char *name)
{
    for (size_t i = 0; i < LF_N_ELEMS(documents); i++)
        if (name && strcmp(name, documents[i].name) == 0) return lf_print(documents[i].write);
    fprintf(stderr, "longflash: docs: expected one of " LF_DOCS_NAMES "%s%.60s\n", name ? ", got " : "",
            name ? name : "");
    return LF_EXIT_REFUSED;
}
