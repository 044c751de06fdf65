#include "kv/windows.h"

#include "core/check.h"
#include "core/limits.h"

int lf_kv_windows_n_sliding(const struct lf_kv_windows *w)
{
    int n = 0;
    for (int g = 0; g < w->n; g++) n += lf_kv_windows_slides(w, g);
    return n;
}

int lf_kv_windows_n_full(const struct lf_kv_windows *w)
{
    return lf_kv_windows_n(w) - lf_kv_windows_n_sliding(w);
}

int lf_kv_windows_first(const struct lf_kv_windows *w, int group, int n)
{
    int window = w->tokens[group], block = lf_kv_windows_block_tokens(w);
    int64_t position = (int64_t)n * block - window + 1;
    return window == 0 || position < 0 ? 0 : (int)(position / block);
}

int64_t lf_kv_windows_held(const struct lf_kv_windows *w, int group, int64_t n)
{
    int64_t window = w->tokens[group], block = lf_kv_windows_block_tokens(w);
    return window == 0 ? n : LF_MIN(n, (window + block - 1) / block + 2);
}

int64_t lf_kv_windows_need(const struct lf_kv_windows *w, int64_t n)
{
    int64_t sum = 0;
    for (int g = 0; g < lf_kv_windows_n(w); g++) sum += lf_kv_windows_held(w, g, n);
    return sum;
}

int64_t lf_kv_windows_fit(const struct lf_kv_windows *w, int64_t n_blocks)
{
    int64_t lo = 0, hi = LF_MAX(n_blocks, 0);
    if (lf_kv_windows_n_full(w) == 0) hi = INT32_MAX; /* a window's need does not grow with the sequence */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (lf_kv_windows_need(w, mid) <= n_blocks)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int64_t lf_kv_windows_slack(const struct lf_kv_windows *w, int chunk)
{
    int64_t block = lf_kv_windows_block_tokens(w);
    return lf_kv_windows_n_sliding(w) * ((chunk + block - 1) / block);
}

int64_t lf_kv_windows_pinned(const struct lf_kv_windows *w, int n)
{
    int64_t sum = 0;
    for (int g = 0; n > 0 && g < lf_kv_windows_n(w); g++) sum += n - lf_kv_windows_first(w, g, n - 1);
    return sum;
}
