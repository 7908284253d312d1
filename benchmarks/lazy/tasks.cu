/* Several tasks in one process: allocate, compute, free everything, and repeat with
 * another size and grid. Also built with a static CUDA runtime. */
#include "common.h"

int main()
{
	digest sum;

	for (uint32_t task = 0; task < 6; task++) {
		const size_t n = (size_t)1 << (12 + 2 * task);
		uint32_t *x = device_alloc<uint32_t>(n), *y = device_alloc<uint32_t>(n);
		to_device(x, numbers(n, task));
		CUDA(cudaMemcpy(y, x, n * sizeof *x, cudaMemcpyDeviceToDevice));
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 3, task);
		CUDA_LAUNCHED();
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(y, n, 5, task);
		CUDA_LAUNCHED();
		sum.add_device(x, n);
		CUDA(cudaFree(x));
		sum.add_device(y, n);
		CUDA(cudaFree(y));
	}
	sum.print();
	return 0;
}
