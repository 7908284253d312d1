/* Requests its memory itself, through schedGPU's client API (native/probe/schedgpu.h):
 *
 *   explicit MIB [DEVICE [WAIT_MS]]
 *
 * A WAIT_MS of -1 does not wait. Exit statuses are those of common.h, and 5 if memory was
 * not free in time. */
#include "../../native/probe/schedgpu.h"
#include "common.h"

static __global__ void fill(uint32_t *x, size_t n)
{
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		x[i] = (uint32_t)i * 2654435761u;
}

int main(int argc, char **argv)
{
	const size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 64) << 20, n = bytes / sizeof(uint32_t);
	const int device = argc > 2 ? atoi(argv[2]) : 0;
	const unsigned wait_ms = argc > 3 ? (unsigned)atoi(argv[3]) : SCHEDGPU_WAIT_DEFAULT;

	if (schedGPUInit() != SCHEDGPU_SUCCESS)
		return 3;
	const int answer = preCudaMalloc(bytes, device, wait_ms);
	if (answer != SCHEDGPU_SUCCESS) {
		printf("preCudaMalloc: %d\n", answer);
		return answer == SCHEDGPU_NOT_READY ? 5 : answer == SCHEDGPU_OUT_OF_MEMORY ? 2 : 3;
	}
	uint32_t *x, last;
	CUDA(cudaSetDevice(device));
	CUDA(cudaMalloc(&x, bytes));
	fill<<<256, 256>>>(x, n);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
	CUDA(cudaFree(x));
	const int freed = postCudaFree(bytes, device);
	printf("last %u, postCudaFree: %d\n", last, freed);
	return last == (uint32_t)(n - 1) * 2654435761u && freed == SCHEDGPU_SUCCESS ? 0 : 4;
}
