#include "commands.h"

#include <string.h>
#include <time.h>

#include <stdexcept>
#include <vector>

static const char usage[] =
	"usage: darknet classifier predict DATA CFG [WEIGHTS] [IMAGE] [options]\n"
	"       darknet classifier train DATA CFG [WEIGHTS] [options]\n"
	"       darknet detect CFG WEIGHTS [IMAGE] [-thresh T] [options]\n"
	"       darknet rnn generate CFG WEIGHTS [-len N] [-srand S] [-seed TEXT] [-temp T]\n"
	"                            [options]\n"
	"Runs neural networks that Darknet's .cfg files describe, on one GPU. Without\n"
	"IMAGE, names of images come on standard input, one a line; gen:WIDTHxHEIGHT:SEED\n"
	"is a synthetic one. A missing WEIGHTS file is made up from --seed.\n"
	"  -thresh T     least chance of a box (0.5)\n"
	"  -len N        symbols to generate (1000)\n"
	"  -srand S      seed of the choice of symbols (0)\n"
	"  -seed TEXT    text to go on from (two newlines)\n"
	"  -temp T       temperature of the choice of symbols (0.7)\n"
	"  --seed N      seed of weights and training images (7)\n";

/* take_setting returns whether argv[i] is one of our options with a value, and keeps the
 * value. */
static bool take_setting(const char *name, const char *value, settings *s)
{
	if (!strcmp(name, "-thresh"))
		s->threshold = parse_real(value, name);
	else if (!strcmp(name, "-len"))
		s->length = parse_int(value, name, 0, 1000000000);
	else if (!strcmp(name, "-srand"))
		s->sampling_seed = parse_int(value, name, 0, INT64_MAX);
	else if (!strcmp(name, "-seed"))
		s->text = value;
	else if (!strcmp(name, "-temp"))
		s->temperature = parse_real(value, name);
	else if (!strcmp(name, "--seed"))
		s->seed = parse_int(value, name, 0, INT64_MAX);
	else
		return false;
	return true;
}

static int run(std::vector<std::string> words, const settings &s)
{
	const size_t count = words.size();

	words.resize(7);
	if (words[0] == "classifier" && words[1] == "predict" && count >= 4 && count <= 6)
		return classifier_predict(words[2], words[3], words[4], words[5], s);
	if (words[0] == "classifier" && words[1] == "train" && count >= 4 && count <= 5)
		return classifier_train(words[2], words[3], words[4], s);
	if (words[0] == "detect" && count >= 3 && count <= 4)
		return detect(words[1], words[2], words[3], s);
	if (words[0] == "rnn" && words[1] == "generate" && count == 4)
		return rnn_generate(words[2], words[3], s);
	usage_error(usage);
}

int main(int argc, char **argv)
{
	settings s = {take_options(&argc, argv, usage), 7, .5, 1000, 0, "\n\n", .7};
	std::vector<std::string> words;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			words.push_back(argv[i]);
		else if (i + 1 == argc || !take_setting(argv[i], argv[i + 1], &s))
			usage_error(usage);
		else
			i++;
	}
	if (!(s.temperature > 0))
		die(EXIT_INPUT, "-temp is %g, want more than 0", s.temperature);
	if (s.text.empty())
		die(EXIT_INPUT, "-seed is empty, want at least one character");

	try {
		return run(words, s);
	} catch (const std::runtime_error &error) {
		die(EXIT_INPUT, "%s", error.what());
	}
}

double share_clock::now_s()
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}
