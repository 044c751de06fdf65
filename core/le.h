/* Integers of files, little-endian, of n bytes each. */
#ifndef LF_CORE_LE_H
#define LF_CORE_LE_H

#include <stddef.h>
#include <stdint.h>

static inline void lf_put_le(uint8_t *out, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t lf_get_le(const uint8_t *in, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) value |= (uint64_t)in[i] << (8 * i);
    return value;
}

#endif
