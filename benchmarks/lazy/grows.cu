/* A job for runs in which jobs grow beside each other (growers.py).
 *
 *   grows SEED MIB
 *
 * allocates buffers of at most 512 MiB, MIB in all at one time, runs kernels on all of them after each allocation, and frees some.
 * What is in a buffer is checked before it is freed. With SEED 0 it allocates 512 MiB five times, and frees at the end. */
#include <unistd.h>

#include <random>

#include "common.h"

static const size_t mib = 1 << 20;

static __global__ void fill(uint32_t *x, size_t n, uint32_t from)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] = from + (uint32_t)i;
}

static __global__ void add(uint32_t *x, size_t n, uint32_t by)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] = x[i] * 3 + by;
}

/* check counts the values that differ from what fill and then add, by each of by, make. */
static __global__ void check(const uint32_t *x, size_t n, uint32_t from, const uint32_t *by, size_t adds, unsigned *wrong)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	uint32_t value = from + (uint32_t)i;
	for (size_t k = 0; k < adds; k++)
		value = value * 3 + by[k];
	if (value != x[i])
		atomicAdd(wrong, 1u);
}

struct buffer {
	uint32_t *x;
	size_t n;
	uint32_t from;
	std::vector<uint32_t> by;
};

static void check_and_free(const buffer &b)
{
	uint32_t *by = device_alloc<uint32_t>(b.by.size());
	unsigned *wrong = device_alloc<unsigned>(1), found;

	to_device(by, b.by);
	CUDA(cudaMemset(wrong, 0, sizeof *wrong));
	check<<<blocks_for(b.n), BLOCK>>>(b.x, b.n, b.from, by, b.by.size(), wrong);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
	expect(found == 0, "memory has other values");
	CUDA(cudaFree(by));
	CUDA(cudaFree(wrong));
	CUDA(cudaFree(b.x));
}

int main(int count, char **arguments)
{
	if (count != 3) {
		fprintf(stderr, "usage: grows SEED MIB\n");
		return 1;
	}
	const unsigned seed = (unsigned)atoi(arguments[1]);
	const size_t most = strtoull(arguments[2], nullptr, 10) * mib;
	const bool random = seed != 0;
	std::mt19937 draw(seed);
	std::vector<buffer> buffers;
	digest sum;
	size_t bytes = 0;

	for (unsigned left = random ? 3 + draw() % 8 : 5; left > 0; left--) {
		const size_t more = random ? (1 + draw() % 512) * mib + draw() % 3 * 4096 : 512 * mib;
		if (bytes + more > most)
			break;
		bytes += more;
		buffers.push_back({device_alloc<uint32_t>(more / 4), more / 4, (uint32_t)draw(), {}});
		fill<<<blocks_for(buffers.back().n), BLOCK>>>(buffers.back().x, buffers.back().n, buffers.back().from);
		CUDA_LAUNCHED();
		for (buffer &b : buffers) {
			b.by.push_back((uint32_t)draw());
			add<<<blocks_for(b.n), BLOCK>>>(b.x, b.n, b.by.back());
			CUDA_LAUNCHED();
		}
		if (random && buffers.size() > 2 && draw() % 4 == 0) {
			const auto gone = buffers.begin() + draw() % buffers.size();
			check_and_free(*gone);
			bytes -= gone->n * 4;
			buffers.erase(gone);
		}
		usleep(draw() % (random ? 20000 : 50000));
	}
	for (const buffer &b : buffers) {
		sum.add_device(b.x, 1000);
		check_and_free(b);
	}
	sum.print();
}
