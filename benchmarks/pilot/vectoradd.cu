/* vectoradd: c = a + b for vectors of floats, of 0.5 GB together. Each round takes b rotated by one place more. The
 * result is that of the last round. */
#include "pilot.h"

static const about what = {"Sum of two vectors. The size is the bytes of the three vectors.", "add", {128 << 20, 256 << 20, 512 << 20}, 12,
                           1L << 37, FULL, 10000};

__host__ __device__ static float of_a(size_t i) { return (float)unit(i); }
__host__ __device__ static float of_b(size_t i) { return (float)unit(~i); }

__global__ void fill(float *a, float *b, size_t n)
{
	for (size_t i = first_item(); i < n; i += items_apart()) {
		a[i] = of_a(i);
		b[i] = of_b(i);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

__global__ void add(const float *a, const float *b, float *c, size_t n, long rounds)
{
	for (long r = 0; r < rounds; r++) {
		const size_t shift = r % n;
		for (size_t i = first_item(); i < n; i += items_apart())
			c[i] = a[i] + b[i + shift < n ? i + shift : i + shift - n];
		CASE_STOP_POINT();
	}
}
RESTARTABLE(add);

static void verify(const float *c, size_t n, long rounds)
{
	double error = 0;

	for (int sample = 0; sample < 2000; sample++) {
		const size_t i = mixed(sample) % n;
		keep_worst(&error, fabs(peek(c + i) - (of_a(i) + of_b((i + rounds - 1) % n))));
	}
	verify_report("elements", error, 0);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size / (3 * sizeof(float));
	float *a = p.allocate<float>(n, "a");
	float *b = p.allocate<float>(n, "b");
	float *c = p.allocate<float>(n, "c");
	p.begin(12.0 * n);
	LAUNCH(fill, p, a, b, n);
	p.phase("kernels");
	LAUNCH(add, p, a, b, c, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(c, n, p.rounds);
	return p.finish(c, n * sizeof *c);
}
