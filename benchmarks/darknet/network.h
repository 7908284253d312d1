/* network.h: the shape of a network, read from its .cfg file before anything is allocated.
 * Values of a layer are float32, by image, channel, row and column. */
#ifndef DARKNET_NETWORK_H
#define DARKNET_NETWORK_H

#include "cfg.h"

#include <stdint.h>

enum class layer_kind {
	convolutional, connected, maxpool, avgpool, shortcut, route, upsample, reorg, yolo, region, rnn, softmax, cost,
	dropout
};

const char *kind_name(layer_kind kind);

enum class activation { linear, leaky, logistic, relu, tanh };

/* The parameters' shape of convolutional, connected and recurrent layers: `filters` rows
 * of `inputs` weights, a bias for each filter, and the batch normalization of each
 * filter's sums. */
struct bank {
	int filters, inputs;
	bool normalize;
	activation act;
	size_t weights() const { return size_t(filters) * inputs; }
};

struct layer {
	layer_kind kind;
	int line;                /* the section's line, for messages */
	int w, h, c;             /* of its input */
	int out_w, out_h, out_c; /* of its output */
	int size, stride, pad, groups; /* shortcut: stride of the samples that it takes of `from` */
	activation act;            /* of a shortcut */
	std::vector<int> from;     /* shortcut: 1 layer; route: all, in order */
	std::vector<int> mask;     /* heads: the anchors that it predicts */
	std::vector<float> anchors; /* heads: width and height of all, in pixels of the network */
	int classes;
	float temperature, probability, scale;
	std::vector<bank> banks; /* rnn: input, state and output; else at most 1 */

	size_t inputs() const { return size_t(w) * h * c; }
	size_t outputs() const { return size_t(out_w) * out_h * out_c; }
	size_t spatial() const { return size_t(out_w) * out_h; }
	/* A head predicts boxes: boxes.h. */
	bool is_head() const { return kind == layer_kind::yolo || kind == layer_kind::region; }
	/* A convolution of 1x1 multiplies the image itself. */
	bool needs_columns() const { return size != 1 || stride != 1 || pad != 0; }
	size_t columns() const { return spatial() * size * size * (c / groups); }
};

enum class rate_policy { constant, poly, steps };

struct network {
	std::string file;
	int w, h, c;          /* of an image */
	int batch;            /* images of one forward pass: [net]'s batch / subdivisions */
	int subdivisions;     /* passes between two updates */
	double momentum, decay;
	double learning_rate, power;
	rate_policy policy;
	std::vector<long> steps;
	std::vector<double> scales;
	int burn_in;
	long max_batches;
	int max_crop, min_crop; /* augmentation: see image.h */
	double angle, aspect, saturation, exposure, hue;
	std::vector<layer> layers;

	size_t inputs() const { return size_t(w) * h * c; }
	size_t outputs() const { return layers.back().outputs(); }
};

network read_network(const std::string &path);

/* require_trainable ends the program if the network has a layer that only predicts, or
 * has no loss. */
void require_trainable(const network &net);

/* rate_at: Darknet's learning rate of update number `update`, from 1. */
double rate_at(const network &net, long update);

#endif
