/* gesummv: y = 1.5 A x + 1.2 B x for two matrices of N x N doubles, a row for each thread (PolyBench's gesummv). Each round
 * takes x rotated by one place more. The result is that of the last round. */
#include "pilot.h"

static const about what = {"Sum of two products of an N x N matrix and a vector.", "multiply", {4096, 8192, 16384}, 1, 1 << 17, FULL, 10000};

static const double alpha = 1.5, beta = 1.2;

__host__ __device__ static double of_a(size_t i) { return unit(i); }
__host__ __device__ static double of_b(size_t i) { return unit(~i); }
__host__ __device__ static double of_x(size_t i) { return unit(i << 40); }

__global__ void fill(double *a, double *b, double *x, size_t n)
{
	for (size_t i = first_item(); i < n * n; i += items_apart()) {
		a[i] = of_a(i);
		b[i] = of_b(i);
		if (i < n)
			x[i] = of_x(i);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* Rows are dealt to blocks in turn, so that few rows reach all SMs. */
__global__ void multiply(const double *a, const double *b, const double *x, double *y, size_t n, long rounds)
{
	for (long r = 0; r < rounds; r++) {
		for (size_t row = threadIdx.x * (size_t)gridDim.x + blockIdx.x; row < n; row += items_apart()) {
			double of_a = 0, of_b = 0;
			for (size_t j = 0, at = r % n; j < n; j++, at = at + 1 < n ? at + 1 : 0) {
				of_a += a[row * n + j] * x[at];
				of_b += b[row * n + j] * x[at];
			}
			y[row] = alpha * of_a + beta * of_b;
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(multiply);

static void verify(const double *y, size_t n, long rounds)
{
	double error = 0;

	for (int sample = 0; sample < 64; sample++) {
		const size_t row = mixed(sample) % n;
		double want = 0;
		for (size_t j = 0; j < n; j++)
			want += (alpha * of_a(row * n + j) + beta * of_b(row * n + j)) * of_x((j + rounds - 1) % n);
		keep_worst(&error, relative_error(peek(y + row), want, 1e-3));
	}
	verify_report("rows", error, 1e-10);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	double *a = p.allocate<double>(n * n, "A");
	double *b = p.allocate<double>(n * n, "B");
	double *x = p.allocate<double>(n, "x");
	double *y = p.allocate<double>(n, "y");
	p.begin(16.0 * n * n);
	LAUNCH(fill, p, a, b, x, n);
	p.phase("kernels");
	LAUNCH(multiply, p, a, b, x, y, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(y, n, p.rounds);
	return p.finish(y, n * sizeof *y);
}
