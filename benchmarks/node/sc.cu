/* sc: prefix sums of N numbers, and 1,100 times the prefix sums of what came out. Each has three launches: of chunks, one for
 * each thread of a block, of what the chunks add up to, and those added to the chunks. */
#include "node.h"

static const about what = {"Prefix sums of N numbers.", "scan", {1 << 10, 1 << 14, 260000}, 1, 1L << 20, FULL, 1000000};

__global__ void scan(const uint32_t *in, uint32_t *out, uint32_t *sums, size_t n, long rounds, span *ran)
{
	__shared__ uint32_t part[2][1024];
	const stamped all(ran);

	for (size_t item = blockIdx.x, chunks = (n + blockDim.x - 1) / blockDim.x; item < chunks * rounds; item += gridDim.x) {
		const size_t chunk = item % chunks, i = chunk * blockDim.x + threadIdx.x;
		int of = 0;
		part[0][threadIdx.x] = i < n ? in[i] : 0;
		for (unsigned back = 1; back < blockDim.x; back *= 2, of = !of) {
			__syncthreads();
			part[!of][threadIdx.x] = part[of][threadIdx.x] + (threadIdx.x >= back ? part[of][threadIdx.x - back] : 0);
		}
		__syncthreads();
		if (i < n)
			out[i] = part[of][threadIdx.x];
		if (threadIdx.x == blockDim.x - 1)
			sums[chunk] = part[of][threadIdx.x];
		__syncthreads();
	}
}
KERNEL(scan);

__global__ void scan_sums(const uint32_t *sums, uint32_t *before, size_t chunks, span *ran)
{
	const stamped all(ran);
	uint32_t sum = 0;

	for (size_t c = 0; c < chunks && threadIdx.x == 0; c++) {
		before[c] = sum;
		sum += sums[c];
	}
}
KERNEL(scan_sums);

__global__ void add(uint32_t *out, const uint32_t *before, size_t n, span *ran)
{
	const stamped all(ran);

	for (size_t i = first_item(); i < n; i += items_apart())
		out[i] += before[i / blockDim.x];
}
KERNEL(add);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const int scans = p.times(1100);
	const size_t n = p.size, chunks = (n + p.threads - 1) / p.threads;
	uint32_t *numbers[2] = {p.allocate<uint32_t>(n, "numbers"), p.allocate<uint32_t>(n, "prefix sums")};
	uint32_t *sums = p.allocate<uint32_t>(chunks, "sums of chunks"), *before = p.allocate<uint32_t>(chunks, "sums before chunks");
	p.begin(scans, 8.0 * n);
	std::vector<uint32_t> want = upload(numbers[0], n, mixed);
	p.phase("kernels");
	for (int s = 0; s < scans; s++) {
		STEP(scan, p, numbers[s % 2], numbers[(s + 1) % 2], sums, n, p.rounds);
		STEP_ON(scan_sums, p, 1, sums, before, chunks);
		STEP(add, p, numbers[(s + 1) % 2], before, n);
	}
	p.phase("verify");
	if (p.chosen.verify) {
		for (int s = 0; s < scans; s++)
			for (size_t i = 1; i < n; i++)
				want[i] += want[i - 1];
		verify_report("prefix sums", download(numbers[scans % 2], n) != want, 0);
	}
	return p.finish(numbers[scans % 2], n * sizeof(uint32_t));
}
