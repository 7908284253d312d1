/* device_network.h: a network on the device: its arrays, and the passes over its
 * layers. */
#ifndef DARKNET_DEVICE_NETWORK_H
#define DARKNET_DEVICE_NETWORK_H

#include "blas.h"
#include "device_arrays.h"
#include "weights.h"

#include <memory>

class device_network {
public:
	/* Allocates, and copies the model in. seed is dropout's. */
	device_network(const network &net, const model &start, bool training, uint64_t seed);
	~device_network();
	device_network(const device_network &) = delete;
	device_network &operator=(const device_network &) = delete;

	/* predict computes all outputs of one batch of images. */
	void predict(const float *images);
	/* train makes one forward and backward pass and returns the sum of the
	 * losses. Updates add up until update(). */
	double train(const float *images, const float *truths);
	void update(double rate);

	/* Copies from the device. */
	std::vector<float> output(size_t layer) const;
	void read_output(size_t layer, std::vector<float> *to) const;
	model learned() const;
	std::vector<float> values(const float *device, size_t count) const;
	const layer_arrays &arrays(size_t layer) const { return arrays_.layers[layer]; }

private:
	void forward();
	void backward();
	void forward_bank(const bank &b, const bank_arrays &a, size_t spatial, float *values);
	void backward_bank(const bank &b, const bank_arrays &a, size_t spatial, const float *output, float *delta);
	void forward_convolutional(const layer &l, const layer_arrays &a, const float *input);
	void backward_convolutional(const layer &l, const layer_arrays &a, const float *input, float *input_delta);
	void forward_connected(const bank &b, const bank_arrays &a, const float *input, float *output);
	void backward_connected(const layer &l, const layer_arrays &a, const float *input, float *input_delta);
	void forward_rnn(const layer &l, const layer_arrays &a, const float *input);
	void make_loss(const layer &l, const layer_arrays &a);
	const float *input_of(size_t i) const { return i ? arrays_.layers[i - 1].output : arrays_.input; }

	const network &net_;
	const bool training_;
	device_arrays arrays_;
	std::unique_ptr<blas> blas_;
	std::unique_ptr<device_random> random_;
};

#endif
