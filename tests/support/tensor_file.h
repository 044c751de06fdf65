/* Writing safetensors files, right ones and wrong ones. */
#ifndef LF_TESTS_SUPPORT_TENSOR_FILE_H
#define LF_TESTS_SUPPORT_TENSOR_FILE_H

#include "tests/support/temp_dir.h"

/* Header text as given (with this length field) and n_data zero bytes behind it. */
static inline void tensor_file_write_raw(const struct temp_dir *d, const char *name, uint64_t length_field,
                                         const void *header, size_t header_len, size_t n_data)
{
    size_t n = 8 + header_len + n_data;
    char *bytes = calloc(1, n);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(length_field >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, header_len);
    temp_dir_write(d, name, bytes, n);
    free(bytes);
}

static inline void tensor_file_write(const struct temp_dir *d, const char *name, const char *header, size_t n_data)
{
    tensor_file_write_raw(d, name, strlen(header), header, strlen(header), n_data);
}

#endif
