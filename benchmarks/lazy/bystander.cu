/* A job for batches in which a job faults (faults.py). It works in one of several
 * ways for some time, checks its results, and may fault itself.
 *
 *   bystander WAY SECONDS [KIND MOMENT]
 *
 * WAY: busy (short kernels, one after the other), long (kernels of 100 ms), copies
 * (kernels whose results are copied back), host (occasional kernels), idle (device
 * memory, but no kernels). KIND, MOMENT seconds after the first kernel:
 * read, write (an illegal address), misaligned, trap, assert, kill (kill -9 with a
 * kernel running), exit (_exit with a kernel running). */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#undef NDEBUG
#include <assert.h>

#include "common.h"

static double now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static __global__ void work(uint32_t *x, size_t n, long long clocks)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	const long long begin = clock64();

	if (i < n)
		x[i] = x[i] * 3 + 1;
	while (clock64() - begin < clocks)
		;
}

static __global__ void reads(uint32_t *x) { x[0] = *(volatile uint32_t *)((size_t)16); }
static __global__ void writes() { *(volatile uint32_t *)0x7fff00000000 = 1; }
static __global__ void misaligned(char *x) { *(volatile uint32_t *)(x + 1) = 1; }
static __global__ void traps() { asm volatile("trap;"); }
static __global__ void asserts(int one) { assert(one == 2); }

static void fault(const char *kind, uint32_t *x, size_t n)
{
	const long long second = 1700000000;

	if (strcmp(kind, "read") == 0)
		reads<<<1, 1>>>(x);
	else if (strcmp(kind, "write") == 0)
		writes<<<1, 1>>>();
	else if (strcmp(kind, "misaligned") == 0)
		misaligned<<<1, 1>>>((char *)x);
	else if (strcmp(kind, "trap") == 0)
		traps<<<1, 1>>>();
	else if (strcmp(kind, "assert") == 0)
		asserts<<<1, 1>>>(1);
	else
		work<<<blocks_for(n), BLOCK>>>(x, n, 5 * second);
	if (strcmp(kind, "kill") == 0 || strcmp(kind, "exit") == 0) {
		usleep(50000); /* the kernel is running */
		if (kind[0] == 'k')
			kill(getpid(), SIGKILL);
		_exit(1);
	}
}

int main(int count, char **arguments)
{
	if (count != 3 && count != 5) {
		fprintf(stderr, "usage: bystander WAY SECONDS [KIND MOMENT]\n");
		return 1;
	}
	const char *way = arguments[1], *kind = count > 3 ? arguments[3] : "";
	const double seconds = atof(arguments[2]), moment = count > 3 ? atof(arguments[4]) : 0;
	const size_t n = 1 << 20;
	const std::vector<uint32_t> given = numbers(n, 7);
	uint32_t *x = device_alloc<uint32_t>(n);
	std::vector<uint32_t> got(n);
	uint32_t times = 0, factor = 1, sum = 0; /* after `times` kernels x is x * factor + sum */
	bool faulted = count == 3;

	to_device(x, given);
	const auto launch = [&](long long clocks) {
		work<<<blocks_for(n), BLOCK>>>(x, n, clocks);
		CUDA_LAUNCHED();
		factor *= 3;
		sum = sum * 3 + 1;
		times++;
	};
	launch(0);
	CUDA(cudaDeviceSynchronize());
	for (const double begin = now(); now() - begin < seconds;) {
		if (!faulted && now() - begin >= moment) {
			fault(kind, x, n);
			faulted = true;
		}
		if (strcmp(way, "busy") == 0) {
			launch(1000000);
			CUDA(cudaDeviceSynchronize());
		} else if (strcmp(way, "long") == 0) {
			launch(1000000);
			work<<<8, BLOCK>>>(nullptr, 0, 170000000);
			CUDA(cudaDeviceSynchronize());
		} else if (strcmp(way, "copies") == 0) {
			launch(1000000);
			CUDA(cudaMemcpy(got.data(), x, n * sizeof got[0], cudaMemcpyDeviceToHost));
			usleep(5000);
		} else if (strcmp(way, "host") == 0) {
			launch(1000000);
			CUDA(cudaDeviceSynchronize());
			usleep(100000);
		} else {
			size_t free = 0, total = 0;
			CUDA(cudaMemGetInfo(&free, &total));
			usleep(20000);
		}
	}
	CUDA(cudaMemcpy(got.data(), x, n * sizeof got[0], cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i++)
		expect(got[i] == given[i] * factor + sum, "what the kernels computed");
	CUDA(cudaFree(x));
	printf("%u kernels\n", times > 0);
	return 0;
}
