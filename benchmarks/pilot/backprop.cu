/* backprop: a training step of a perceptron with N inputs, 16 hidden units and one output (Rodinia's backprop). Kernels do
 * the wide layer: sums of weighted inputs, and new weights. The host does the narrow one. Each round trains with the inputs
 * rotated by one place more. The result is the step of the last round.
 *
 * The new weights are an array of their own, so that no kernel writes what it reads. A first step has no momentum. */
#include "pilot.h"

static const about what = {"A training step of a perceptron with N inputs.", "adjust", {65536, 1000000, 3400000}, 16, 1 << 28, FULL, 10000};

enum { HIDDEN = 16, ROW = HIDDEN + 1 };

static const float rate = 0.3f, goal = 0.1f;

/* Row 0 has the biases, and column 0 is not used. */
__host__ __device__ static float input_of(size_t i) { return i == 0 ? 1 : (float)unit(i); }
__host__ __device__ static float weight_of(size_t n, size_t at) { return (float)((2 * unit(~at) - 1) / sqrt((double)n)); }
static float output_weight(int j) { return (float)(2 * unit(1ull << 50 | j) - 1); }

/* rotated is which input comes in the place of i in round r. */
__host__ __device__ static size_t rotated(size_t i, size_t n, size_t shift)
{
	return i == 0 ? 0 : i + shift <= n ? i + shift : i + shift - n;
}

__global__ void fill(float *input, float *weights, float *adjusted, size_t n)
{
	for (size_t at = first_item(); at < (n + 1) * ROW; at += items_apart()) {
		if (at <= n)
			input[at] = input_of(at);
		weights[at] = weight_of(n, at);
		adjusted[at] = 0;
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

/* A thread adds for one hidden unit, and its block adds what its threads have. */
__global__ void forward(const float *input, const float *weights, float *sums, size_t n, long rounds)
{
	__shared__ float shared[1024];
	const unsigned t = threadIdx.x, unit = t % HIDDEN;

	for (long r = 0; r < rounds; r++) {
		float own = 0;
		for (size_t i = first_item() / HIDDEN; i <= n; i += items_apart() / HIDDEN)
			own += input[rotated(i, n, r % n)] * weights[i * ROW + unit + 1];
		shared[t] = own;
		__syncthreads();
		for (unsigned half = blockDim.x / 2; half >= HIDDEN; half /= 2) {
			if (t < half)
				shared[t] += shared[t + half];
			__syncthreads();
		}
		if (t < HIDDEN)
			sums[blockIdx.x * HIDDEN + unit] = shared[t];
		CASE_STOP_POINT_BLOCK();
		__syncthreads();
	}
}
RESTARTABLE(forward);

__global__ void adjust(const float *delta, const float *input, const float *weights, float *adjusted, size_t n, long rounds)
{
	for (long r = 0; r < rounds; r++) {
		for (size_t at = first_item(); at < (n + 1) * ROW; at += items_apart())
			adjusted[at] = weights[at] + rate * delta[at % ROW] * input[rotated(at / ROW, n, r % n)];
		CASE_STOP_POINT();
	}
}
RESTARTABLE(adjust);

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* backward makes the hidden units' deltas from their inputs. */
static void backward(const double sums[ROW], double delta[ROW])
{
	double out = output_weight(0);

	for (int j = 1; j < ROW; j++)
		out += sigmoid(sums[j]) * output_weight(j);
	const double error = sigmoid(out) * (1 - sigmoid(out)) * (goal - sigmoid(out));
	delta[0] = 0;
	for (int j = 1; j < ROW; j++)
		delta[j] = sigmoid(sums[j]) * (1 - sigmoid(sums[j])) * error * output_weight(j);
}

static void verify(const double sums[ROW], const double delta[ROW], const float *adjusted, size_t n, size_t shift)
{
	double want[ROW] = {}, wanted[ROW], error = 0, wrong = 0, largest = 0;

	for (size_t i = 0; i <= n; i++) {
		const double input = input_of(rotated(i, n, shift));
		for (int j = 1; j < ROW; j++)
			want[j] += input * weight_of(n, i * ROW + j);
	}
	backward(want, wanted);
	for (int j = 1; j < ROW; j++) {
		keep_worst(&error, fabs(sums[j] - want[j]));
		keep_worst(&wrong, fabs(delta[j] - wanted[j]));
		largest = fmax(largest, fabs(wanted[j]));
	}
	for (int sample = 0; sample < 2000; sample++) {
		const size_t at = mixed(sample) % ((n + 1) * ROW);
		const double change = rate * wanted[at % ROW] * input_of(rotated(at / ROW, n, shift));
		keep_worst(&wrong, fabs((double)peek(adjusted + at) - weight_of(n, at) - change));
	}
	verify_report("sums", error, 1e-3);
	verify_report("weights relative to the largest change", wrong / largest, 1e-3);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size, weight_count = (n + 1) * ROW, sum_count = (size_t)p.blocks * HIDDEN;
	float *input = p.allocate<float>(n + 1, "inputs");
	float *weights = p.allocate<float>(weight_count, "weights");
	float *adjusted = p.allocate<float>(weight_count, "new weights");
	float *sums = p.allocate<float>(sum_count, "sums");
	float *delta = p.allocate<float>(ROW, "deltas");
	p.begin(216.0 * n);
	LAUNCH(fill, p, input, weights, adjusted, n);
	p.phase("kernels");
	LAUNCH(forward, p, input, weights, sums, n, p.rounds);
	std::vector<float> of_blocks(sum_count);
	copy_to_host(of_blocks.data(), sums, sum_count * sizeof(float));
	double hidden[ROW] = {}, deltas[ROW];
	for (size_t i = 0; i < sum_count; i++)
		hidden[1 + i % HIDDEN] += of_blocks[i];
	backward(hidden, deltas);
	const std::vector<float> for_device(deltas, deltas + ROW);
	copy_to_device(delta, for_device.data(), ROW * sizeof(float));
	LAUNCH(adjust, p, delta, input, weights, adjusted, n, p.rounds);
	p.phase("verify");
	if (p.chosen.verify)
		verify(hidden, deltas, adjusted, n, (p.rounds - 1) % n);
	return p.finish(adjusted, weight_count * sizeof(float));
}
