/* mm: products of large matrices, with work of the host between them (MM-S and MM-L of the
 * dissertation on runtime support for CPU-GPU clusters, Table 3-2).
 *
 * M matrices of N x N 32-bit integers below 3. P times the product of two of them, modulo 3, replaces a third, in turn. So a
 * kernel is given three matrices, whatever M is. The last product is checked with a random vector (Freivalds). */
#include "multiply.h"
#include "node.h"

static const about what = {"Products of N x N matrices: --products of them, of --matrices matrices (10 and 3).", "multiply", {200, 2000, 10000}, 1, 1L << 15, 1, 1};

static const int tile = 128;

__global__ void __launch_bounds__(side * side) multiply(const int *a, const int *b, int *c, int n, span *ran)
{
	const stamped all(ran);
	const int blocks = (n + tile - 1) / tile;

	multiply_tile<tile>(a, b, c, n, (int)blockIdx.x / blocks, (int)blockIdx.x % blocks, [](int sum) { return sum % 3; });
}
KERNEL(multiply);

__global__ void fill(int *m, size_t count, uint64_t seed)
{
	for (size_t i = first_item(); i < count; i += items_apart())
		m[i] = (int)(mixed(seed + i) % 3);
}
KERNEL(fill);

/* times is the vector v times the matrix, modulo 3. */
__global__ void times(const int *v, const int *m, int *out, int n)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	int sum = 0;

	for (int row = 0; row < n && column < n; row++)
		sum += v[row] * m[(size_t)row * n + column];
	if (column < n)
		out[column] = sum % 3;
}
KERNEL(times);

int main(int argc, char **argv)
{
	double matrices = 3, products = 10;
	node_program p(argc, argv, what, {{"--matrices", &matrices, 3, nullptr}, {"--products", &products, 1, nullptr}});
	const int n = (int)p.size, count = (int)matrices, blocks = (n + tile - 1) / tile, last = (int)products - 1;
	const size_t entries = (size_t)n * n;
	std::vector<int *> m(count);
	for (int *&matrix : m)
		matrix = p.allocate<int>(entries, "matrix");
	int *v = p.allocate<int>(4 * (size_t)n, "vectors"), *const va = v + n, *const vab = va + n, *const vc = vab + n;
	p.blocks = blocks * blocks;
	p.threads = side * side;
	p.begin(1, 1);
	for (int i = 0; i < count; i++)
		LAUNCH_ON(fill, 1024, 256, m[i], entries, 1000003u * (uint64_t)i);
	p.phase("products");
	for (int i = 0; i <= last; i++)
		STEP(multiply, p, m[i % count], m[(i + 1) % count], m[(i + 2) % count], n);
	p.phase("verify");
	if (p.chosen.verify) {
		const unsigned lines = (n + 255) / 256;
		LAUNCH_ON(fill, 64, 256, v, n, 77);
		LAUNCH_ON(times, lines, 256, v, m[last % count], va, n);
		LAUNCH_ON(times, lines, 256, va, m[(last + 1) % count], vab, n);
		LAUNCH_ON(times, lines, 256, v, m[(last + 2) % count], vc, n);
		verify_report("last product", download(vab, n) != download(vc, n), 0);
	}
	return p.finish(m[(last + 2) % count], entries * sizeof(int));
}
