/* Copies of rows picked by index: embedding (widened to float and scaled) and gather (as it is).
 *
 * Work split: a thread block a row, its threads along it. No shared memory. Bound by memory for many rows, by latency
 * for one. CPU twins: embed and gather of device/cpu/ops_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"

enum { THREADS = 128 };

struct embed_args {
    float *out;
    const void *table;
    const int32_t *ids, *sampled, *rows;
    int dim;        /* of out */
    size_t of_row;  /* elements of a row of the table */
    bool is_vector; /* four elements a load */
    float scale;
    int first, n_table; /* the table's ids: others make zeros */
};

template <class T, bool SCALES>
__global__ void __launch_bounds__(THREADS) embed_rows(const __grid_constant__ embed_args p)
{
    start_successor();
    wait_predecessor();
    float scale = SCALES ? p.scale : 1.0f;
    int id = p.ids[p.rows ? p.rows[blockIdx.x] : blockIdx.x];
    if (id < 0) id = p.sampled[-1 - id];
    float *to = p.out + (size_t)blockIdx.x * p.dim;
    id -= p.first;
    if (id < 0 || id >= p.n_table) {
        for (int i = threadIdx.x; i < p.dim; i += THREADS) to[i] = 0.0f;
        return;
    }
    const T *from = (const T *)p.table + (size_t)id * p.of_row;
    if (p.is_vector) {
        for (int i = threadIdx.x; i < p.dim / 4; i += THREADS) {
            uint2 words = __ldg((const uint2 *)from + i);
            float2 low = unpack<T>(words.x), high = unpack<T>(words.y);
            ((float4 *)to)[i] = make_float4(scale * low.x, scale * low.y, scale * high.x, scale * high.y);
        }
        return;
    }
    for (int i = threadIdx.x; i < p.dim; i += THREADS) to[i] = scale * to_float(from[i]);
}

struct gather_args {
    void *out;
    const void *x;
    const int32_t *rows;
    size_t n; /* words of a row */
};

/* Words of type W. */
template <class W> __global__ void __launch_bounds__(THREADS) gather_rows(const __grid_constant__ gather_args p)
{
    start_successor();
    wait_predecessor();
    const W *from = (const W *)p.x + (size_t)p.rows[blockIdx.x] * p.n;
    W *to = (W *)p.out + (size_t)blockIdx.x * p.n;
    for (size_t i = threadIdx.x; i < p.n; i += THREADS) to[i] = from[i];
}

int lf_cuda_embed_setup(void)
{
    return load_kernels(embed_rows<bf16, false>, embed_rows<fp16, false>, embed_rows<bf16, true>,
                        embed_rows<fp16, true>, gather_rows<uint4>, gather_rows<uint16_t>);
}

int lf_cuda_embed(const struct lf_embed_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    int dim = lf_embed_width(p), of_row = p->table->n_in;
    const uint16_t *table = (const uint16_t *)p->table->data + p->column;
    bool is_vector = ((dim | of_row | p->column) % 4) == 0;
    embed_args args = {p->out,         table,
                       p->ids,         p->sampled,
                       p->rows,        dim,
                       (size_t)of_row, is_vector,
                       p->scale,       p->is_part ? p->first_id : 0,
                       p->table->n_out};
    auto plain = how.fp16 ? embed_rows<fp16, false> : embed_rows<bf16, false>;
    auto scaled = how.fp16 ? embed_rows<fp16, true> : embed_rows<bf16, true>;
    return queue_kernel(p->scale == 1.0f ? plain : scaled, {(unsigned)p->n_tokens, THREADS}, how, args);
}

int lf_cuda_gather(void *out, const void *x, const int32_t *rows, int n_rows, size_t row_bytes,
                   struct lf_cuda_launch how)
{
    if (n_rows == 0) return 0;
    bool wide = ((size_t)out | (size_t)x | row_bytes) % sizeof(uint4) == 0;
    gather_args args = {out, x, rows, row_bytes / (wide ? sizeof(uint4) : sizeof(uint16_t))};
    return queue_kernel(wide ? gather_rows<uint4> : gather_rows<uint16_t>, {(unsigned)n_rows, THREADS}, how, args);
}
