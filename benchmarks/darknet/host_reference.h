/* host_reference.h: the same network on the host, in double precision and plain loops.
 * It is written from the layers' definitions, not from the kernels. --verify compares
 * with it. */
#ifndef DARKNET_HOST_REFERENCE_H
#define DARKNET_HOST_REFERENCE_H

#include "weights.h"

using reals = std::vector<double>;

class host_network {
public:
	struct bank_values {
		reals biases, scales, means, variances, weights; /* as in parameters */
		reals bias_updates, scale_updates, weight_updates;
		reals batch_means, batch_variances; /* of the last forward pass in training */
		reals output, normalized;
	};
	struct layer_values {
		reals output;
		/* delta is minus the gradient of the loss. backward() turns the delta of the
		 * outputs into the delta of the sums, which are the input of biases and batch
		 * normalization. */
		reals delta;
		reals state; /* rnn */
		std::vector<float> random; /* dropout in training: from the caller, 0 to 1 */
		std::vector<size_t> largest; /* maxpool: input of each output */
		std::vector<bank_values> banks;
	};
	std::vector<layer_values> layers;

	host_network(const network &net, const model &start);

	/* forward computes all outputs of one batch. With a truth it trains: it normalizes
	 * with the batch's own statistics, and the last layer makes loss and delta. */
	void forward(const float *input, const float *truth);
	/* adopt replaces each layer's outputs before backward() by the outputs of another
	 * forward pass, which agree except for rounding. Gradients jump where a leaky sum
	 * passes 0 and where two inputs of a maximum are equal. After adopt both passes are on
	 * the same side of such a jump. */
	void adopt(const std::vector<std::vector<float>> &outputs);
	void backward();
	void update(double rate);
	double loss() const { return loss_; }

private:
	const reals &input_of(size_t i) const { return i ? layers[i - 1].output : input_; }

	const network &net_;
	reals input_;
	double loss_ = 0;
};

#endif
