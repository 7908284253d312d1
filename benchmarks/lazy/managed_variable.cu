/* A __managed__ variable: the host touches it before any other CUDA use. */
#include "common.h"

__managed__ uint32_t shared_values[1024];
__managed__ uint32_t shared_count = 5;

static __global__ void count_up(uint32_t *extra)
{
	const unsigned i = threadIdx.x;

	shared_values[i] = shared_values[i] * 3 + shared_count;
	extra[i] = shared_values[i] + i;
}

int main()
{
	digest sum;

	for (uint32_t i = 0; i < 1024; i++)
		shared_values[i] = i * i;
	uint32_t *extra = device_alloc<uint32_t>(1024);
	for (int round = 0; round < 3; round++) {
		count_up<<<1, 1024>>>(extra);
		CUDA_LAUNCHED();
		CUDA(cudaDeviceSynchronize());
		shared_count += shared_values[round];
		sum.add(shared_values, sizeof shared_values);
	}
	sum.add_device(extra, 1024);
	CUDA(cudaFree(extra));
	sum.print();
	return 0;
}
