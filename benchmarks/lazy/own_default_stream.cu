/* Built with --default-stream per-thread: four threads use only their own default
 * streams, and the legacy stream waits for all four. */
#include "common.h"

#include <thread>

enum { THREADS = 4 };

int main()
{
	const size_t n = 400000, bytes = n * sizeof(uint32_t);
	uint32_t *memory[THREADS], *host;
	std::vector<std::thread> threads;
	digest sum;

	CUDA(cudaMallocHost((void **)&host, THREADS * bytes));
	for (size_t i = 0; i < THREADS * n; i++)
		host[i] = (uint32_t)mix(i);
	for (int t = 0; t < THREADS; t++)
		memory[t] = device_alloc<uint32_t>(n);
	for (int t = 0; t < THREADS; t++)
		threads.emplace_back([=] {
			CUDA(cudaMemcpyAsync(memory[t], host + t * n, bytes, cudaMemcpyHostToDevice, 0));
			for (uint32_t step = 0; step < 10; step++) {
				affine<uint32_t><<<blocks_for(n), BLOCK>>>(memory[t], n, 3, step + t);
				CUDA_LAUNCHED();
			}
			CUDA(cudaStreamSynchronize(cudaStreamPerThread));
		});
	for (std::thread &t : threads)
		t.join();
	for (int t = 0; t < THREADS; t++) {
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, cudaStreamLegacy>>>(memory[t], n, 5, t);
		CUDA_LAUNCHED();
		CUDA(cudaMemcpyAsync(host + t * n, memory[t], bytes, cudaMemcpyDeviceToHost, cudaStreamLegacy));
	}
	CUDA(cudaStreamSynchronize(cudaStreamLegacy));
	sum.add(host, THREADS * bytes);
	for (int t = 0; t < THREADS; t++)
		CUDA(cudaFree(memory[t]));
	CUDA(cudaFreeHost(host));
	sum.print();
	return 0;
}
