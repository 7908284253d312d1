/* nbody_gpu.h: nbody.h on GPUs. It is a library (nbody.cu), so that programs need no CUDA without --gpu. */
#ifndef NBODY_GPU_H
#define NBODY_GPU_H

#include "nbody.h"

/* Functions that fail say so, and end the process. */
struct nbody_gpu {
	void (*use)(int device); /* the process uses this GPU. Without a call it is GPU 0. Numbers begin again where there are no more GPUs. */
	void *(*memory)(size_t bytes); /* of the GPU, of zeros, until the process ends */
	void (*copy)(void *to, const void *from, size_t bytes); /* memory of the GPU or of the node */
	step_of_some *step; /* arrays are memory of the GPU. It has ended when this returns. */
};

#ifdef __cplusplus
extern "C" const struct nbody_gpu nbody_gpu;
#else
#include <dlfcn.h>
#include <stdio.h>

/* load_nbody_gpu ends the process if the library is not built. */
static inline const struct nbody_gpu *load_nbody_gpu(void)
{
	void *library = dlopen("libnbody-gpu.so", RTLD_NOW);
	const struct nbody_gpu *found = library != NULL ? (const struct nbody_gpu *)dlsym(library, "nbody_gpu") : NULL;

	if (found != NULL)
		return found;
	fprintf(stderr, "--gpu needs what `make -C benchmarks/ivm gpu` builds: %s\n", dlerror());
	exit(1);
}
#endif

#endif
