/* backprop: one training step of a two-layer perceptron (Rumelhart, Hinton and
 * Williams, "Learning representations by back-propagating errors", 1986).
 *
 * The wide layer, n inputs to 16 hidden units, runs on the device: a forward
 * pass that sums per tile of 16 inputs, and the weight update with momentum.
 * The narrow layer, 16 hidden units to one output, runs on the host.
 *
 * Weights are stored as in the network of the host: row i holds the weights of
 * input i to hidden units 0..16; row 0 is the bias and column 0 is unused. */
#include "common/suite.h"

#include <math.h>
#include <string.h>

static const char usage[] =
	"usage: backprop INPUTS [options]\n"
	"One training step of a network with INPUTS inputs (a multiple of 16; above\n"
	"524288 a multiple of 524288), 16 hidden units and one output.\n";

enum { TILE = 16, HIDDEN = 16, ROW = HIDDEN + 1, MAX_GRID_Y = 32768 };

static const float learning_rate = 0.3f, momentum = 0.3f;

struct network {
	long inputs;
	float *input;     /* [inputs + 1]; entry 0 is the bias, 1 */
	float **weights;  /* [inputs + 1][ROW], one allocation per row */
	float **previous; /* the last update, same shape */
	float hidden[ROW], hidden_delta[ROW];
	float output_weights[ROW], output_previous[ROW];
	float target;
};

/* sum[y][j] += the inputs of this tile times their weights to hidden unit
 * j + 1, in fixed point: integer addition gives the same sum in any order.
 * |tile sum| * scale must leave room for gridDim.x additions in 31 bits. */
__global__ void forward_tiles(const float *input, const float *weights, int *sum, float scale)
{
	__shared__ float node[TILE];
	__shared__ float product[TILE][HIDDEN];
	const unsigned x = threadIdx.x, y = threadIdx.y;
	const size_t tile = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
	const size_t i = tile * TILE + y + 1;

	if (x == 0)
		node[y] = input[i];
	__syncthreads();
	product[y][x] = node[y] * weights[i * ROW + x + 1];
	__syncthreads();
	for (unsigned half = TILE / 2; half > 0; half /= 2) {
		if (y < half)
			product[y][x] += product[y + half][x];
		__syncthreads();
	}
	if (y == 0)
		atomicAdd(&sum[blockIdx.y * HIDDEN + x], __float2int_rn(product[0][x] * scale));
}

__device__ void adjust_weight(float *weight, float *previous, float delta, float node)
{
	float update = learning_rate * delta * node + momentum * *previous;

	*weight += update;
	*previous = update;
}

__global__ void adjust_tiles(const float *delta, const float *input, float *weights,
                             float *previous)
{
	const unsigned x = threadIdx.x, y = threadIdx.y;
	const size_t tile = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
	const size_t i = tile * TILE + y + 1, at = i * ROW + x + 1;

	adjust_weight(&weights[at], &previous[at], delta[x + 1], input[i]);
	if (tile == 0 && y == 0)
		adjust_weight(&weights[x + 1], &previous[x + 1], delta[x + 1], 1);
}

static footprint footprint_of(long inputs)
{
	const uint64_t nodes = inputs + 1, tiles = inputs / TILE;
	const unsigned grid_y = tiles < MAX_GRID_Y ? (unsigned)tiles : (unsigned)MAX_GRID_Y;
	footprint need;

	need.bytes = (nodes + 2 * nodes * ROW + (uint64_t)grid_y * HIDDEN + 2 * ROW) * sizeof(float);
	need.kernel = "adjust_tiles";
	need.grid = dim3((unsigned)(tiles / grid_y), grid_y);
	need.block = dim3(HIDDEN, TILE);
	return need;
}

static float **make_rows(long rows, const char *name)
{
	float **table = host_alloc<float *>(rows, name);

	for (long i = 0; i < rows; i++)
		table[i] = host_alloc<float>(ROW, name);
	return table;
}

static void free_rows(float **table, long rows)
{
	for (long i = 0; i < rows; i++)
		free(table[i]);
	free(table);
}

