/* What is left of a GPU's device after an error: nothing but the error. Here alone errors are made on purpose, so that
 * every other program of this folder is free of them under compute-sanitizer. Skipped (77) where no GPU opens.
 *
 *     test_faults --break   (by the test itself: breaks the device for real and looks at what is left) */
#include "tests/gpu/gpu_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda.h"

static const char *program;

static void memory_that_is_not_there_is_refused_with_numbers(void **state)
{
    (void)state;
    struct lf_buffer buf = {0};
    struct lf_err err;
    uint64_t n_allocs = lf_device_n_allocs(gpu);
    assert_int_equal(lf_buffer_alloc(gpu, &buf, (size_t)1 << 42, "KV cache", &err), LF_NO_MEMORY);
    assert_null(buf.ptr);
    assert_non_null(strstr(err.message, "KV cache needs 4398046511104 bytes (4096.00 GiB) on cuda:0"));
    assert_non_null(strstr(err.message, "are free"));
    assert_int_equal(lf_device_n_allocs(gpu), n_allocs);
    gpu_sync(); /* the refusal is not an error of the device */
    const struct lf_device_info *info = lf_device_info(gpu);
    assert_true(info->context_bytes > 0 && info->context_bytes + info->available_bytes == info->memory_bytes);
}

/* Nothing that is asked for after an error is run, and everything says so. */
static bool is_final(struct lf_device *dev, struct lf_buffer *buf)
{
    struct lf_err err, again;
    struct lf_buffer more = {0};
    int32_t bytes[2] = {1, 2};
    if (lf_device_sync(dev, &err) != LF_DEVICE || strstr(err.message, "is not used any more") == NULL) return false;
    lf_upload(dev, buf->ptr, bytes, sizeof bytes);
    lf_download(dev, bytes, buf->ptr, sizeof bytes);
    if (bytes[0] != 0 || bytes[1] != 0 || lf_graph_begin(dev)) return false;
    if (lf_buffer_alloc(dev, &more, 64, "more", &again) != LF_DEVICE || more.ptr != NULL) return false;
    return lf_device_sync(dev, &again) == LF_DEVICE && strcmp(err.message, again.message) == 0;
}

static void an_error_is_final_and_of_that_device_only(void **state)
{
    (void)state;
    struct lf_device *dev = gpu_open(gpu_act);
    struct lf_buffer buf = {0};
    assert_int_equal(lf_buffer_alloc(dev, &buf, 64, "buffer", NULL), LF_OK);
    lf_cuda_check(dev, 719, "injected");
    lf_cuda_check(dev, 700, "a later one");
    assert_true(is_final(dev, &buf));
    struct lf_err err;
    assert_int_equal(lf_device_sync(dev, &err), LF_DEVICE);
    assert_non_null(strstr(err.message, "injected"));
    lf_buffer_free(dev, &buf);
    lf_device_close(dev);
    gpu_sync();
}

static void a_real_fault_is_final_too(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(program, program, "--break", (char *)NULL);
        _exit(3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A row far behind the table's memory is an address that nobody owns. */
static int break_for_real(void)
{
    struct lf_device *dev = gpu_open(LF_BF16);
    struct lf_buffer buf = {0}, table = {0};
    static const int32_t ids[4] = {0, INT32_MAX - 1, INT32_MAX - 1, INT32_MAX - 1};
    if (lf_buffer_alloc(dev, &buf, 1 << 20, "buffer", NULL) != LF_OK) return 1;
    if (lf_buffer_alloc(dev, &table, 4096 * 2, "table", NULL) != LF_OK) return 1;
    struct lf_weight w = {.data = table.ptr, .format.dtype = LF_BF16, .n_out = INT32_MAX, .n_in = 4096};
    lf_upload(dev, buf.ptr, ids, sizeof ids);
    struct lf_embed_params p = {
        .scale = 1, .out = (float *)(void *)((char *)buf.ptr + 256), .table = &w, .ids = buf.ptr, .n_tokens = 4};
    lf_device_ops(dev)->embed(dev, &p);
    bool final = is_final(dev, &buf);
    lf_buffer_free(dev, &table);
    lf_buffer_free(dev, &buf);
    lf_device_close(dev);
    return final ? 0 : 1;
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "--break") == 0) return break_for_real();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_is_not_there_is_refused_with_numbers),
        cmocka_unit_test(an_error_is_final_and_of_that_device_only),
        cmocka_unit_test(a_real_fault_is_final_too),
    };
    return gpu_run(tests);
}
