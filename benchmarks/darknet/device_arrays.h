/* device_arrays.h: the arrays of a network on the device, and their sizes. Allocation and
 * footprint use the same list. */
#ifndef DARKNET_DEVICE_ARRAYS_H
#define DARKNET_DEVICE_ARRAYS_H

#include "network.h"

#include <functional>

struct bank_arrays {
	float *weights, *biases, *scales, *means, *variances;
	float *output; /* rnn: of all banks except the last */
	/* Training only. sums are the bank's sums before normalization. */
	float *weight_updates, *bias_updates, *scale_updates;
	float *sums, *normalized;
	float *batch_means, *batch_variances, *mean_deltas, *variance_deltas;
};

struct layer_arrays {
	float *output;
	float *state; /* rnn */
	/* Training only. */
	float *delta;
	float *random; /* dropout */
	float *losses; /* of the last layer */
	int *largest;  /* maxpool: input of each output */
	bank_arrays banks[3];
};

struct device_arrays {
	std::vector<layer_arrays> layers;
	float *input, *truth, *columns, *blas_workspace;
};

/* for_each_array calls visit(purpose, pointer, bytes) for each array that the network
 * needs to predict or to train. pointer points to the array's member of *arrays. */
void for_each_array(const network &net, bool training, device_arrays *arrays,
                    const std::function<void(const char *purpose, void **pointer, size_t bytes)> &visit);

/* cuBLAS gets one workspace of a fixed size, so that its choice of algorithms does not
 * depend on other free memory. NVIDIA recommends this size for compute capability 9.0. */
enum : size_t { BLAS_WORKSPACE_BYTES = size_t(32) << 20 };

/* The block of every kernel, and the grid for n threads. Above 65535 blocks the grid is
 * folded to two dimensions, as in Darknet. */
enum { BLOCK = 512 };
struct grid_size {
	unsigned x, y;
};
grid_size grid_of(size_t n);

/* Our kernel with the most threads. */
struct largest_kernel {
	const char *name;
	size_t threads;
};
largest_kernel largest_kernel_of(const network &net, bool training);

/* print_network_footprint writes the line that every program of the suites writes, and a
 * line "  BYTES PURPOSE" for each purpose. */
void print_network_footprint(const network &net, bool training);

uint64_t footprint_bytes(const network &net, bool training);

#endif
