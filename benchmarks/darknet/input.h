/* input.h: what predictions are made of: images by name, batch after batch, and
 * the names of classes. */
#ifndef DARKNET_INPUT_H
#define DARKNET_INPUT_H

#include "image.h"

#include <future>

struct image_batch {
	std::vector<std::string> names; /* as many as there were, up to the network's batch */
	std::vector<std::pair<int, int>> sizes; /* width and height of each, before it was fitted */
	std::vector<float> values; /* letterboxed to the network; of the full batch */
};

/* The one image of the command line, or those that standard input names, one a
 * line. At a terminal it prompts as Darknet does; otherwise the next batch is
 * made while the caller works on this one. */
class image_batches {
public:
	/* Throws std::runtime_error where `image` is given and bad. */
	image_batches(const network &net, const std::string &image);
	/* next swaps the next batch into *batch; false at the end. Throws
	 * where an image cannot be made. */
	bool next(image_batch *batch);

private:
	bool next_name(std::string *name);
	void make(image_batch *batch);

	const network &net_;
	std::string image_;
	const bool listed_, prompt_;
	image whole_;
	image_batch ahead_;
	std::future<void> making_; /* of ahead_ */
};

/* read_names: the names of classes, from a file with one a line. Where there is
 * no file, they are "class 0" and so on; stderr says so. */
std::vector<std::string> read_names(const std::string &path, size_t classes);

#endif
