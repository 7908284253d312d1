/* Six host threads on as many devices as there are. Four ask for their tasks themselves
 * (native/probe/case.h) and compute between them as well, without a task of their own; two
 * ask for none. Without a scheduler the threads share the devices evenly. */
#include "../../native/probe/case.h"
#include "common.h"

#include <thread>

enum { ASKING = 4, THREADS = 6, ROUNDS = 4 };

/* compute checks a few kernels on the device, and adds their results to the digest. */
static void compute(int device, size_t n, uint64_t seed, digest *sum)
{
	const std::vector<uint32_t> host = numbers(n, seed);
	std::vector<uint32_t> back(n);
	cudaPointerAttributes where;
	int current = -1;

	uint32_t *x = device_alloc<uint32_t>(n), *y = device_alloc<uint32_t>(n);
	to_device(x, host);
	for (uint32_t step = 0; step < 5; step++) {
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 2 * step + 3, (uint32_t)seed);
		CUDA_LAUNCHED();
	}
	CUDA(cudaMemcpy(y, x, n * sizeof *x, cudaMemcpyDeviceToDevice));
	CUDA(cudaMemcpy(back.data(), y, n * sizeof *y, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i += 97) {
		uint32_t want = host[i];
		for (uint32_t step = 0; step < 5; step++)
			want = want * (2 * step + 3) + (uint32_t)seed + (uint32_t)i;
		expect(back[i] == want, "a thread's values");
	}
	CUDA(cudaGetDevice(&current));
	CUDA(cudaPointerGetAttributes(&where, x));
	expect(current == device && where.device == device, "the device that the thread has chosen");
	sum->add(back);
	CUDA(cudaFree(x));
	CUDA(cudaFree(y));
}

static void work(int thread, int devices, uint64_t *result)
{
	digest sum;

	for (int round = 0; round < ROUNDS; round++) {
		const size_t n = 400000 + 7919 * thread + 1009 * round;
		int device = thread % devices;
		struct case_task task = {};
		if (thread < ASKING) {
			expect(case_task_begin(2 * n * sizeof(uint32_t), blocks_for(n), BLOCK, 0, 0, &task) == CASE_OK, "a task");
			if (task.device >= 0)
				device = task.device;
		}
		expect(device < devices, "a device that the program sees");
		CUDA(cudaSetDevice(device));
		compute(device, n, thread * 100 + round, &sum);
		if (thread < ASKING) {
			case_task_free(&task);
			compute(device, n / 4, thread * 100 + round + 50, &sum); /* nobody has asked for it */
		}
	}
	*result = sum.value();
}

int main()
{
	std::vector<std::thread> threads;
	uint64_t results[THREADS] = {};
	int devices = 0;
	digest sum;

	CUDA(cudaGetDeviceCount(&devices));
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(work, i, devices, &results[i]);
	for (std::thread &t : threads)
		t.join();
	sum.add(results, sizeof results);
	sum.print();
	return 0;
}