/* Weights are drawn from ±1/sqrt(n), so that the hidden units do not saturate
 * (LeCun et al., "Efficient BackProp", 1998). */
static network make_network(long inputs)
{
	network net;
	c_random random(7);
	const float range = 1 / sqrtf(inputs);

	net.inputs = inputs;
	net.input = host_alloc<float>(inputs + 1, "input units");
	net.weights = make_rows(inputs + 1, "weights");
	net.previous = make_rows(inputs + 1, "previous weights");
	for (long i = 0; i <= inputs; i++)
		for (int j = 0; j < ROW; j++)
			net.weights[i][j] = range * (float)(2 * random.uniform() - 1);
	for (long i = 0; i <= inputs; i++)
		memset(net.previous[i], 0, ROW * sizeof(float));
	for (int j = 0; j < ROW; j++) {
		net.output_weights[j] = (float)(2 * random.uniform() - 1);
		net.output_previous[j] = 0;
	}
	net.target = 0.1f;
	net.input[0] = 1;
	for (long i = 1; i <= inputs; i++)
		net.input[i] = (float)random.uniform();
	return net;
}

static float *flatten(float **rows, long count, const char *name)
{
	float *flat = host_alloc<float>((size_t)count * ROW, name);

	for (long i = 0; i < count; i++)
		for (int j = 0; j < ROW; j++)
			flat[(size_t)i * ROW + j] = rows[i][j];
	return flat;
}

static float sigmoid(double sum)
{
	return (float)(1 / (1 + exp(-sum)));
}

/* hidden_activation adds the tiles' sums and the bias. */
static void hidden_activation(network *net, const int *sums, unsigned grid_y, float scale)
{
	net->hidden[0] = 1;
	for (int j = 1; j < ROW; j++) {
		long long total = 0;
		for (unsigned y = 0; y < grid_y; y++)
			total += sums[(size_t)y * HIDDEN + j - 1];
		net->hidden[j] = sigmoid(total / (double)scale + net->weights[0][j]);
	}
}

/* train_output runs the narrow layer forward and back: it leaves the hidden
 * units' error in hidden_delta and updates the output weights. Returns the
 * output unit's error. */
static float train_output(network *net)
{
	double sum = 0;

	for (int j = 0; j < ROW; j++)
		sum += net->hidden[j] * net->output_weights[j];
	const float output = sigmoid(sum);
	const float delta = output * (1 - output) * (net->target - output);

	for (int j = 0; j < ROW; j++)
		net->hidden_delta[j] =
			net->hidden[j] * (1 - net->hidden[j]) * delta * net->output_weights[j];
	for (int j = 0; j < ROW; j++) {
		float update = learning_rate * delta * net->hidden[j] + momentum * net->output_previous[j];
		net->output_weights[j] += update;
		net->output_previous[j] = update;
	}
	return delta;
}

/* verify recomputes the step in double precision from the host's own rows, which the device
 * does not change. */
static void verify(const network &net, const float *updated, const float *start_output_weights)
{
	double hidden[ROW] = {1}, delta[ROW], sum = start_output_weights[0];
	double hidden_error = 0, weight_error = 0;

	for (int j = 1; j < ROW; j++) {
		double in = net.weights[0][j];
		for (long i = 1; i <= net.inputs; i++)
			in += (double)net.input[i] * net.weights[i][j];
		hidden[j] = 1 / (1 + exp(-in));
		sum += hidden[j] * start_output_weights[j];
		keep_worst(&hidden_error, fabs(net.hidden[j] - hidden[j]));
	}
	const double output = 1 / (1 + exp(-sum));
	const double output_delta = output * (1 - output) * (net.target - output);
	for (int j = 1; j < ROW; j++)
		delta[j] = hidden[j] * (1 - hidden[j]) * output_delta * start_output_weights[j];
	double largest = 0;
	for (long i = 0; i <= net.inputs; i++)
		for (int j = 1; j < ROW; j++) {
			double update = 0.3 * delta[j] * net.input[i];
			double got = (double)updated[(size_t)i * ROW + j] - net.weights[i][j];
			largest = fmax(largest, fabs(update));
			keep_worst(&weight_error, fabs(got - update));
		}
	verify_report("hidden units", hidden_error, 1e-4);
	verify_report("weight updates relative to the largest", weight_error / largest, 1e-3);
}

