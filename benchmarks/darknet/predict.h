/* predict.h: runs images through a network, batch after batch, for classifier predict and
 * detect. */
#ifndef DARKNET_PREDICT_H
#define DARKNET_PREDICT_H

#include "commands.h"
#include "input.h"
#include "weights.h"

#include <functional>

/* The outputs of each requested layer for the whole batch. */
using asked_outputs = std::vector<std::vector<float>>;

/* predict_images calls use(batch, outputs) for each batch of images, with the outputs of
 * `layers`. It starts the phases "copy in" and "predict", prints their shares, and
 * verifies if the options say so. */
void predict_images(const network &net, const model &start, image_batches *images, const std::vector<size_t> &layers,
                    const settings &s, phase_clock *phase,
                    const std::function<void(const image_batch &, const asked_outputs &)> &use);

#endif
