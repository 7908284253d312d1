/* image.h: reads images from files, makes them from seeds, and fits them to a network.
 * Values are from 0 to 1, by channel (red, green, blue), row and column. An image that
 * cannot be made throws std::runtime_error, because images are made in other threads than
 * the thread that uses the device. */
#ifndef DARKNET_IMAGE_H
#define DARKNET_IMAGE_H

#include "network.h"

struct image {
	int w = 0, h = 0, c = 0;
	std::vector<float> values;

	/* reshape leaves the values undefined, and allocates only if the image grows. */
	void reshape(int width, int height, int channels);
	float *row(int channel, int y) { return &values[(size_t(channel) * h + y) * w]; }
	const float *row(int channel, int y) const { return &values[(size_t(channel) * h + y) * w]; }
};

/* load_image: a PNG, JPEG or BMP file, or the synthetic image that
 * "gen:WIDTHxHEIGHT:SEED" names. channels is 1 or 3. */
void load_image(const std::string &name, int channels, image *to);

/* check_image_name throws if `name` is a bad gen: name or names no file. It does not read
 * the file. */
void check_image_name(const std::string &name);

/* synthesize makes tiles of one colour from the seed `pattern`, with noise from the seed
 * `noise`. Images of one pattern are alike. */
void synthesize(int w, int h, int c, uint64_t pattern, uint64_t noise, image *to);

/* letterbox scales the image into the middle of w x h and keeps its aspect. The borders
 * are 0.5. */
void letterbox(const image &from, int w, int h, float *to);

/* augment makes a random crop of an image with the net's size, as Darknet does to train a
 * classifier. It
 * - scales the shorter side to min_crop to max_crop pixels;
 * - turns by up to `angle` degrees and stretches by up to `aspect`;
 * - may mirror;
 * - changes hue, saturation and exposure. */
void augment(const image &from, const network &net, uint64_t seed, float *to);

/* An index file of training images. An image's labels are the lines of `labels` that its
 * path contains. Without files both are made up. */
class training_set {
public:
	training_set(const cfg_section &data, const network &net, uint64_t seed);
	size_t size() const;
	/* batch makes the images and one-hot truths of forward pass number `pass`. */
	void batch(uint64_t pass, float *images, float *truths) const;

private:
	size_t label_of(const std::string &path) const;

	const network &net_;
	uint64_t seed_;
	std::vector<std::string> paths_, labels_;
};

#endif
