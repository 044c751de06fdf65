/* Normal forms (UAX 15) and small letters.
 *
 * Decomposition puts code points into a run that begins with a starter (class 0) and goes on to the next one; a run is
 * put in order by class, composed where the form asks for it, and given out. A run's marks may be as many as the text
 * is long, so they are sorted by counting their classes, not by exchanging neighbours: linear whatever the text.
 *
 * ASCII is its own normal form in all four: stretches of it are copied. */

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/hf/normalize.h"
#include "tokenizer/unicode_tables.h"

enum {
    HANGUL_S = 0xac00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11a7,
    HANGUL_LN = 19,
    HANGUL_VN = 21,
    HANGUL_TN = 28,
    HANGUL_SN = 11172
};

enum { LETTER_STEPS = 16, ASCII_BYTES = 4096 };

struct letter {
    uint32_t cp;
    uint8_t class; /* canonical combining class */
    bool user;
};

struct run {
    struct lf_text_memory *memory;
    struct letter *letters; /* owned */
    struct letter *sorted;  /* owned */
    size_t n, cap;
    struct lf_marked *out;
    bool compose;
};

static uint8_t class_of(uint32_t cp)
{
    uint32_t low = 0, high = lf_unicode_classes_n;
    if (cp < 0x300) return 0;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (lf_unicode_classes[mid] >> 8 <= cp)
            low = mid;
        else
            high = mid;
    }
    return (uint8_t)(lf_unicode_classes[low] & 0xff);
}

static const struct lf_unicode_entry *entry_of(const struct lf_unicode_entry *entries, uint32_t n, uint32_t cp)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (entries[mid].cp == cp) return &entries[mid];
        if (entries[mid].cp < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* The code point that two compose to, or 0. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (a - HANGUL_L < HANGUL_LN && b - HANGUL_V < HANGUL_VN)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_VN + (b - HANGUL_V)) * HANGUL_TN;
    if (a - HANGUL_S < HANGUL_SN && (a - HANGUL_S) % HANGUL_TN == 0 && b - HANGUL_T - 1 < HANGUL_TN - 1)
        return a + (b - HANGUL_T);
    uint32_t low = 0, high = lf_unicode_pairs_n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct lf_unicode_pair *p = &lf_unicode_pairs[mid];
        if (p->first == a && p->second == b) return p->composed;
        if (p->first < a || (p->first == a && p->second < b))
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

static void append_letter(struct lf_marked *out, uint32_t cp, bool user)
{
    char bytes[4];
    int n = lf_utf8_encode(cp, bytes);
    lf_marked_append(out, lf_str_from(bytes, (size_t)n), user);
}

/* Sorts the marks of letters[first, n) by class, equal ones in their order. */
static void sort_marks(struct run *run, size_t first)
{
    size_t starts[257] = {0};
    bool sorted = true;
    for (size_t i = first + 1; i < run->n; i++) sorted &= run->letters[i - 1].class <= run->letters[i].class;
    if (sorted) return;
    for (size_t i = first; i < run->n; i++) starts[run->letters[i].class + 1]++;
    for (size_t c = 1; c < 257; c++) starts[c] += starts[c - 1];
    for (size_t i = first; i < run->n; i++) run->sorted[starts[run->letters[i].class]++] = run->letters[i];
    memcpy(run->letters + first, run->sorted, (run->n - first) * sizeof *run->letters);
}

/* Composes the starter at the front with what follows it and is not kept from it. Returns the letters left. */
static size_t compose_run(struct run *run)
{
    size_t kept = 1;
    uint8_t last_class = 0;
    for (size_t i = 1; i < run->n; i++) {
        struct letter *l = &run->letters[i];
        bool blocked = kept > 1 && last_class >= l->class;
        uint32_t cp = blocked ? 0 : composed(run->letters[0].cp, l->cp);
        if (cp) {
            run->letters[0].cp = cp;
            run->letters[0].user |= l->user;
            continue;
        }
        last_class = l->class;
        run->letters[kept++] = *l;
    }
    return kept;
}

/* Puts the run in order and gives it out, except that a lone starter is kept: the next one may compose with it. */
static void end_run(struct run *run, bool last)
{
    if (run->n == 0) return;
    bool starter = run->letters[0].class == 0;
    sort_marks(run, starter ? 1 : 0);
    if (run->compose && starter) run->n = compose_run(run);
    if (!last && run->compose && run->n == 1 && starter) return;
    for (size_t i = 0; i < run->n; i++) append_letter(run->out, run->letters[i].cp, run->letters[i].user);
    run->n = 0;
}

