#include "server/http/api/document_answer.h"

#include <stddef.h>

#include "core/clock.h"
#include "core/text_memory.h"
#include "server/http/api/document_json.h"

enum {
    LOOK_MS = 100, /* its state is told by nobody: it is looked at */
    SHOW_MS = 500  /* an event at least so often, news or not */
};

struct waiting {
    struct lf_answer answer;
    struct lf_documents *docs;
    struct lf_document *document; /* a reference */
    struct lf_text_memory *memory;
    int64_t shown_ns, n_read; /* of the last event; shown_ns 0: there was none */
};

static struct waiting *waiting_of(struct lf_answer *answer)
{
    return (struct waiting *)(void *)((char *)answer - offsetof(struct waiting, answer));
}

static bool begin(struct lf_answer *answer, struct lf_reply *reply)
{
    (void)answer;
    lf_reply_json(reply, 200);
    reply->content_type = "text/event-stream; charset=utf-8";
    return true;
}

static enum lf_fill end_with(struct lf_buf *out, const struct lf_api_err *err)
{
    lf_buf_cstr(out, "data: ");
    lf_api_err_write(out, err);
    lf_buf_cstr(out, "\n\n");
    return LF_FILL_LAST;
}

static enum lf_fill end_as_gone(struct lf_buf *out)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, 404, NULL, "document_not_found", "The document was deleted or replaced meanwhile.");
    return end_with(out, &err);
}

static enum lf_fill end_as_failed(struct lf_buf *out, const char *reason)
{
    struct lf_api_err err;
    (void)!lf_refuse(&err, 500, NULL, "document_failed", "%s", reason);
    return end_with(out, &err);
}

static enum lf_fill fill(struct lf_answer *answer, struct lf_buf *out, int64_t *wake_at_ns)
{
    struct waiting *w = waiting_of(answer);
    struct lf_document_view view;
    int64_t now_ns = lf_clock_ns();
    *wake_at_ns = now_ns + LOOK_MS * LF_NS_PER_MS;
    lf_document_look(w->docs, w->document, &view);
    if (lf_document_is_gone(w->document)) return end_as_gone(out);
    if (view.state == LF_DOCUMENT_FAILED) return end_as_failed(out, view.reason);
    bool is_due = !w->shown_ns || view.n_read != w->n_read || now_ns - w->shown_ns >= SHOW_MS * LF_NS_PER_MS;
    if (view.state == LF_DOCUMENT_READING && !is_due) return LF_FILL_WAIT;
    lf_buf_cstr(out, "data: ");
    lf_document_write(out, &view);
    lf_buf_cstr(out, "\n\n");
    if (view.state == LF_DOCUMENT_READY) lf_buf_cstr(out, "data: [DONE]\n\n");
    if (out->status != LF_OK) return LF_FILL_SOME;
    w->shown_ns = now_ns;
    w->n_read = view.n_read;
    return view.state == LF_DOCUMENT_READY ? LF_FILL_END : LF_FILL_SOME;
}

static void destroy(struct lf_answer *answer)
{
    struct waiting *w = waiting_of(answer);
    lf_document_unref(w->docs, w->document);
    lf_text_free(w->memory, w);
}

enum lf_status lf_document_answer_create(struct lf_answer **out, struct lf_documents *docs,
                                         struct lf_document *document, struct lf_text_memory *memory)
{
    struct waiting *w = lf_text_alloc_zeroed(memory, sizeof *w);
    if (!w) return LF_NO_MEMORY;
    w->answer = (struct lf_answer){.begin = begin, .fill = fill, .destroy = destroy, .is_stream = true};
    w->docs = docs;
    w->document = document;
    w->memory = memory;
    *out = &w->answer;
    return LF_OK;
}
