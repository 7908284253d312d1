/* Constants and device variables: set before the first launch and read back, a symbol
 * that holds a device address, and values that remain after the last allocation is
 * freed. */
#include "common.h"

__constant__ uint32_t table[256];
__device__ uint32_t state[1000];
__device__ uint32_t starts_at = 77;
__device__ uint32_t *target;

static __global__ void step(uint32_t round)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= 1000)
		return;
	state[i] = state[i] * 3 + table[(i + round) % 256] + starts_at;
	target[i] = state[i] ^ round;
}

int main()
{
	const std::vector<uint32_t> constants = numbers(256, 1), begin = numbers(1000, 2);
	std::vector<uint32_t> back(1000);
	uint32_t *address = nullptr, *memory = device_alloc<uint32_t>(1000);
	size_t size = 0;
	digest sum;

	CUDA(cudaMemcpyToSymbol(table, constants.data(), 200 * sizeof(uint32_t)));
	CUDA(cudaMemcpyToSymbol(table, constants.data() + 200, 56 * sizeof(uint32_t), 200 * sizeof(uint32_t)));
	CUDA(cudaMemcpyToSymbol(state, begin.data(), sizeof state));
	CUDA(cudaMemcpyToSymbol(target, &memory, sizeof memory));
	CUDA(cudaGetSymbolSize(&size, state));
	expect(size == sizeof state, "size of a symbol");
	CUDA(cudaGetSymbolAddress((void **)&address, state));
	CUDA(cudaMemset(address + 500, 0x22, 100 * sizeof *address));
	for (uint32_t round = 0; round < 3; round++) {
		step<<<4, BLOCK>>>(round);
		CUDA_LAUNCHED();
	}
	CUDA(cudaMemcpyFromSymbol(back.data(), state, sizeof state));
	sum.add(back);
	sum.add_device(memory, 1000);
	CUDA(cudaFree(memory)); /* nothing is allocated now; the variables stay */

	memory = device_alloc<uint32_t>(2000);
	CUDA(cudaMemcpyToSymbolAsync(target, &memory, sizeof memory, 0, cudaMemcpyHostToDevice, 0));
	step<<<4, BLOCK>>>(9);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpyFromSymbol(back.data(), state, 4000 - 400, 400));
	sum.add(back);
	sum.add_device(memory, 1000);
	sum.add_device(address, 1000);
	CUDA(cudaFree(memory));
	sum.print();
	return 0;
}
