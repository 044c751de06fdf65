/* Fuzzing the reader of safetensors files.
 *
 * The input begins with two bytes, little-endian: how many bytes of data follow the header, and with the top bit that
 * the rest is a whole file as it stands, length field and all. Otherwise the rest is the header's text and the length
 * field is made to fit, since a fuzzer that must guess it learns nothing about the header. */
#include "model/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void check_set(const struct lf_tensor_set *set, uint64_t size)
{
    for (int i = 0; i < set->n_tensors; i++) {
        const struct lf_tensor *t = &set->tensors[i];
        enum lf_dtype dtype;
        char shape[40];
        uint64_t n = 1;
        LF_ASSERT(t->offset >= 8 && t->offset <= size && t->n_bytes <= size - t->offset);
        LF_ASSERT(t->rank >= 0 && t->rank <= LF_TENSOR_RANK && lf_utf8_valid(t->name));
        for (int k = 0; k < t->rank; k++) n *= t->shape[k];
        if (lf_tensor_dtype(t, &dtype)) LF_ASSERT(n * lf_dtype_bytes(dtype) == t->n_bytes);
        lf_tensor_shape_text(t, shape, sizeof shape);
        LF_ASSERT(strlen(shape) < sizeof shape);
        LF_ASSERT(lf_tensor_find(set, t->name) == t); /* sorted, and no name twice */
    }
    LF_ASSERT(lf_tensor_find(set, LF_STR("\n")) == NULL || set->n_tensors > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    struct lf_tensor_set set = {0};
    struct lf_err err = {0};
    if (size < 2) return 0;
    size_t n_data = data[0] | (size_t)(data[1] & 0x7f) << 8, n = size - 2, total = n;
    if (data[1] & 0x80) {
        fuzz_file_fill(&file, lf_str_from((const char *)data + 2, n), 0);
    } else {
        total = 8 + n + n_data;
        char *bytes = calloc(1, 8 + n);
        LF_ASSERT(bytes != NULL);
        for (int i = 0; i < 8; i++) bytes[i] = (char)(n >> (8 * i) & 0xff);
        memcpy(bytes + 8, data + 2, n);
        fuzz_file_fill(&file, lf_str_from(bytes, 8 + n), total);
        free(bytes);
    }
    if (lf_tensor_set_open_file(&set, file.path, &err) == LF_OK) {
        check_set(&set, total);
        lf_tensor_set_close(&set);
    } else {
        LF_ASSERT(err.message[0] != 0);
    }
    return 0;
}
