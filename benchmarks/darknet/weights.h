/* weights.h: the learned numbers of a network, and Darknet's .weights files. */
#ifndef DARKNET_WEIGHTS_H
#define DARKNET_WEIGHTS_H

#include "network.h"

/* The parameters of one bank. scales, means and variances are empty without batch
 * normalization. means and variances are the averages of training. */
struct parameters {
	std::vector<float> biases, scales, means, variances, weights;
};

struct model {
	std::vector<std::vector<parameters>> layers; /* by layer and bank */
	uint64_t seen;                               /* images that it was trained with */
};

/* seeded_model makes a model from a seed: uniform weights of He's variance (arXiv
 * 1502.01852), and other parameters near a new network's. Values keep their size through
 * many layers, and few boxes are detected. */
model seeded_model(const network &net, uint64_t seed);

/* load_model reads `path`. If path is empty, or the file does not exist, it returns a
 * seeded model; stderr says if the file does not exist. A file of the wrong size for the
 * network ends the program. */
model load_model(const network &net, const std::string &path, uint64_t seed);

/* save_model writes a .weights file of version 0.2.0. */
void save_model(const network &net, const model &trained, const std::string &path);

/* weights_bytes returns the size of a .weights file without its header. */
uint64_t weights_bytes(const network &net);

#endif