static void add_letter(struct run *run, uint32_t cp, bool user)
{
    struct letter letter = {cp, class_of(cp), user};
    if (letter.class == 0 && run->n > 0) {
        end_run(run, false);
        uint32_t both = run->n == 1 ? composed(run->letters[0].cp, cp) : 0;
        if (both) {
            run->letters[0].cp = both;
            run->letters[0].user |= user;
            return;
        }
        end_run(run, true);
    }
    if (run->n == run->cap) {
        size_t cap = run->cap ? run->cap * 2 : 64;
        struct letter *letters = lf_text_realloc(run->memory, run->letters, cap * sizeof *letters);
        if (letters) run->letters = letters;
        struct letter *sorted = lf_text_realloc(run->memory, run->sorted, cap * sizeof *sorted);
        if (sorted) run->sorted = sorted;
        if (!letters || !sorted) {
            run->out->text.status = LF_NO_MEMORY;
            return;
        }
        run->cap = cap;
    }
    run->letters[run->n++] = letter;
}

static void decompose(struct run *run, uint32_t cp, bool compatible, bool user)
{
    const struct lf_unicode_entry *entry = NULL;
    if (cp - HANGUL_S < HANGUL_SN) {
        uint32_t s = cp - HANGUL_S;
        add_letter(run, HANGUL_L + s / (HANGUL_VN * HANGUL_TN), user);
        add_letter(run, HANGUL_V + s % (HANGUL_VN * HANGUL_TN) / HANGUL_TN, user);
        if (s % HANGUL_TN != 0) add_letter(run, HANGUL_T + s % HANGUL_TN, user);
        return;
    }
    if (cp >= 0xa0 && compatible) entry = entry_of(lf_unicode_compatible, lf_unicode_compatible_n, cp);
    if (cp >= 0xa0 && !entry) entry = entry_of(lf_unicode_canonical, lf_unicode_canonical_n, cp);
    if (!entry) {
        add_letter(run, cp, user);
        return;
    }
    for (uint32_t i = 0; i < (entry->value & 31); i++) add_letter(run, lf_unicode_pool[(entry->value >> 5) + i], user);
}

enum lf_status lf_unicode_normalize(struct lf_marked *to, const struct lf_marked *from, enum lf_normal_form form,
                                    struct lf_work *work)
{
    struct lf_str text = lf_buf_view(&from->text);
    const char *user = from->track ? from->user.ptr : NULL;
    struct run run = {.out = to, .memory = to->text.memory, .compose = form == LF_NFC || form == LF_NFKC};
    bool compatible = form == LF_NFKC || form == LF_NFKD;
    size_t at = 0;
    enum lf_status status = LF_OK;
    while (at < text.len && to->text.status == LF_OK && status == LF_OK) {
        size_t end = at, stop = at + LF_MIN(text.len - at, ASCII_BYTES);
        while (end < stop && (uint8_t)text.ptr[end] < 0x80) end++;
        status = lf_work_step(work, LETTER_STEPS + (end - at));
        if (end < text.len && end > at) end--; /* the last letter may take marks that follow */
        if (end > at) {
            end_run(&run, true);
            lf_marked_copy(to, lf_str_from(text.ptr + at, end - at), user ? user + at : NULL);
            at = end;
            continue;
        }
        uint32_t cp = 0xfffd;
        int n = lf_utf8_decode(text.ptr + at, text.len - at, &cp);
        size_t len = n > 0 ? (size_t)n : 1;
        decompose(&run, cp, compatible, lf_marked_any(from, at, at + len));
        at += len;
    }
    end_run(&run, true);
    lf_text_free(run.memory, run.letters);
    lf_text_free(run.memory, run.sorted);
    return status != LF_OK ? status : lf_marked_status(to);
}

enum lf_status lf_unicode_lowercase(struct lf_marked *to, const struct lf_marked *from, struct lf_work *work)
{
    struct lf_str text = lf_buf_view(&from->text);
    for (size_t at = 0; at < text.len;) {
        uint32_t cp = 0xfffd;
        int n = lf_utf8_decode(text.ptr + at, text.len - at, &cp);
        size_t len = n > 0 ? (size_t)n : 1;
        bool user = lf_marked_any(from, at, at + len);
        LF_TRY(lf_work_step(work, LETTER_STEPS));
        const struct lf_unicode_entry *entry = entry_of(lf_unicode_lower, lf_unicode_lower_n, cp);
        at += len;
        if (cp == 0x130) { /* the one letter whose small form is two code points */
            append_letter(to, 'i', user);
            cp = 0x307;
        }
        append_letter(to, entry ? entry->value : cp, user);
    }
    return lf_marked_status(to);
}
