/* Numbers of four bits, E2M1, two in a byte, the lower half first, with a scale for each group of a row:
 *
 *     MXFP4 (OCP Microscaling 1.0, 5.2)   32 share a power of two, which is stored as its exponent + 127
 *     NVFP4                               16 share an E4M3, and all of a matrix a float, by which
 *                                         compressed-tensors divides (weight_global_scale)
 *                                         and ModelOpt multiplies (weight_scale_2)
 *
 * compressed-tensors and ModelOpt have a matrix for each linear layer; gpt-oss's experts are bound by names of their
 * own (bind.c). */
#include "model/formats/packing.h"

static void shape(const struct lf_scheme *s, enum lf_source source, int n_out, int n_in, int dims[2])
{
    (void)s;
    (void)source;
    dims[0] = n_out;
    dims[1] = n_in / 2;
}

static void codes(const struct lf_packed *p, int row, int n, uint8_t *out)
{
    size_t n_bytes = (size_t)n * (size_t)p->n_in / 2;
    const uint8_t *from = p->sources[LF_SOURCE_CODES] + (size_t)(row - p->codes_from) * (size_t)p->n_in / 2;
    for (size_t i = 0; i < n_bytes; i++) {
        out[2 * i] = from[i] & 15;
        out[2 * i + 1] = from[i] >> 4;
    }
}

const struct lf_packing lf_packing_mxfp4 = {
    .name = "MXFP4",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight_packed"}, .types = 1 << LF_SOURCE_U8},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale"}, .types = 1 << LF_SOURCE_U8 | 1 << LF_SOURCE_F8_E8M0}},
    .by_rows = true,
    .fills_in = true,
    .shape = shape,
    .codes = codes};

const struct lf_packing lf_packing_nvfp4 = {
    .name = "NVFP4",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight_packed"}, .types = 1 << LF_SOURCE_U8},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale"}, .types = 1 << LF_SOURCE_F8_E4M3},
             [LF_SOURCE_FACTOR] = {.suffixes = {".weight_global_scale"}, .types = 1 << LF_SOURCE_F32}},
    .factor_divides = true,
    .by_rows = true,
    .fills_in = true,
    .shape = shape,
    .codes = codes};

const struct lf_packing lf_packing_nvfp4_modelopt = {
    .name = "NVFP4",
    .rows = {[LF_SOURCE_CODES] = {.suffixes = {".weight"}, .types = 1 << LF_SOURCE_U8},
             [LF_SOURCE_SCALES] = {.suffixes = {".weight_scale"}, .types = 1 << LF_SOURCE_F8_E4M3},
             [LF_SOURCE_FACTOR] = {.suffixes = {".weight_scale_2"}, .types = 1 << LF_SOURCE_F32}},
    .by_rows = true,
    .fills_in = true,
    .shape = shape,
    .codes = codes};
