/* Weights in a GPU's memory. Plain ones lie row-major, as in the file, and in the type of the activations whatever the
 * file's is; coded ones in the order of coded_order.h. Both are packed by the host's threads on their way into pinned
 * memory. */
#include "device/cuda/weights_cuda.h"

#include <string.h>

#include "core/check.h"
#include "core/quant.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/experts_cuda.h"

enum { WEIGHT_BYTES = 2, BLOCK_GROUPS = 4 /* at most */ };

static bool supports_format(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                            int n_experts)
{
    if (lf_format_is_plain(format)) return true;
    if (n_experts > 0) return lf_experts_cuda_has_format(dev, format, n_out, n_in);
    /* A GPU that is only described is taken for one whose shared memory the kernels fit into. */
    bool has_gemv = dev->info.is_described || dev->cuda->has_gemv_quant;
    bool has_kernels = has_gemv && (format->code != LF_CODE_E2M1 || dev->info.act_dtype == LF_BF16);
    return has_kernels && lf_coded_order_has(format, n_in);
}

static uint64_t weight_bytes(const struct lf_format *format, int n_out, int n_in)
{
    if (lf_format_is_plain(format)) return (uint64_t)n_out * (uint64_t)n_in * WEIGHT_BYTES;
    return lf_coded_order_of(format, n_out, n_in).bytes;
}

static char *row_address(const struct lf_weight *w, int row)
{
    return (char *)w->data + (size_t)row * (size_t)w->n_in * WEIGHT_BYTES;
}

/* ---- packing of I4 and E2M1: elements are what a row has in a block, [run][block][row of the run] ---- */

struct packing {
    const struct lf_weight *w;
    const struct lf_quant_rows *rows;
    struct lf_coded_order order;
    enum lf_dtype act;
    int row_first, n_rows, n_groups;
};

/* The block of an element, and its row among those to be packed; false: it lies behind the last. */
static bool find(const struct packing *p, size_t idx, int *block, size_t *row)
{
    size_t of_run = (size_t)p->order.n_blocks * LF_CODED_RUN, run = idx / of_run;
    *block = (int)(idx % of_run / LF_CODED_RUN);
    *row = run * LF_CODED_RUN + idx % LF_CODED_RUN - (size_t)p->row_first;
    return *row < (size_t)p->n_rows;
}

static void make_codes(const void *ctx, size_t idx, char *out)
{
    const struct packing *p = ctx;
    int block;
    size_t row, n_in = (size_t)p->w->n_in;
    memset(out, 0, LF_CODED_ROW_BYTES);
    if (!find(p, idx, &block, &row)) return;
    int k = block * LF_CODED_BLOCK_K, n = LF_MIN(LF_CODED_BLOCK_K, p->w->n_in - k);
    lf_coded_pack_codes(&p->w->format, p->rows->codes + row * n_in + (size_t)k, n, (uint8_t *)out);
}

static void make_scales(const void *ctx, size_t idx, char *out)
{
    const struct packing *p = ctx;
    int block;
    size_t row;
    memset(out, 0, (size_t)p->order.scale_bytes);
    if (!find(p, idx, &block, &row)) return;
    lf_coded_pack_scales(&p->w->format, p->w->n_in, p->act, block, p->rows->scales + row * (size_t)p->n_groups,
                         (uint8_t *)out);
}

static void make_zeros(const void *ctx, size_t idx, char *out)
{
    const struct packing *p = ctx;
    int block;
    size_t row;
    memset(out, 0, (size_t)p->order.zero_bytes);
    if (!find(p, idx, &block, &row)) return;
    lf_coded_pack_zeros(&p->w->format, p->w->n_in, block, p->rows->zeros + row * (size_t)p->n_groups, (uint8_t *)out);
}

/* n elements from `first` on. */
static void pack_elements(struct lf_device *dev, const struct packing *p, size_t first, size_t n)
{
    const struct lf_coded_order *o = &p->order;
    size_t scale_bytes = (size_t)o->scale_bytes, zero_bytes = (size_t)o->zero_bytes;
    char *data = p->w->data;
    lf_cuda_upload_made(dev, data + first * LF_CODED_ROW_BYTES, LF_CODED_ROW_BYTES, first, n, make_codes, p);
    lf_cuda_upload_made(dev, data + o->scales_at + first * scale_bytes, scale_bytes, first, n, make_scales, p);
    if (zero_bytes == 0) return;
    lf_cuda_upload_made(dev, data + o->zeros_at + first * zero_bytes, zero_bytes, first, n, make_zeros, p);
}

/* Rows [row, end) of one run, which has others too that stay as they are: block by block. */
static void pack_part(struct lf_device *dev, const struct packing *p, int row, int end)
{
    size_t blocks = (size_t)p->order.n_blocks, run = (size_t)(row / LF_CODED_RUN);
    for (size_t b = 0; b < blocks; b++)
        pack_elements(dev, p, (run * blocks + b) * LF_CODED_RUN + (size_t)(row % LF_CODED_RUN), (size_t)(end - row));
}

static void pack_runs(struct lf_device *dev, const struct packing *p)
{
    int row = p->row_first, end = row + p->n_rows, run = LF_CODED_RUN;
    int whole_end = end == p->w->n_out ? p->order.n_runs * run : end / run * run;
    int whole = LF_MIN((row + run - 1) / run * run, end);
    if (row < whole) pack_part(dev, p, row, whole);
    if (whole < whole_end) {
        size_t of_run = (size_t)p->order.n_blocks * LF_CODED_RUN, n_runs = (size_t)((whole_end - whole) / run);
        pack_elements(dev, p, (size_t)(whole / run) * of_run, n_runs * of_run);
    }
    if (LF_MAX(whole, whole_end) < end) pack_part(dev, p, LF_MAX(whole, whole_end), end);
}

