/* va: the sum of two vectors, in one launch. */
#include "node.h"

static const about what = {"Sum of two vectors of N numbers.", "add", {1000000, 10000000, 100000000}, 1, 1L << 34, FULL, 1000000};

__global__ void add(const float *a, const float *b, float *c, size_t n, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t i = first_item(); i < n; i += items_apart())
			c[i] = a[i] + b[i];
}
KERNEL(add);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t n = p.size;
	float *a = p.allocate<float>(n, "a"), *b = p.allocate<float>(n, "b"), *c = p.allocate<float>(n, "c");
	p.begin(1, 12.0 * n);
	const std::vector<float> of_a = upload(a, n, unit), of_b = upload(b, n, [](size_t i) { return unit(~i); });
	p.phase("kernels");
	STEP(add, p, a, b, c, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<float> got = download(c, n);
		double error = 0;
		for (size_t i = 0; i < n; i++)
			keep_worst(&error, fabs(got[i] - (of_a[i] + of_b[i])));
		verify_report("sums", error, 0);
	}
	return p.finish(c, n * sizeof *c);
}
