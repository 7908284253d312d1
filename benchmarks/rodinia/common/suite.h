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

/* What follows is inline, so that a compiler that looks for GPU tasks (docs/design/casecc.md) sees
 * which calls allocate, copy and free in the function that launches. */

/* gpu_failed ends the program: with EXIT_OOM if the call found no device memory, else with
 * EXIT_FAULT. */
[[noreturn]] void gpu_failed(cudaError_t error, const char *call, const char *file, int line);

/* gpu_check ends the program unless `error` is success. */
inline void gpu_check(cudaError_t error, const char *call, const char *file, int line)
{
	if (error != cudaSuccess)
		gpu_failed(error, call, file, line);
}
#define GPU(call) gpu_check((call), #call, __FILE__, __LINE__)
#define GPU_LAUNCHED(kernel) gpu_check(cudaGetLastError(), kernel, __FILE__, __LINE__)

/* allocation_failed ends the program, as gpu_failed does. */
[[noreturn]] void allocation_failed(cudaError_t error, size_t bytes, const char *name);

extern uint64_t allocated; /* bytes of all device allocations so far */

/* device_alloc never returns nullptr; name is for the message. */
inline void *device_alloc_bytes(size_t bytes, const char *name)
{
	void *memory = nullptr;
	cudaError_t error = cudaMalloc(&memory, bytes);

	if (error != cudaSuccess)
		allocation_failed(error, bytes, name);
	allocated += bytes;
	return memory;
}
template <typename T> T *device_alloc(size_t count, const char *name)
{
	return static_cast<T *>(device_alloc_bytes(count * sizeof(T), name));
}
inline void device_free(void *memory)
{
	GPU(cudaFree(memory));
}

/* check_footprint dies unless the allocations so far add up to need.bytes. */
void check_footprint(const footprint &need);

inline void copy_to_device(void *device, const void *host, size_t bytes)
{
	GPU(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}
inline void copy_to_host(void *host, const void *device, size_t bytes)
{
	GPU(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

/* c_random is the C library's rand(), in which Rodinia's programs spend much of their set-up.
 * A C library gives the same numbers for the same seed. A process has only one sequence. */
class c_random {
public:
	explicit c_random(unsigned seed) { srand(seed); }
	double uniform() { return rand() / (RAND_MAX + 1.0); } /* [0, 1) */
	int below(int bound) { return rand() % bound; }        /* [0, bound) */
};

#endif
