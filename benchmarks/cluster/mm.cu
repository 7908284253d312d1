/* mm: the root scatters pairs of N x N matrices in each iteration, ranks multiply theirs, and the root gathers the products.
 *
 * Entries are integers below 3. The left matrix i has another partner in each iteration. Products are checked with a random vector (Freivalds). */
#include "../node/multiply.h"
#include "cluster.h"

static const about what = {"Products of --pairs pairs of N x N matrices (24) in each of the --iterations, which the ranks of the job share. Rounds: how often a\n"
                           "product is computed.",
                           "multiply", {64, 400, 1600}, 1, 1L << 14, 1, 96};

static const int tile = 32;

__global__ void __launch_bounds__(side * side) multiply(const int *a, const int *b, int *c, int n, long rounds, span *ran)
{
	const stamped all(ran);
	const int blocks = (n + tile - 1) / tile;

	for (long r = 0; r < rounds; r++)
		multiply_tile<tile>(a, b, c, n, (int)blockIdx.x / blocks, (int)blockIdx.x % blocks, [](int sum) { return sum; });
}
KERNEL(multiply);

/* times is the vector v times the matrix. */
static std::vector<uint32_t> times(const std::vector<uint32_t> &v, const int *m)
{
	std::vector<uint32_t> out(v.size());

	for (uint32_t by : v)
		for (uint32_t &sum : out)
			sum += by * (uint32_t)*m++;
	return out;
}

int main(int argc, char **argv)
{
	double many = 24;
	cluster_program p(argc, argv, what, {{"--pairs", &many, 1, nullptr}});
	const int n = (int)p.size, blocks = (n + tile - 1) / tile;
	const size_t entries = (size_t)n * n, bytes = entries * sizeof(int), pairs = (size_t)many, most = p.job.most(pairs);
	const size_t own = p.job.first(p.job.own + 1, pairs) - p.job.first(p.job.own, pairs);
	int *a = p.allocate<int>(most * entries, "left matrices"), *b = p.allocate<int>(most * entries, "right matrices"),
		*c = p.allocate<int>(most * entries, "products");
	p.blocks = blocks * blocks;
	p.threads = side * side;
	p.begin();
	const bool root = p.job.own == 0;
	std::vector<int> left(root ? pairs * entries : 0), right(root ? (pairs + 1) * entries : 0), all(left.size()), lefts(own * entries), rights(lefts), products(lefts);
	for (size_t i = 0; i < right.size(); i++) {
		right[i] = (int)(mixed(~i) % 3);
		if (i < left.size())
			left[i] = (int)(mixed(i) % 3);
	}
	std::vector<uint32_t> v(n);
	for (int i = 0; i < n; i++)
		v[i] = (uint32_t)mixed((uint64_t)77 << 32 ^ i);
	long wrong = 0;
	for (size_t iteration = 0; iteration < (size_t)iterations; iteration++) {
		const auto partner = [&](size_t i) { return &right[(i + iteration) % (pairs + 1) * entries]; };
		p.phase("scatter");
		p.job.scatter(pairs, bytes, [&](size_t i) { return &left[i * entries]; }, lefts.data());
		p.job.scatter(pairs, bytes, partner, rights.data());
		p.phase("device");
		copy_to_device(a, lefts.data(), own * bytes);
		copy_to_device(b, rights.data(), own * bytes);
		for (size_t i = 0; i < own; i++)
			STEP(multiply, p, a + i * entries, b + i * entries, c + i * entries, n, p.rounds);
		copy_to_host(products.data(), c, own * bytes);
		p.phase("gather");
		p.job.gather(pairs, bytes, products.data(), all.data());
		p.phase("verify");
		for (size_t i = 0; p.checks() && i < pairs; i++)
			wrong += times(times(v, &left[i * entries]), partner(i)) != times(v, &all[i * entries]);
	}
	if (p.checks())
		verify_report("products", wrong, 0);
	return p.finish(root ? all : products);
}
