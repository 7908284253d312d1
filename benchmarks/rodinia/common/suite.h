/* suite.h: what the programs of the suites share: host.h, checked CUDA calls, device memory,
 * footprints and random numbers. */
#ifndef SUITE_H
#define SUITE_H

#include "host.h"

#include <cuda_runtime.h>

/* The need of a program: the sum of its device allocations, which all exist at the same time,
 * and the shape of its largest kernel. */
struct footprint {
	uint64_t bytes;
	const char *kernel;
	dim3 grid, block;
};

/* print_footprint writes the line
 * "bytes=N kernel=NAME grid=XxYxZ block=XxYxZ" to stdout. */
void print_footprint(const footprint &need);

/* gpu_check ends the program unless `error` is success: with EXIT_OOM if the call found no
 * device memory, else with EXIT_FAULT. */
void gpu_check(cudaError_t error, const char *call, const char *file, int line);
#define GPU(call) gpu_check((call), #call, __FILE__, __LINE__)
#define GPU_LAUNCHED(kernel) gpu_check(cudaGetLastError(), kernel, __FILE__, __LINE__)

/* device_alloc never returns nullptr; name is for the message. */
void *device_alloc_bytes(size_t bytes, const char *name);
template <typename T> T *device_alloc(size_t count, const char *name)
{
	return static_cast<T *>(device_alloc_bytes(count * sizeof(T), name));
}
void device_free(void *memory);

/* check_footprint dies unless the allocations so far add up to need.bytes. */
void check_footprint(const footprint &need);

void copy_to_device(void *device, const void *host, size_t bytes);
void copy_to_host(void *host, const void *device, size_t bytes);

/* c_random is the C library's rand(), in which Rodinia's programs spend much of their set-up.
 * A C library gives the same numbers for the same seed. A process has only one sequence. */
class c_random {
public:
	explicit c_random(unsigned seed) { srand(seed); }
	double uniform() { return rand() / (RAND_MAX + 1.0); } /* [0, 1) */
	int below(int bound) { return rand() % bound; }        /* [0, bound) */
};

#endif
