/* Stream-ordered allocation: the default pool, a pool of the program's own,
 * and memory freed in another stream. */
#include "common.h"

int main()
{
	const size_t n = 1 << 19, bytes = n * sizeof(uint32_t);
	const std::vector<uint32_t> host = numbers(n, 5);
	std::vector<uint32_t> back(n);
	int device = 0, supported = 0;
	digest sum;

	CUDA(cudaGetDevice(&device));
	CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device));
	if (!supported)
		cannot_run("no memory pools");
	cudaStream_t stream;
	CUDA(cudaStreamCreate(&stream));
	for (uint32_t round = 0; round < 5; round++) {
		uint32_t *x, *y;
		CUDA(cudaMallocAsync((void **)&x, bytes, stream));
		CUDA(cudaMallocAsync((void **)&y, bytes, stream));
		CUDA(cudaMemcpyAsync(x, host.data(), bytes, cudaMemcpyHostToDevice, stream));
		CUDA(cudaMemsetAsync(y, (int)round, bytes, stream));
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(x, n, 3, round);
		CUDA_LAUNCHED();
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(y, n, 5, round);
		CUDA_LAUNCHED();
		CUDA(cudaFreeAsync(round % 2 ? x : y, stream));
		uint32_t *kept = round % 2 ? y : x;
		CUDA(cudaMemcpyAsync(back.data(), kept, bytes, cudaMemcpyDeviceToHost, stream));
		CUDA(cudaStreamSynchronize(stream));
		sum.add(back);
		CUDA(cudaFree(kept)); /* cudaFree takes such memory too */
	}

	cudaMemPool_t pool, current;
	cudaMemPoolProps properties = {};
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	properties.location.id = device;
	CUDA(cudaMemPoolCreate(&pool, &properties));
	uint64_t threshold = ~(uint64_t)0;
	CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	uint32_t *own;
	CUDA(cudaMallocFromPoolAsync((void **)&own, bytes, pool, stream));
	CUDA(cudaMemcpyAsync(own, host.data(), bytes, cudaMemcpyHostToDevice, stream));
	affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(own, n, 9, 1);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpyAsync(back.data(), own, bytes, cudaMemcpyDeviceToHost, stream));
	CUDA(cudaFreeAsync(own, stream));
	CUDA(cudaStreamSynchronize(stream));
	sum.add(back);
	CUDA(cudaDeviceSetMemPool(device, pool));
	CUDA(cudaDeviceGetMemPool(&current, device));
	expect(current == pool, "the current pool");
	CUDA(cudaMallocAsync((void **)&own, bytes, stream));
	CUDA(cudaMemsetAsync(own, 0x0f, bytes, stream));
	CUDA(cudaMemcpyAsync(back.data(), own, bytes, cudaMemcpyDeviceToHost, stream));
	CUDA(cudaFreeAsync(own, stream));
	CUDA(cudaStreamSynchronize(stream));
	sum.add(back);
	CUDA(cudaMemPoolTrimTo(pool, 0));
	CUDA(cudaMemPoolDestroy(pool));
	CUDA(cudaStreamDestroy(stream));
	sum.print();
	return 0;
}
