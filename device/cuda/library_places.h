/* Where a library of CUDA may lie that the loader does not find by itself. Inside device/cuda/ only. */
#ifndef LF_DEVICE_CUDA_LIBRARY_PLACES_H
#define LF_DEVICE_CUDA_LIBRARY_PLACES_H

#include <glob.h>

/* The files of that name that are there, the likeliest first: of the toolkit (build_dir, the one of the build;
 * CUDA_HOME, CUDA_PATH; /usr/local/cuda), then as PyPI's packages put it (nvidia/cu13/lib, nvidia/cublas/lib), in the
 * virtual environment, Conda's, the user's and the system's. out->gl_pathv has gl_pathc of them; globfree in the end.
 */
void lf_library_places_find(glob_t *out, const char *file, int cuda_major, const char *build_dir);

#endif