/* ---- packing of E4M3: bytes as they are, and a scale for each block ---- */

static void make_block_scale(const void *ctx, size_t idx, char *out)
{
    const struct packing *p = ctx;
    int row = LF_MAX((int)(idx / (size_t)p->n_groups) * p->order.scale_rows - p->row_first, 0);
    memcpy(out, p->rows->scales + (size_t)row * (size_t)p->n_groups + idx % (size_t)p->n_groups, sizeof(float));
}

static void pack_bytes(struct lf_device *dev, const struct packing *p)
{
    size_t n_in = (size_t)p->w->n_in, n_groups = (size_t)p->n_groups, rows = (size_t)p->order.scale_rows;
    size_t first = (size_t)p->row_first / rows * n_groups;
    size_t end = ((size_t)(p->row_first + p->n_rows) + rows - 1) / rows * n_groups;
    char *data = p->w->data;
    lf_cuda_upload(dev, data + (size_t)p->row_first * n_in, p->rows->codes, (size_t)p->n_rows * n_in);
    lf_cuda_upload_made(dev, data + p->order.scales_at + first * sizeof(float), sizeof(float), first, end - first,
                        make_block_scale, p);
}

static void weight_pack(struct lf_device *dev, const struct lf_weight *w, int row_first, int n_rows, const void *src)
{
    LF_ASSERT(row_first >= 0 && n_rows >= 0 && row_first <= w->n_out - n_rows);
    if (n_rows == 0) return;
    if (lf_format_is_plain(&w->format)) {
        lf_cuda_upload_as(dev, row_address(w, row_first), dev->info.act_dtype, src, w->format.dtype,
                          (size_t)n_rows * (size_t)w->n_in);
        return;
    }
    struct packing p = {w,         src,    lf_coded_order_of(&w->format, w->n_out, w->n_in), dev->info.act_dtype,
                        row_first, n_rows, lf_format_n_groups(&w->format, w->n_in)};
    (w->format.code == LF_CODE_E4M3 ? pack_bytes : pack_runs)(dev, &p);
}

/* ---- a row, widened ---- */

/* The halves come into the upper half of out, and widening runs from the front: it never overtakes itself. */
static void plain_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out)
{
    size_t n = (size_t)w->n_in;
    const char *halves = (char *)out + n * WEIGHT_BYTES;
    lf_cuda_download(dev, (char *)out + n * WEIGHT_BYTES, row_address(w, row), n * WEIGHT_BYTES);
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, halves + i * WEIGHT_BYTES, sizeof half);
        lf_to_f32(out + i, &half, dev->info.act_dtype, 1);
    }
}

/* Likewise: bytes into the last quarter. */
static void byte_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out)
{
    struct lf_coded_order o = lf_coded_order_of(&w->format, w->n_out, w->n_in);
    size_t n = (size_t)w->n_in, groups = (size_t)row / (size_t)o.scale_rows * (size_t)o.n_groups;
    const char *data = w->data, *codes = (char *)out + 3 * n;
    float scale = 0.0f;
    lf_cuda_download(dev, (char *)out + 3 * n, data + (size_t)row * n, n);
    for (size_t i = 0; i < n; i++) {
        size_t group = groups + i / (size_t)o.scale_columns;
        if (i % (size_t)o.scale_columns == 0)
            lf_cuda_download(dev, &scale, data + o.scales_at + group * sizeof scale, sizeof scale);
        out[i] = scale * lf_code_number(LF_CODE_E4M3, (uint8_t)codes[i]);
    }
}

static void run_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out)
{
    struct lf_coded_order o = lf_coded_order_of(&w->format, w->n_out, w->n_in);
    const char *data = w->data;
    for (int b = 0; b < o.n_blocks; b++) {
        uint8_t codes[LF_CODED_ROW_BYTES], scales[2 * BLOCK_GROUPS], zeros[BLOCK_GROUPS];
        size_t at = (size_t)((row / LF_CODED_RUN * o.n_blocks + b) * LF_CODED_RUN + row % LF_CODED_RUN);
        size_t scale_bytes = (size_t)o.scale_bytes, zero_bytes = (size_t)o.zero_bytes;
        lf_cuda_download(dev, codes, data + at * sizeof codes, sizeof codes);
        lf_cuda_download(dev, scales, data + o.scales_at + at * scale_bytes, scale_bytes);
        if (zero_bytes > 0) lf_cuda_download(dev, zeros, data + o.zeros_at + at * zero_bytes, zero_bytes);
        int k = b * LF_CODED_BLOCK_K, n = LF_MIN(LF_CODED_BLOCK_K, w->n_in - k);
        lf_coded_unpack(&w->format, dev->info.act_dtype, n, codes, scales, zero_bytes > 0 ? zeros : NULL, out + k);
    }
}

static void weight_row(struct lf_device *dev, const struct lf_weight *w, int row, float *out)
{
    LF_ASSERT(row >= 0 && row < w->n_out);
    if (lf_format_is_plain(&w->format))
        plain_row(dev, w, row, out);
    else
        (w->format.code == LF_CODE_E4M3 ? byte_row : run_row)(dev, w, row, out);
}

void lf_weights_cuda_fill(struct lf_ops *ops)
{
    ops->supports_format = supports_format;
    ops->weight_bytes = weight_bytes;
    ops->weight_pack = weight_pack;
    ops->weight_row = weight_row;
}
