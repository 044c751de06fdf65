#include "device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <string.h>

#include "core/check.h"
#include "device/cuda/library_places.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

/* Where the loader looks (LD_LIBRARY_PATH, the system's own folders), then where else it may lie. LF_CUBLASLT_DIR: the
 * folder of the toolkit's libraries, from the build. What was found and does not open says why in err. */
static void *open_library(struct lf_err *err)
{
    glob_t places;
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (library) return library;
    lf_library_places_find(&places, LIBRARY, CUBLAS_VER_MAJOR, LF_CUBLASLT_DIR);
    (void)!lf_fail(err, LF_NOT_FOUND,
                   LIBRARY " is needed on a GPU and was not found: install NVIDIA's libcublas-" TEXT(
                       CUBLAS_VER_MAJOR) "-0, or nvidia-cublas from PyPI, or name its folder in LD_LIBRARY_PATH");
    for (size_t i = 0; i < places.gl_pathc && !library; i++) {
        library = dlopen(places.gl_pathv[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            (void)!lf_fail(err, LF_NOT_FOUND, LIBRARY " is needed on a GPU and cannot be opened: %s", dlerror());
    }
    globfree(&places);
    return library;
}

enum lf_status lf_cublaslt_open(struct lf_cublaslt *out, struct lf_err *err)
{
    struct lf_cublaslt lt = {.library = open_library(err)};
    if (!lt.library) return LF_NOT_FOUND;
    const struct {
        const char *name;
        void *to; /* a pointer to a function, which ISO C does not convert from an object's */
    } functions[] = {
        {"cublasLtCreate", &lt.create},
        {"cublasLtDestroy", &lt.destroy},
        {"cublasLtGetStatusString", &lt.status_string},
        {"cublasLtMatmul", &lt.matmul},
        {"cublasLtMatmulAlgoGetHeuristic", &lt.algo_get_heuristic},
        {"cublasLtMatmulDescInit_internal", &lt.desc_init},
        {"cublasLtMatmulDescSetAttribute", &lt.desc_set_attribute},
        {"cublasLtMatmulPreferenceInit_internal", &lt.preference_init},
        {"cublasLtMatmulPreferenceSetAttribute", &lt.preference_set_attribute},
        {"cublasLtMatrixLayoutInit_internal", &lt.layout_init},
    };
    for (size_t i = 0; i < LF_N_ELEMS(functions); i++) {
        void *found = dlsym(lt.library, functions[i].name);
        if (!found) {
            lf_cublaslt_close(&lt);
            return lf_fail(err, LF_UNSUPPORTED, "%s has no %s", LIBRARY, functions[i].name);
        }
        memcpy(functions[i].to, &found, sizeof found);
    }
    *out = lt;
    return LF_OK;
}

void lf_cublaslt_close(struct lf_cublaslt *lt)
{
    if (lt->library) (void)dlclose(lt->library);
    *lt = (struct lf_cublaslt){0};
}
