/* commands.h: the program's subcommands. Each reads all its input files but the
 * images of a list before it touches the device. */
#ifndef DARKNET_COMMANDS_H
#define DARKNET_COMMANDS_H

#include "common/host.h"

#include <stdint.h>

#include <string>
#include <vector>

struct settings {
	options common;
	uint64_t seed; /* of weights, training images and dropout */
	/* detect */
	double threshold;
	/* rnn generate */
	long length;
	uint64_t sampling_seed;
	std::string text;
	double temperature;
};

/* Arguments that are absent are empty. */
int classifier_predict(const std::string &data, const std::string &cfg, const std::string &weights,
                       const std::string &image, const settings &s);
int classifier_train(const std::string &data, const std::string &cfg, const std::string &weights,
                     const settings &s);
int detect(const std::string &cfg, const std::string &weights, const std::string &image, const settings &s);
int rnn_generate(const std::string &cfg, const std::string &weights, const settings &s);

/* image_names gives the one image of the command line, or the lines of standard
 * input, for each of which it prompts as Darknet does. */
class image_names {
public:
	explicit image_names(const std::string &image);
	/* next returns up to `most` names; none at the end. */
	std::vector<std::string> next(size_t most);

private:
	bool next(std::string *name);

	std::string image_;
	const bool prompt_;
};

/* read_names: the names of classes, from a file with one a line. Where there is
 * no file, classes are called "class N"; stderr says so. */
std::vector<std::string> read_names(const std::string &path, size_t classes);

/* Seconds of a clock that only goes forward. */
double now_s();

#endif
