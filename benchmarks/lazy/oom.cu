/* Out of memory on purpose, in a program that ignores errors. It requests far more
 * than any device has, computes with its other allocation and exits 0. The run must
 * report the failed allocation all the same. */
#include "common.h"

int main()
{
	const size_t n = 1 << 20;
	uint32_t *x = device_alloc<uint32_t>(n), *huge = nullptr;

	CUDA(cudaMemset(x, 0, n * sizeof *x));
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 3, 1);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	const cudaError_t error = cudaMalloc((void **)&huge, (size_t)4 << 40);
	const cudaError_t again = cudaGetLastError(), after = cudaGetLastError();
	printf("4 TiB: error %d, last error %d, then %d\n", (int)error, (int)again, (int)after);

	digest sum; /* the first allocation is whole */
	sum.add_device(x, n);
	sum.print();
	return 0;
}
