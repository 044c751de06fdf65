/* device/cuda/cublaslt.c: the functions that are looked up are those of the headers. Needs the library, but no GPU:
 * what is called here runs on the host. */
#include "tests/support/test.h"

#include "device/cuda/cublaslt.h"

static void its_functions_are_found_and_are_the_ones_meant(void **state)
{
    (void)state;
    struct lf_cublaslt lt;
    struct lf_err err;
    enum lf_status status = lf_cublaslt_open(&lt, &err);
    if (status == LF_NOT_FOUND) skip();
    assert_int_equal(status, LF_OK);
    assert_string_equal(lt.status_string(CUBLAS_STATUS_NOT_SUPPORTED), "the requested functionality is not supported");
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t layout;
    cublasLtMatmulPreferenceOpaque_t preference;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const size_t workspace = 1 << 20;
    assert_int_equal(lt.desc_init(&op, sizeof op, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(lt.desc_set_attribute(&op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
                     CUBLAS_STATUS_SUCCESS);
    assert_int_equal(lt.desc_set_attribute(&op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 1),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(lt.layout_init(&layout, sizeof layout, CUDA_R_16BF, 64, 32, 64), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(lt.preference_init(&preference, sizeof preference), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(lt.preference_set_attribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                 sizeof workspace),
                     CUBLAS_STATUS_SUCCESS);
    lf_cublaslt_close(&lt);
    assert_null(lt.library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(its_functions_are_found_and_are_the_ones_meant)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
