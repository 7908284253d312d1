/* Eight host threads, each with its own memory and stream; the first uses the default
 * stream. Built a second time with a default stream for each thread. */
#include "common.h"

#include <thread>

enum { THREADS = 8, ROUNDS = 12 };

/* work leaves the thread's digest in *result. Sizes differ between threads and
 * rounds, so allocations and frees of all threads interleave. */
static void work(int thread, uint64_t *result)
{
	cudaStream_t stream = 0;
	digest sum;

	CUDA(cudaSetDevice(0));
	if (thread > 0)
		CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int round = 0; round < ROUNDS; round++) {
		const size_t n = 50000 + 7919 * thread + 1009 * round, bytes = n * sizeof(uint32_t);
		const std::vector<uint32_t> host = numbers(n, thread * 100 + round);
		std::vector<uint32_t> back(n);
		uint32_t *x = device_alloc<uint32_t>(n);
		CUDA(cudaMemcpyAsync(x, host.data(), bytes, cudaMemcpyHostToDevice, stream));
		for (uint32_t step = 0; step < 5; step++) {
			affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(x, n, 2 * step + 3, thread);
			CUDA_LAUNCHED();
		}
		uint32_t *y = device_alloc<uint32_t>(n);
		CUDA(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, stream));
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(y, n, 9, round);
		CUDA_LAUNCHED();
		CUDA(cudaMemcpyAsync(back.data(), y, bytes, cudaMemcpyDeviceToHost, stream));
		CUDA(cudaStreamSynchronize(stream));
		for (size_t i = 0; i < n; i += 97) {
			uint32_t want = host[i];
			for (uint32_t step = 0; step < 5; step++)
				want = want * (2 * step + 3) + thread + (uint32_t)i;
			expect(back[i] == want * 9 + round + (uint32_t)i, "a thread's values");
		}
		sum.add(back);
		CUDA(cudaFree(x));
		CUDA(cudaFree(y));
	}
	if (stream)
		CUDA(cudaStreamDestroy(stream));
	*result = sum.value();
}

int main()
{
	std::vector<std::thread> threads;
	uint64_t results[THREADS] = {};
	digest sum;

	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(work, i, &results[i]);
	for (std::thread &t : threads)
		t.join();
	sum.add(results, sizeof results);
	sum.print();
	return 0;
}
