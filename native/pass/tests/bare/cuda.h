// cuda.h: as much of CUDA's headers as program.cu and clang need.
#ifndef BARE_CUDA_H
#define BARE_CUDA_H

#include <stddef.h>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))

struct dim3 {
	unsigned x, y, z;
	__host__ __device__ dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;

extern "C" {
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **values, size_t shared, cudaStream_t stream);
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr); // older toolkits'
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = nullptr);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
}

#endif
