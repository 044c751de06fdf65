/* Stop strings in a stream.
 *
 * The stop that ends first wins, whatever pieces the text comes in; of those that end together the longest. What is
 * held back is the longest end of the text that begins some stop: shorter than a stop, so it fits. New text is looked
 * at together with it, in windows of a bounded size. */
#include "tokenizer/stop.h"

#include "core/check.h"

enum { WINDOW_BYTES = 4 * LF_STOP_BYTES };

void lf_stop_init(struct lf_stop *stop, const struct lf_str *stops, int n_stops)
{
    LF_ASSERT(n_stops >= 0 && n_stops <= LF_STOP_N);
    *stop = (struct lf_stop){.n_stops = n_stops, .matched = -1};
    for (int i = 0; i < n_stops; i++) {
        LF_ASSERT(stops[i].len >= 1 && stops[i].len <= LF_STOP_BYTES);
        stop->stops[i] = stops[i];
    }
}

/* The longest stop that text ends with, or -1. */
static int stop_at_end(const struct lf_stop *stop, struct lf_str text)
{
    int found = -1;
    for (int i = 0; i < stop->n_stops; i++) {
        if (lf_str_ends(text, stop->stops[i]) && (found < 0 || stop->stops[i].len > stop->stops[found].len)) found = i;
    }
    return found;
}

/* Length of the longest end of text that begins some stop without being it. */
static size_t may_become_stop(const struct lf_stop *stop, struct lf_str text)
{
    for (size_t n = LF_MIN(text.len, (size_t)LF_STOP_BYTES - 1); n > 0; n--) {
        struct lf_str end = lf_str_from(text.ptr + text.len - n, n);
        for (int i = 0; i < stop->n_stops; i++) {
            if (n < stop->stops[i].len && lf_str_starts(stop->stops[i], end)) return n;
        }
    }
    return 0;
}

/* Gives out the front of the window; what is left of it is held. Returns whether a stop was found. */
static bool take_window(struct lf_stop *stop, struct lf_str window, struct lf_buf *out)
{
    for (size_t end = stop->n_held + 1; end <= window.len; end++) {
        stop->matched = stop_at_end(stop, lf_str_from(window.ptr, end));
        if (stop->matched < 0) continue;
        lf_buf_append(out, window.ptr, end - stop->stops[stop->matched].len);
        stop->n_held = 0;
        return true;
    }
    stop->n_held = may_become_stop(stop, window);
    lf_buf_append(out, window.ptr, window.len - stop->n_held);
    memcpy(stop->held, window.ptr + window.len - stop->n_held, stop->n_held);
    return false;
}

bool lf_stop_push(struct lf_stop *stop, struct lf_str text, struct lf_buf *out)
{
    char window[WINDOW_BYTES];
    if (stop->matched >= 0) return true;
    if (stop->n_stops == 0) {
        lf_buf_str(out, text);
        return false;
    }
    for (size_t at = 0; at < text.len;) {
        size_t n = LF_MIN(text.len - at, sizeof window - stop->n_held);
        memcpy(window, stop->held, stop->n_held);
        memcpy(window + stop->n_held, text.ptr + at, n);
        at += n;
        if (take_window(stop, lf_str_from(window, stop->n_held + n), out)) return true;
    }
    return false;
}

void lf_stop_flush(struct lf_stop *stop, struct lf_buf *out)
{
    if (stop->matched < 0) lf_buf_append(out, stop->held, stop->n_held);
    stop->n_held = 0;
}
