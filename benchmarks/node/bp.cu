/* bp: training of 20 networks with N inputs and 16 hidden units, each with one example in two launches: the sums of the hidden units,
 * and the weights after the example. */
#include "node.h"

static const about what = {"Training of 20 networks with N inputs.", "adjust", {256, 4096, 65536}, 1, 1L << 24, FULL, 1000000};

enum { NETWORKS = 20, HIDDEN = 16 };

__global__ void forward(const float *inputs, const float *weights, float *sums, size_t n, long rounds, span *ran)
{
	__shared__ float part[1024];
	const stamped all(ran);

	for (size_t item = blockIdx.x; item < HIDDEN * (size_t)rounds; item += gridDim.x) {
		const size_t hidden = item % HIDDEN;
		float sum = 0;
		for (size_t i = threadIdx.x; i < n; i += blockDim.x)
			sum += inputs[i] * weights[i * HIDDEN + hidden];
		part[threadIdx.x] = sum;
		for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
			__syncthreads();
			if (threadIdx.x < half)
				part[threadIdx.x] += part[threadIdx.x + half];
		}
		if (threadIdx.x == 0)
			sums[hidden] = part[0];
		__syncthreads();
	}
}
KERNEL(forward);

__global__ void adjust(const float *inputs, const float *weights, const float *deltas, float *adjusted, size_t n, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t i = first_item(); i < n * HIDDEN; i += items_apart())
			adjusted[i] = weights[i] + 0.3f * deltas[i % HIDDEN] * inputs[i / HIDDEN];
}
KERNEL(adjust);

/* delta is the error of a hidden unit with this sum, whose output should be 0.1. */
static double delta(double sum)
{
	const double out = 1 / (1 + exp(-sum));
	return out * (1 - out) * (0.1 - out);
}

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const size_t n = p.size, weights = n * HIDDEN;
	float *inputs = p.allocate<float>(n, "inputs"), *before = p.allocate<float>(NETWORKS * weights, "weights"),
	      *after = p.allocate<float>(NETWORKS * weights, "new weights"), *sums = p.allocate<float>(HIDDEN, "sums"), *deltas = p.allocate<float>(HIDDEN, "errors");
	p.begin(NETWORKS * 2, 6.0 * weights);
	const std::vector<float> in = upload(inputs, n, unit), old = upload(before, NETWORKS * weights, [n](size_t i) { return (unit(~i) - 0.5) / sqrt(n); });
	p.phase("kernels");
	for (size_t k = 0; k < NETWORKS; k++) {
		STEP(forward, p, inputs, before + k * weights, sums, n, p.rounds);
		const std::vector<float> got = download(sums, HIDDEN);
		upload(deltas, HIDDEN, [&](size_t h) { return delta(got[h]); });
		STEP(adjust, p, inputs, before + k * weights, deltas, after + k * weights, n, p.rounds);
	}
	p.phase("verify");
	if (p.chosen.verify) {
		const std::vector<float> got = download(after, NETWORKS * weights);
		double error = 0;
		for (size_t k = 0; k < NETWORKS; k++)
			for (size_t h = 0; h < HIDDEN; h++) {
				double sum = 0;
				for (size_t i = 0; i < n; i++)
					sum += (double)in[i] * old[k * weights + i * HIDDEN + h];
				for (size_t i = 0; i < n; i++)
					keep_worst(&error, fabs(got[k * weights + i * HIDDEN + h] - (old[k * weights + i * HIDDEN + h] + 0.3 * delta(sum) * in[i])));
			}
		verify_report("weights", error, 1e-5);
	}
	return p.finish(after, NETWORKS * weights * sizeof *after);
}
