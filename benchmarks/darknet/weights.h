/* weights.h: the learned numbers of a network, and Darknet's .weights files. */
#ifndef DARKNET_WEIGHTS_H
#define DARKNET_WEIGHTS_H

#include "network.h"

/* Of one bank. scales, means and variances are empty without batch
 * normalization; means and variances are the averages of training. */
struct parameters {
	std::vector<float> biases, scales, means, variances, weights;
};

struct model {
	std::vector<std::vector<parameters>> layers; /* by layer and bank */
	uint64_t seen;                               /* images that it was trained with */
};

/* seeded_model makes the numbers up: uniform weights of He's variance (arXiv
 * 1502.01852), the other numbers around those of a new network, and such that
 * values keep their size through many layers and few boxes are detected. */
model seeded_model(const network &net, uint64_t seed);

/* load_model reads `path`. Where the file does not exist, and where path is
 * empty, it makes a seeded model; the first it says on stderr. A file of
 * another size than the network needs ends the program. */
model load_model(const network &net, const std::string &path, uint64_t seed);

/* save_model writes a .weights file of version 0.2.0. */
void save_model(const network &net, const model &trained, const std::string &path);

/* weights_bytes: of a .weights file, without its header. */
uint64_t weights_bytes(const network &net);

#endif
