/* input.h: the input of predictions: images by name, batch after batch, and the names of
 * classes. */
#ifndef DARKNET_INPUT_H
#define DARKNET_INPUT_H

#include "image.h"

#include <future>

struct image_batch {
	std::vector<std::string> names; /* at most the network's batch */
	std::vector<std::pair<int, int>> sizes; /* width and height of each image before it was fitted */
	std::vector<float> values; /* letterboxed to the network; has the size of a full batch */
};

/* The image of the command line, or the images that standard input names, one on each
 * line. At a terminal it prompts as Darknet does. Otherwise it makes the next batch while
 * the caller works on the current batch. */
class image_batches {
public:
	/* Throws std::runtime_error if `image` is given and bad. */
	image_batches(const network &net, const std::string &image);
	/* next swaps the next batch into *batch. Returns false at the end. Throws if an image
	 * cannot be made. */
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

/* read_names reads the names of classes from a file with one name on each line. Without
 * a file they are "class 0" and so on, and stderr says so. */
std::vector<std::string> read_names(const std::string &path, size_t classes);

#endif
