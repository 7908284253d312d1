/* 2dconvol: a 3 x 3 convolution of an N x N matrix of doubles (PolyBench's 2DConvolution). Each round weighs the centre
 * differently. The result is that of the last round. */
#include "pilot.h"

static const about what = {"3 x 3 convolution of an N x N matrix.", "convolve", {252, 8192, 18432}, 3, 1 << 17, FULL, 10000};

__host__ __device__ static double of_a(size_t i) { return unit(i); }
__host__ __device__ static double centre(long r) { return 0.25 * (r % 8); }

/* convolved is element (i, j) of the result. `a` gives an element of the matrix. */
template <typename F> __host__ __device__ static double convolved(F a, size_t n, size_t i, size_t j, double centre)
{
	const size_t up = (i - 1) * n + j, at = i * n + j, down = (i + 1) * n + j;

	return 0.2 * a(up - 1) - 0.3 * a(up) + 0.4 * a(up + 1) + 0.5 * a(at - 1) + centre * a(at) + 0.7 * a(at + 1) -
	       0.8 * a(down - 1) - 0.9 * a(down) + 0.1 * a(down + 1);
}

struct in_memory {
	const double *a;
	__host__ __device__ double operator()(size_t i) const { return a[i]; }
};
struct by_formula {
	__host__ __device__ double operator()(size_t i) const { return of_a(i); }
};

__global__ void fill(double *a, double *b, size_t n)
{
	for (size_t i = first_item(); i < n * n; i += items_apart()) {
		a[i] = of_a(i);
		b[i] = 0;
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* A row at a time for each block. */
__global__ void convolve(const double *a, double *b, size_t n, long rounds)
{
	for (long r = 0; r < rounds; r++) {
		for (size_t i = blockIdx.x + 1; i + 1 < n; i += gridDim.x)
			for (size_t j = threadIdx.x + 1; j + 1 < n; j += blockDim.x)
				b[i * n + j] = convolved(in_memory{a}, n, i, j, centre(r));
		CASE_STOP_POINT();
	}
}
RESTARTABLE(convolve);

static void verify(const double *b, size_t n, long rounds)
{
	double error = 0;

	for (int sample = 0; sample < 2000; sample++) {
		const size_t i = 1 + mixed(sample) % (n - 2), j = 1 + mixed(~sample) % (n - 2);
		keep_worst(&error, fabs(peek(b + i * n + j) - convolved(by_formula{}, n, i, j, centre(rounds - 1))));
	}
	verify_report("elements", error, 1e-12);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	double *a = p.allocate<double>(n * n, "A");
	double *b = p.allocate<double>(n * n, "B");
	p.begin(16.0 * n * n);
	LAUNCH(fill, p, a, b, n);
	p.phase("kernels");
	LAUNCH(convolve, p, a, b, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(b, n, p.rounds);
	return p.finish(b, n * n * sizeof *b);
}
