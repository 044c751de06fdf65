/* The budget of the memory for texts: what is in use, what is set aside, and how far either may go. */
#include "core/check.h"
#include "core/limits.h"
#include "core/text_memory_impl.h"

/* How far the budget may be used up for a text of so many bytes. */
static uint64_t limit_for(const struct lf_text_memory *m, uint64_t text_bytes)
{
    uint64_t budget = m->state.budget_bytes;
    if (text_bytes <= LF_TEXT_SMALL_BYTES || budget < LF_TEXT_BYTES_MIN) return budget;
    return budget - LF_MIN(budget / 8, (uint64_t)LF_TEXT_SPARE_BYTES);
}

static bool charge_locked(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes)
{
    uint64_t limit = limit_for(m, text_bytes);
    if (m->state.used_bytes > limit || n > limit - m->state.used_bytes) return false;
    m->state.used_bytes += n;
    m->state.peak_bytes = LF_MAX(m->state.peak_bytes, m->state.used_bytes);
    return true;
}

bool lf_text_charge(struct lf_text_memory *m, uint64_t n, uint64_t text_bytes)
{
    pthread_mutex_lock(&m->lock);
    bool there = charge_locked(m, n, text_bytes);
    pthread_mutex_unlock(&m->lock);
    return there;
}

void lf_text_discharge(struct lf_text_memory *m, uint64_t n)
{
    pthread_mutex_lock(&m->lock);
    m->state.used_bytes -= n;
    pthread_mutex_unlock(&m->lock);
}

void lf_text_count_refusal(struct lf_text_memory *m)
{
    pthread_mutex_lock(&m->lock);
    m->state.n_refused++;
    pthread_mutex_unlock(&m->lock);
}

bool lf_text_reserve(struct lf_text_memory *m, uint64_t n)
{
    if (!m) return true;
    pthread_mutex_lock(&m->lock);
    bool small = n <= LF_TEXT_SMALL_BYTES;
    uint64_t taken = m->state.used_bytes + (small ? m->state.reserved_small_bytes : m->state.reserved_bytes);
    uint64_t limit = limit_for(m, n);
    bool there = taken <= limit && n <= limit - taken;
    if (there) m->state.reserved_bytes += n;
    if (there && small) m->state.reserved_small_bytes += n;
    m->state.n_refused += !there;
    pthread_mutex_unlock(&m->lock);
    return there;
}

void lf_text_unreserve(struct lf_text_memory *m, uint64_t n)
{
    if (!m) return;
    pthread_mutex_lock(&m->lock);
    LF_ASSERT(m->state.reserved_bytes >= n);
    m->state.reserved_bytes -= n;
    if (n <= LF_TEXT_SMALL_BYTES) m->state.reserved_small_bytes -= n;
    pthread_mutex_unlock(&m->lock);
}

void lf_text_memory_snapshot(struct lf_text_memory *m, struct lf_text_memory_state *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->state;
    pthread_mutex_unlock(&m->lock);
}
