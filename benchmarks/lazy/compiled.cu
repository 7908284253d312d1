/* A program for casecc with a static CUDA runtime, which a preloaded library cannot replace. Its
 * task is static: casecc sees it from its first allocation to its last free. With FALLBACK the
 * pointers to its memory outlive the function, so casecc leaves the launches to the lazy runtime.
 *
 *	compiled_static [MIB]	device memory in all, 64 without an argument */
#include "common.h"

__global__ void fold(uint32_t *x, const uint32_t *y, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] = x[i] * 31 + y[n - 1 - i];
}

int main(int count, char **arguments)
{
	const size_t mib = count > 1 ? strtoul(arguments[1], NULL, 10) : 64, n = (mib << 20) / 2 / sizeof(uint32_t);
	std::vector<uint32_t> host = numbers(n, 17);
	digest sum;
#ifdef FALLBACK
	static uint32_t *x, *y;
#else
	uint32_t *x = NULL, *y = NULL;
#endif

	CUDA(cudaMalloc((void **)&x, n * sizeof(uint32_t)));
	CUDA(cudaMalloc((void **)&y, n * sizeof(uint32_t)));
	CUDA(cudaMemcpy(x, host.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
	CUDA(cudaMemset(y, 3, n * sizeof(uint32_t)));
	for (int round = 0; round < 100; round++) {
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(y, n, 5, 1);
		fold<<<blocks_for(n), BLOCK>>>(x, y, n);
	}
	CUDA_LAUNCHED();
	CUDA(cudaMemcpy(host.data(), x, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
	CUDA(cudaFree(x));
	CUDA(cudaFree(y));
	sum.add(host);
	sum.print();
	return 0;
}
