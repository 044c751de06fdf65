/* A value is one of sixteen, so a scale makes a table of sixteen products, and a group is 32 look-ups in it: two values
 * from each byte. */
#include "model/formats/mxfp4.h"

#include <math.h>

#include "core/dtype.h"

enum { N_VALUES = 16, SCALE_BIAS = 127, SCALE_NAN = 255 };

static void make_table(uint16_t table[N_VALUES], uint8_t scale)
{
    static const float values[N_VALUES / 2] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float factor = scale == SCALE_NAN ? NAN : ldexpf(1, scale - SCALE_BIAS);
    for (int i = 0; i < N_VALUES / 2; i++) {
        table[i] = lf_bf16_from_f32(values[i] * factor);
        table[N_VALUES / 2 + i] = table[i] | 0x8000u;
    }
}

void lf_mxfp4_expand(uint16_t *out, const uint8_t *blocks, const uint8_t *scales, size_t n_groups)
{
    for (size_t g = 0; g < n_groups; g++, blocks += LF_MXFP4_GROUP_BYTES, out += LF_MXFP4_GROUP) {
        uint16_t table[N_VALUES];
        make_table(table, scales[g]);
        for (int i = 0; i < LF_MXFP4_GROUP_BYTES; i++) {
            out[2 * i] = table[blocks[i] & 15];
            out[2 * i + 1] = table[blocks[i] >> 4];
        }
    }
}
