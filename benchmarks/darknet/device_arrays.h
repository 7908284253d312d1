/* device_arrays.h: which arrays a network has on the device, and how large they
 * are. One list serves to allocate them and to know the footprint before. */
#ifndef DARKNET_DEVICE_ARRAYS_H
#define DARKNET_DEVICE_ARRAYS_H

#include "network.h"

#include <functional>

struct bank_arrays {
	float *weights, *biases, *scales, *means, *variances;
	float *output; /* rnn: of the banks before its last */
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

/* for_each_array calls visit(purpose, pointer, bytes) for each array that the
 * network needs to predict or to train; pointer is its place in *arrays. */
void for_each_array(const network &net, bool training, device_arrays *arrays,
                    const std::function<void(const char *purpose, void **pointer, size_t bytes)> &visit);

/* cuBLAS gets one workspace of a fixed size, what NVIDIA recommends for the
 * GPUs of compute capability 9.0, so that its choice of algorithms does not
 * depend on what other memory it finds. */
enum : size_t { BLAS_WORKSPACE_BYTES = size_t(32) << 20 };

/* The blocks of every kernel, and the grid for n threads: folded to two
 * dimensions above 65535 blocks, as Darknet's is. */
enum { BLOCK = 512 };
struct grid_size {
	unsigned x, y;
};
grid_size grid_of(size_t n);

/* The kernel of ours that has most threads. */
struct largest_kernel {
	const char *name;
	size_t threads;
};
largest_kernel largest_kernel_of(const network &net, bool training);

/* print_network_footprint writes the line that all programs of the suites write,
 * and one line for each purpose, "  BYTES PURPOSE". */
void print_network_footprint(const network &net, bool training);

uint64_t footprint_bytes(const network &net, bool training);

#endif
