/* cudaDeviceReset with memory in use, and everything again afterwards. */
#include "common.h"

__device__ uint32_t start = 41;

static __global__ void bump(uint32_t *x)
{
	x[threadIdx.x] += start + threadIdx.x;
	__syncthreads();
	if (threadIdx.x == 0)
		start = 1000;
}

int main()
{
	digest sum;

	CUDA(cudaDeviceReset()); /* before anything exists */
	for (int round = 0; round < 3; round++) {
		uint32_t *x = device_alloc<uint32_t>(1024), *left = device_alloc<uint32_t>(500000);
		cudaStream_t stream;
		CUDA(cudaStreamCreate(&stream));
		to_device(x, numbers(1024, round));
		CUDA(cudaMemset(left, 1, 500000 * sizeof *left));
		if (round != 1) { /* one round is reset before its first launch */
			bump<<<1, 1024>>>(x);
			CUDA_LAUNCHED();
			bump<<<1, 1024, 0, stream>>>(x);
			CUDA_LAUNCHED();
			CUDA(cudaDeviceSynchronize());
			sum.add_device(x, 1024); /* start is 41 again after a reset */
			CUDA(cudaFree(x));
		}
		CUDA(cudaDeviceReset());
	}
	sum.print();
	return 0;
}
