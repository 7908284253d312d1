/* pr: 400 sums of N numbers, each in two launches: of each block, and of the blocks. One more launch makes the numbers. */
#include "node.h"

static const about what = {"Sums of N numbers.", "reduce", {1 << 12, 1 << 17, 4 << 20}, 1, 1L << 34, FULL, 1000000};

__global__ void fill(uint32_t *numbers, size_t n, span *ran)
{
	const stamped all(ran);

	for (size_t i = first_item(); i < n; i += items_apart())
		numbers[i] = (uint32_t)mixed(i);
}
KERNEL(fill);

/* reduce has each block add up its numbers, each so many times. */
__global__ void reduce(const uint32_t *numbers, size_t n, uint32_t times, uint32_t *sums, long rounds, span *ran)
{
	__shared__ uint32_t part[1024];
	const stamped all(ran);

	for (long r = 0; r < rounds; r++) {
		part[threadIdx.x] = 0;
		for (size_t i = first_item(); i < n; i += items_apart())
			part[threadIdx.x] += times * numbers[i];
		for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
			__syncthreads();
			if (threadIdx.x < half)
				part[threadIdx.x] += part[threadIdx.x + half];
		}
		if (threadIdx.x == 0)
			sums[blockIdx.x] = part[0];
		__syncthreads();
	}
}
KERNEL(reduce);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const uint32_t count = p.times(400);
	const size_t n = p.size;
	uint32_t *numbers = p.allocate<uint32_t>(n, "numbers"), *of_blocks = p.allocate<uint32_t>(p.blocks, "sums of blocks"),
		 *sums = p.allocate<uint32_t>(count, "sums");
	p.begin(count, 4.0 * n);
	p.phase("kernels");
	STEP(fill, p, numbers, n);
	for (uint32_t s = 0; s < count; s++) {
		STEP(reduce, p, numbers, n, s + 1, of_blocks, p.rounds);
		STEP_ON(reduce, p, 1, of_blocks, p.blocks, 1, sums + s, 1);
	}
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<uint32_t> got = download(sums, count);
		uint32_t sum = 0;
		double error = 0;
		for (size_t i = 0; i < n; i++)
			sum += (uint32_t)mixed(i);
		for (uint32_t s = 0; s < count; s++)
			keep_worst(&error, got[s] != (s + 1) * sum);
		verify_report("sums", error, 0);
	}
	return p.finish(sums, count * sizeof *sums);
}
