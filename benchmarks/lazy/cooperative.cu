/* A cooperative launch: the blocks of the grid wait for one another. */
#include "common.h"

#include <cooperative_groups.h>

static __global__ void prefix(uint32_t *x, uint32_t *spare, uint32_t n)
{
	const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	for (uint32_t distance = 1; distance < n; distance *= 2) {
		if (i < n)
			spare[i] = x[i] + (i >= distance ? x[i - distance] : 0);
		grid.sync();
		if (i < n)
			x[i] = spare[i];
		grid.sync();
	}
}

int main()
{
	uint32_t n = 8 * BLOCK;
	const std::vector<uint32_t> host = numbers(n, 8);
	std::vector<uint32_t> back(n);
	int device = 0, supported = 0, per_sm = 0, sms = 0;
	digest sum;

	CUDA(cudaGetDevice(&device));
	CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device));
	CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
	CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, prefix, BLOCK, 0));
	if (!supported || per_sm * sms < 8)
		cannot_run("no cooperative launch");
	uint32_t *x = device_alloc<uint32_t>(n), *spare = device_alloc<uint32_t>(n);
	to_device(x, host);
	void *arguments[] = {&x, &spare, &n};
	CUDA(cudaLaunchCooperativeKernel((void *)prefix, dim3(8), dim3(BLOCK), arguments, 0, 0));
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaMemcpy(back.data(), x, n * sizeof *x, cudaMemcpyDeviceToHost));
	uint32_t total = 0;
	for (uint32_t i = 0; i < n; i++) {
		total += host[i];
		expect(back[i] == total, "prefix sum");
	}
	sum.add(back);
	CUDA(cudaFree(x));
	CUDA(cudaFree(spare));
	sum.print();
	return 0;
}
