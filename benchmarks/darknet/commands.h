/* commands.h: the program's subcommands. Each reads all its input files except images
 * before it uses the device. */
#ifndef DARKNET_COMMANDS_H
#define DARKNET_COMMANDS_H

#include "common/host.h"

#include <stdint.h>

#include <string>

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

/* Missing arguments are empty. */
int classifier_predict(const std::string &data, const std::string &cfg, const std::string &weights,
                       const std::string &image, const settings &s);
int classifier_train(const std::string &data, const std::string &cfg, const std::string &weights,
                     const settings &s);
int detect(const std::string &cfg, const std::string &weights, const std::string &image, const settings &s);
int rnn_generate(const std::string &cfg, const std::string &weights, const settings &s);

/* share_clock adds up the seconds of a repeated part of a phase, and prints them beside
 * the phases. */
class share_clock {
public:
	void start() { since_ = now_s(); }
	void stop() { seconds_ += now_s() - since_; }
	/* print writes "share NAME SECONDS" on stderr. */
	void print(const char *name) const { fprintf(stderr, "share %-14s %9.4f\n", name, seconds_); }

private:
	static double now_s();

	double since_ = 0, seconds_ = 0;
};

#endif