int main(int argc, char **argv)
{
	const options opts = take_options(&argc, argv, usage);
	if (argc != 2)
		usage_error(usage);
	const long inputs = parse_int(argv[1], "INPUTS", TILE, 1L << 30);
	const footprint need = footprint_of(inputs);
	const unsigned grid_y = need.grid.y;
	if (inputs % (TILE * (long)grid_y))
		die(EXIT_INPUT, "INPUTS is %ld, want a multiple of %ld", inputs, TILE * (long)grid_y);
	if (opts.footprint) {
		print_footprint(need);
		return EXIT_OK;
	}

	phase_clock phase(opts.phases);
	phase.start("create");
	network net = make_network(inputs);
	float start_output_weights[ROW];
	memcpy(start_output_weights, net.output_weights, sizeof start_output_weights);

	phase.start("flatten");
	const long nodes = inputs + 1;
	const size_t weight_count = (size_t)nodes * ROW;
	float *weights = flatten(net.weights, nodes, "flat weights");
	float *previous = flatten(net.previous, nodes, "flat previous weights");
	int *sums = host_alloc<int>((size_t)grid_y * HIDDEN, "tile sums");

	phase.start("device");
	float *d_input = device_alloc<float>(nodes, "input units");
	float *d_hidden = device_alloc<float>(ROW, "hidden units");
	float *d_weights = device_alloc<float>(weight_count, "weights");
	int *d_sums = device_alloc<int>((size_t)grid_y * HIDDEN, "tile sums");
	copy_to_device(d_input, net.input, nodes * sizeof(float));
	copy_to_device(d_weights, weights, weight_count * sizeof(float));
	GPU(cudaMemset(d_sums, 0, (size_t)grid_y * HIDDEN * sizeof(int)));
	/* A tile's sum is at most TILE / sqrt(n); the scale allows twice as much. */
	const float scale = ldexpf(1, 30) / (TILE * need.grid.x) * sqrtf(inputs);
	forward_tiles<<<need.grid, need.block>>>(d_input, d_weights, d_sums, scale);
	GPU_LAUNCHED("forward_tiles");
	copy_to_host(sums, d_sums, (size_t)grid_y * HIDDEN * sizeof(int));

	hidden_activation(&net, sums, grid_y, scale);
	const float output_delta = train_output(&net);

	float *d_delta = device_alloc<float>(ROW, "hidden deltas");
	float *d_previous = device_alloc<float>(weight_count, "previous weights");
	copy_to_device(d_delta, net.hidden_delta, ROW * sizeof(float));
	copy_to_device(d_previous, previous, weight_count * sizeof(float));
	copy_to_device(d_weights, weights, weight_count * sizeof(float));
	adjust_tiles<<<need.grid, need.block>>>(d_delta, d_input, d_weights, d_previous);
	GPU_LAUNCHED("adjust_tiles");
	copy_to_host(net.input, d_input, nodes * sizeof(float));
	copy_to_host(weights, d_weights, weight_count * sizeof(float));
	device_free(d_input);
	device_free(d_hidden);
	device_free(d_weights);
	device_free(d_sums);
	device_free(d_previous);
	device_free(d_delta);
	check_footprint(need);

	phase.start("result");
	print_checksum(checksum(weights, weight_count * sizeof(float), checksum(net.hidden, sizeof net.hidden)));
	printf("output error %.9g\n", output_delta);
	if (opts.out) {
		FILE *file = open_output(opts.out);
		for (size_t i = 0; i < weight_count; i++)
			fprintf(file, "%.9g%c", weights[i], i % ROW == HIDDEN ? '\n' : ' ');
		close_output(file, opts.out);
	}
	if (opts.verify)
		verify(net, weights, start_output_weights);

	phase.start("tear-down");
	free(sums);
	free(weights);
	free(previous);
	free_rows(net.weights, nodes);
	free_rows(net.previous, nodes);
	free(net.input);
	phase.finish();
	return EXIT_OK;
}
