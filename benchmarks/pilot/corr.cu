/* corr: the correlation of N variables in N observations, in double precision (PolyBench's correlation). The data is not
 * centred in place: no kernel writes what it reads. All rounds compute the same. */
#include "pilot.h"

static const about what = {"Correlation matrix of N variables with N observations each.", "correlate", {2048, 4096, 8192}, 2, 1 << 16,
                           FULL * 63 / 100, 100};

/* Variables that share a source correlate. */
__host__ __device__ static double datum(size_t n, size_t row, size_t variable)
{
	return unit(row * n + variable) + unit(~(row * n + variable % 7));
}

__global__ void fill(double *data, size_t n)
{
	for (size_t i = first_item(); i < n * n; i += items_apart()) {
		data[i] = datum(n, i / n, i % n);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

__global__ void moments(const double *data, double *mean, double *deviation, size_t n)
{
	for (size_t v = first_item(); v < n; v += items_apart()) {
		double sum = 0, squares = 0;
		for (size_t row = 0; row < n; row++)
			sum += data[row * n + v];
		for (size_t row = 0; row < n; row++) {
			const double off = data[row * n + v] - sum / n;
			squares += off * off;
		}
		mean[v] = sum / n;
		deviation[v] = sqrt(squares / n);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(moments);

/* One pair of variables for each thread. */
__global__ void correlate(const double *data, const double *mean, const double *deviation, double *matrix, size_t n, long rounds)
{
	for (size_t item = first_item(); item < n * n * rounds; item += items_apart()) {
		const size_t pair = item % (n * n), v = pair / n, w = pair % n;
		if (w >= v) {
			double sum = 0;
			for (size_t row = 0; row < n; row++)
				sum += (data[row * n + v] - mean[v]) * (data[row * n + w] - mean[w]);
			matrix[v * n + w] = matrix[w * n + v] = sum / (n * deviation[v] * deviation[w]);
		}
		CASE_STOP_POINT();
	}
}
RESTARTABLE(correlate);

static void verify(const double *matrix, size_t n)
{
	double error = 0;

	for (int sample = 0; sample < 32; sample++) {
		const size_t v = mixed(sample) % n, w = sample % 4 == 0 ? (v + 7) % n : mixed(~sample) % n;
		double sum[2] = {0, 0}, products[3] = {0, 0, 0};
		for (size_t row = 0; row < n; row++) {
			sum[0] += datum(n, row, v);
			sum[1] += datum(n, row, w);
		}
		for (size_t row = 0; row < n; row++) {
			const double x = datum(n, row, v) - sum[0] / n, y = datum(n, row, w) - sum[1] / n;
			products[0] += x * x;
			products[1] += x * y;
			products[2] += y * y;
		}
		keep_worst(&error, fabs(peek(matrix + v * n + w) - products[1] / sqrt(products[0] * products[2])));
		keep_worst(&error, fabs(peek(matrix + w * n + v) - products[1] / sqrt(products[0] * products[2])));
	}
	verify_report("coefficients", error, 1e-10);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size;
	double *data = p.allocate<double>(n * n, "data");
	double *mean = p.allocate<double>(n, "means");
	double *deviation = p.allocate<double>(n, "deviations");
	double *matrix = p.allocate<double>(n * n, "matrix");
	p.begin(4.0 * n * n * n); /* from the cache */
	LAUNCH(fill, p, data, n);
	p.phase("kernels");
	LAUNCH(moments, p, data, mean, deviation, n);
	LAUNCH(correlate, p, data, mean, deviation, matrix, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(matrix, n);
	return p.finish(matrix, n * n * sizeof *matrix);
}
