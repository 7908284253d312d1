/* gaussian: elimination of N equations in floats (Rodinia's gaussian). The two matrices are read and written in turn, so
 * that no kernel writes what it reads: row i is final in matrix i % 2. Rounds repeat the elimination. */
#include "pilot.h"

static const about what = {"Gaussian elimination of N equations.", "eliminate", {4096, 8192, 12288}, 2, 1 << 17, FULL, 1};

/* The diagonal is large: no pivots are needed. */
__host__ __device__ static float of_a(size_t n, size_t i, size_t j) { return i == j ? (float)n : (float)unit(i * n + j) - 0.5f; }
__host__ __device__ static float solution(size_t j) { return 1 + (float)(j % 8) / 8; }

/* The right side is that of the solution. Its sum is exact: in double, of numbers with few bits. */
__global__ void fill(float *a, float *right, size_t n)
{
	for (size_t i = blockIdx.x; i < n; i += gridDim.x) {
		for (size_t j = threadIdx.x; j < n; j += blockDim.x)
			a[i * n + j] = of_a(n, i, j);
		if (threadIdx.x == 0) {
			double sum = 0;
			for (size_t j = 0; j < n; j++)
				sum += (double)of_a(n, i, j) * solution(j);
			right[i] = (float)sum;
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* Step k: `to` has the rows below k, without unknown k. */
__global__ void eliminate(const float *from, const float *right_from, float *to, float *right_to, size_t n, size_t k)
{
	for (size_t i = k + 1 + blockIdx.x; i < n; i += gridDim.x) {
		const float times = from[i * n + k] / from[k * n + k];
		for (size_t j = k + 1 + threadIdx.x; j < n; j += blockDim.x)
			to[i * n + j] = from[i * n + j] - times * from[k * n + j];
		if (threadIdx.x == 0)
			right_to[i] = right_from[i] - times * right_from[k];
		CASE_STOP_POINT();
	}
}
RESTARTABLE(eliminate);

/* Of a row i of the result only the diagonal and what is right of it is left, and the solution solves it. */
static void verify(float *const a[2], float *const right[2], size_t n)
{
	std::vector<float> row(n);
	double error = 0;

	for (int sample = 0; sample < 64; sample++) {
		const size_t i = sample == 0 ? n - 1 : mixed(sample) % n;
		copy_to_host(row.data(), a[i % 2] + i * n, n * sizeof(float));
		double sum = 0;
		for (size_t j = i; j < n; j++)
			sum += (double)row[j] * solution(j);
		keep_worst(&error, relative_error(peek(right[i % 2] + i), sum, 1e-3));
	}
	verify_report("rows", error, 2e-5);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	float *a[2] = {p.allocate<float>(n * n, "matrix"), p.allocate<float>(n * n, "other matrix")};
	float *right[2] = {p.allocate<float>(n, "right side"), p.allocate<float>(n, "other right side")};
	p.begin(8.0 * n * n * n / 3);
	GPU(cudaMemset(right[1], 0, sizeof(float))); // no step writes the first, which counts for the checksum
	for (long r = 0; r < p.rounds; r++) {
		p.phase("set up");
		LAUNCH(fill, p, a[0], right[0], n);
		p.phase("kernels");
		for (size_t k = 0; k + 1 < n; k++)
			LAUNCH(eliminate, p, a[k % 2], right[k % 2], a[(k + 1) % 2], right[(k + 1) % 2], n, k);
	}
	p.phase("verify");
	if (p.chosen.verify)
		verify(a, right, n);
	return p.finish(right[(n - 1) % 2], n / 2 * 2 * sizeof(float));
}
