/* Writes up to 1 MiB after its last allocation and reads it again. The allocations
 * are small, so cudaMalloc puts them into one block of 2 MiB. Natively there is
 * therefore memory after them. */
#include "common.h"

static __global__ void write_behind(uint32_t *end, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		end[i] = (uint32_t)mix(i);
}

static __global__ void read_behind(uint32_t *out, const uint32_t *end, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		atomicAdd(out + i % BLOCK, end[i]);
}

int main()
{
	const size_t n = 10000, behind = (1 << 20) / sizeof(uint32_t);
	std::vector<uint32_t *> all;
	uint32_t *last = nullptr;
	digest sum;

	for (int i = 0; i < 4; i++) {
		all.push_back(device_alloc<uint32_t>(n));
		to_device(all.back(), numbers(n, i));
		if (all.back() > last)
			last = all.back();
	}
	CUDA(cudaMemset(all[0], 0, BLOCK * sizeof *all[0]));
	write_behind<<<blocks_for(behind), BLOCK>>>(last + n, behind);
	CUDA_LAUNCHED();
	read_behind<<<blocks_for(behind), BLOCK>>>(all[0], last + n, behind);
	CUDA_LAUNCHED();
	for (uint32_t *x : all)
		sum.add_device(x, n);
	for (uint32_t *x : all)
		CUDA(cudaFree(x));
	sum.print();
	return 0;
}
