/* Allocations after the first launch: many small ones, growing ones, and the
 * allocate, copy, free pattern of a growing array. */
#include "common.h"

int main()
{
	digest sum;
	size_t n = 1000;
	uint32_t *grows = device_alloc<uint32_t>(n);

	CUDA(cudaMemset(grows, 0x5a, n * sizeof *grows));
	for (uint32_t round = 0; round < 12; round++) {
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(grows, n, 3, round);
		CUDA_LAUNCHED();
		uint32_t *larger = device_alloc<uint32_t>(2 * n);
		CUDA(cudaMemcpy(larger, grows, n * sizeof *grows, cudaMemcpyDeviceToDevice));
		CUDA(cudaMemcpy(larger + n, grows, n * sizeof *grows, cudaMemcpyDeviceToDevice));
		CUDA(cudaFree(grows));
		grows = larger;
		n *= 2;
	}
	sum.add_device(grows, n);

	std::vector<uint32_t *> small;
	for (uint32_t i = 0; i < 3000; i++) {
		const size_t length = 1 + i % 700;
		small.push_back(device_alloc<uint32_t>(length));
		CUDA(cudaMemset(small[i], (int)(i % 251), length * sizeof(uint32_t)));
		affine<uint32_t><<<blocks_for(length), BLOCK>>>(small[i], length, 5, i);
		CUDA_LAUNCHED();
		if (i % 3 == 2) { /* frees among the live ones */
			sum.add_device(small[i - 1], 1 + (i - 1) % 700);
			CUDA(cudaFree(small[i - 1]));
			small[i - 1] = nullptr;
		}
	}
	for (uint32_t i = 0; i < small.size(); i++)
		if (small[i]) {
			sum.add_device(small[i], 1 + i % 700);
			CUDA(cudaFree(small[i]));
		}
	for (size_t megabytes = 1; megabytes <= 256; megabytes *= 4) {
		const size_t length = megabytes << 18;
		uint32_t *large = device_alloc<uint32_t>(length);
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(grows, n, 7, (uint32_t)megabytes);
		CUDA_LAUNCHED();
		CUDA(cudaMemset(large, 1, length * sizeof *large));
		affine<uint32_t><<<blocks_for(length), BLOCK>>>(large, length, 11, 1);
		CUDA_LAUNCHED();
		sum.add_device(large + length / 2, length / 16);
		CUDA(cudaFree(large));
	}
	CUDA(cudaFree(nullptr));
	sum.add_device(grows, n);
	CUDA(cudaFree(grows));
	sum.print();
	return 0;
}
