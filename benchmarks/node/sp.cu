/* sp: scalar products of 512 pairs of vectors, in one launch. */
#include "node.h"

static const about what = {"Scalar products of 512 pairs of vectors with N elements together.", "multiply", {1 << 14, 1 << 17, 1 << 20}, 512,
                           1L << 32, 512, 1L << 24};

enum { PAIRS = 512 };

__global__ void multiply(const float *a, const float *b, float *products, size_t length, long rounds, span *ran)
{
	__shared__ float part[1024];
	const stamped all(ran);

	for (size_t item = blockIdx.x; item < PAIRS * (size_t)rounds; item += gridDim.x) {
		const size_t pair = item % PAIRS;
		float sum = 0;
		for (size_t i = threadIdx.x; i < length; i += blockDim.x)
			sum += a[pair * length + i] * b[pair * length + i];
		part[threadIdx.x] = sum;
		for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
			__syncthreads();
			if (threadIdx.x < half)
				part[threadIdx.x] += part[threadIdx.x + half];
		}
		if (threadIdx.x == 0)
			products[pair] = part[0];
		__syncthreads();
	}
}
KERNEL(multiply);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t length = p.size / PAIRS, n = length * PAIRS;
	float *a = p.allocate<float>(n, "a"), *b = p.allocate<float>(n, "b"), *products = p.allocate<float>(PAIRS, "products");
	p.begin(1, 8.0 * n);
	const std::vector<float> of_a = upload(a, n, unit), of_b = upload(b, n, [](size_t i) { return unit(~i); });
	p.phase("kernels");
	STEP(multiply, p, a, b, products, length, p.rounds);
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<float> got = download(products, PAIRS);
		double error = 0;
		for (size_t pair = 0; pair < PAIRS; pair++) {
			double sum = 0;
			for (size_t i = pair * length; i < (pair + 1) * length; i++)
				sum += (double)of_a[i] * of_b[i];
			keep_worst(&error, relative_error(got[pair], sum, 1));
		}
		verify_report("products", error, 1e-4);
	}
	return p.finish(products, PAIRS * sizeof *products);
}
