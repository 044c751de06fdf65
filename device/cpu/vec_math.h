/* Exponential, logistic function, hyperbolic tangent and softplus of vectors, in the words of vec.h. */
#ifndef LF_DEVICE_CPU_VEC_MATH_H
#define LF_DEVICE_CPU_VEC_MATH_H

#include "device/cpu/vec.h"

/* e^x = 2^n · e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its series up to r⁶ / 6!, whose remainder is
 * under 1.3e-7 of the value. x is clamped to where the result is a normal number or infinity; NaN stays NaN. */
LF_KERNEL vec exp_lanes(vec x)
{
    x = vec_max(vec_set(-87.3f), vec_min(vec_set(88.8f), x));
    vec n = vec_round(vec_mul(x, vec_set(1.44269504f)));
    /* ln 2 in two parts: the first has few bits, so that n times it is exact */
    vec r = vec_fnma(n, vec_set(0.693145752f), x);
    r = vec_fnma(n, vec_set(1.42860677e-6f), r);
    vec p = vec_set(1.0f / 720);
    p = vec_fma(p, r, vec_set(1.0f / 120));
    p = vec_fma(p, r, vec_set(1.0f / 24));
    p = vec_fma(p, r, vec_set(1.0f / 6));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_ldexp(p, n);
}

/* a / (1 + e^-by) */
LF_KERNEL vec sigmoid_times(vec a, vec by)
{
    vec e = exp_lanes(vec_sub(vec_set(0.0f), by));
    return vec_div(a, vec_add(vec_set(1.0f), e));
}

/* tanh |x| = −e / (2 + e) with e = 2^t − 1, t = −2·log2(e)·|x|; e without cancellation near 0: t = n + f with n the
 * nearest integer, 2^f − 1 = f · polynomial (relative minimax on [−½, ½], 1e-8), e = (2^f − 1)·2^n + (2^n − 1). At
 * t = −100 the result has long been 1; less is not let in, as ∞ − ∞ is no fraction. */
LF_KERNEL vec tanh_lanes(vec x)
{
    vec t = vec_max(vec_set(-100.0f), vec_mul(vec_abs(x), vec_set(-2.88539008177792681472f)));
    vec n = vec_round(t);
    vec f = vec_sub(t, n), y = vec_set(0.00015403512f);
    y = vec_fma(y, f, vec_set(0.0013390735f));
    y = vec_fma(y, f, vec_set(0.009618238f));
    y = vec_fma(y, f, vec_set(0.055503573f));
    y = vec_fma(y, f, vec_set(0.24022649f));
    y = vec_fma(y, f, vec_set(0.6931472f));
    vec two_n = vec_scale2(vec_set(1.0f), n);
    vec e = vec_fma(vec_mul(y, f), two_n, vec_sub(two_n, vec_set(1.0f)));
    return vec_copysign(vec_div(e, vec_add(vec_set(2.0f), e)), x);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e), e = e^-|x|; log(1 + e) = 2·artanh s, s = e / (2 + e) <= ⅓, by its series up to
 * s¹⁵ / 15, whose remainder is under 4e-10 of the value. NaN stays NaN. */
LF_KERNEL vec softplus_lanes(vec x)
{
    vec e = exp_lanes(vec_sub(vec_set(0.0f), vec_abs(x)));
    vec s = vec_div(e, vec_add(vec_set(2.0f), e)), square = vec_mul(s, s), p = vec_set(2.0f / 15);
    p = vec_fma(p, square, vec_set(2.0f / 13));
    p = vec_fma(p, square, vec_set(2.0f / 11));
    p = vec_fma(p, square, vec_set(2.0f / 9));
    p = vec_fma(p, square, vec_set(2.0f / 7));
    p = vec_fma(p, square, vec_set(2.0f / 5));
    p = vec_fma(p, square, vec_set(2.0f / 3));
    p = vec_fma(p, square, vec_set(2.0f));
    return vec_fma(p, s, vec_max(vec_set(0.0f), x));
}

#endif
