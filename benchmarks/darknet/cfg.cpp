#include "cfg.h"

#include "common/host.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* The keys of Darknet's published files. Keys that only its training of detectors or its
 * display reads are accepted and have no effect here. */
static const struct {
	const char *section, *keys;
} known_keys[] = {
	{"net", "batch subdivisions time_steps width height channels inputs momentum decay learning_rate "
	        "policy power steps scales burn_in max_batches max_crop min_crop angle aspect "
	        "saturation exposure hue"},
	{"convolutional", "batch_normalize filters size stride pad padding groups activation"},
	{"connected", "batch_normalize output activation"},
	{"maxpool", "size stride padding"},
	{"avgpool", ""},
	{"shortcut", "from activation"},
	{"route", "layers"},
	{"upsample", "stride"},
	{"reorg", "stride"},
	{"yolo", "mask anchors classes num jitter ignore_thresh truth_thresh random max"},
	{"region", "anchors classes num coords softmax bias_match jitter rescore object_scale noobject_scale class_scale "
	           "coord_scale absolute thresh random max"},
	{"rnn", "batch_normalize output hidden activation"},
	{"softmax", "groups temperature"},
	{"cost", "type scale"},
	{"dropout", "probability"},
	{"data", "classes train valid labels names backup top results eval map"},
};

static std::string trimmed(const std::string &text)
{
	const char *blank = " \t\r\n";
	const size_t first = text.find_first_not_of(blank);

	return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

static const char *keys_of(const std::string &section)
{
	for (const auto &known : known_keys)
		if (section == known.section)
			return known.keys;
	return nullptr;
}

static bool is_word_of(const std::string &word, const char *words)
{
	return word.find(' ') == std::string::npos && !word.empty() &&
	       (std::string(" ") + words + " ").find(" " + word + " ") != std::string::npos;
}

/* open_text returns nullptr only if the file does not exist. */
static FILE *open_text(const std::string &path)
{
	struct stat info;

	if (stat(path.c_str(), &info)) {
		if (errno == ENOENT)
			return nullptr;
		die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
	}
	if (!S_ISREG(info.st_mode))
		die(EXIT_INPUT, "%s is not a regular file", path.c_str());
	FILE *file = fopen(path.c_str(), "r");
	if (!file)
		die(EXIT_INPUT, "open %s: %s", path.c_str(), strerror(errno));
	return file;
}

/* each_line calls visit(line number, text) for each line that has text. */
template <typename F> static bool each_line(const std::string &path, F visit)
{
	FILE *file = open_text(path);
	char *text = nullptr;
	size_t room = 0;

	if (!file)
		return false;
	for (int number = 1; getline(&text, &room, file) >= 0; number++) {
		const std::string line = trimmed(text);
		if (!line.empty())
			visit(number, line);
	}
	if (ferror(file))
		die(EXIT_INPUT, "read %s: %s", path.c_str(), strerror(errno));
	free(text);
	fclose(file);
	return true;
}

static bool is_comment(const std::string &line)
{
	return line[0] == '#' || line[0] == ';';
}

static void add_option(cfg_section *section, int number, const std::string &line)
{
	const size_t equals = line.find('=');
	if (equals == std::string::npos)
		die(EXIT_INPUT, "%s:%d: \"%s\" is not a KEY=VALUE", section->file.c_str(), number, line.c_str());
	const cfg_option option = {trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)), number};
	if (!is_word_of(option.key, keys_of(section->name)))
		die(EXIT_INPUT, "%s:%d: unknown key \"%s\" in [%s], which has: %s", section->file.c_str(), number,
		    option.key.c_str(), section->name.c_str(), keys_of(section->name));
	if (section->has(option.key.c_str()))
		die(EXIT_INPUT, "%s:%d: \"%s\" is given twice in [%s]", section->file.c_str(), number,
		    option.key.c_str(), section->name.c_str());
	section->options.push_back(option);
}

static cfg_section new_section(const std::string &path, int number, const std::string &line)
{
	std::string name = line.back() == ']' ? trimmed(line.substr(1, line.size() - 2)) : "";

	if (name == "network")
		name = "net";
	if (name == "data" || !keys_of(name)) {
		std::string all;
		for (const auto &known : known_keys)
			if (strcmp(known.section, "data"))
				all += std::string(" [") + known.section + "]";
		die(EXIT_INPUT, "%s:%d: unknown section %s; known are:%s", path.c_str(), number, line.c_str(),
		    all.c_str());
	}
	return cfg_section{path, name, number, {}};
}

std::vector<cfg_section> read_cfg(const std::string &path)
{
	std::vector<cfg_section> sections;
	const bool found = each_line(path, [&](int number, const std::string &line) {
		if (is_comment(line))
			return;
		if (line[0] == '[') {
			sections.push_back(new_section(path, number, line));
			if ((sections.size() == 1) != (sections.back().name == "net"))
				die(EXIT_INPUT, "%s:%d: %s: the first section, and only the first, is [net]",
				    path.c_str(), number, line.c_str());
		} else if (sections.empty()) {
			die(EXIT_INPUT, "%s:%d: \"%s\" stands before the first section", path.c_str(), number,
			    line.c_str());
		} else {
			add_option(&sections.back(), number, line);
		}
	});

	if (!found)
		die(EXIT_INPUT, "%s: no such file", path.c_str());
	if (sections.size() < 2)
		die(EXIT_INPUT, "%s: no layer: want [net] and the sections of layers", path.c_str());
	return sections;
}

cfg_section read_data(const std::string &path)
{
	cfg_section data = {path, "data", 1, {}};

	if (!each_line(path, [&](int number, const std::string &line) {
		    if (!is_comment(line))
			    add_option(&data, number, line);
	    }))
		die(EXIT_INPUT, "%s: no such file", path.c_str());
	return data;
}

bool read_lines(const std::string &path, std::vector<std::string> *lines)
{
	return each_line(path, [&](int, const std::string &line) { lines->push_back(line); });
}

const cfg_option *cfg_section::find(const char *key) const
{
	for (const cfg_option &option : options)
		if (option.key == key)
			return &option;
	return nullptr;
}

bool cfg_section::has(const char *key) const
{
	return find(key);
}

void cfg_section::fail(const char *key, const std::string &message) const
{
	const cfg_option *option = find(key);

	die(EXIT_INPUT, "%s:%d: [%s] %s: %s", file.c_str(), option ? option->line : line, name.c_str(), key,
	    message.c_str());
}

std::string cfg_section::text(const char *key, const char *missing) const
{
	const cfg_option *option = find(key);

	return option ? option->value : missing;
}

std::vector<double> cfg_section::reals(const char *key) const
{
	std::vector<double> values;
	const std::string list = text(key, "");

	for (size_t at = 0; at < list.size();) {
		size_t comma = list.find(',', at);
		if (comma == std::string::npos)
			comma = list.size();
		const std::string item = trimmed(list.substr(at, comma - at));
		char *end;
		values.push_back(strtod(item.c_str(), &end));
		if (item.empty() || *end || !std::isfinite(values.back()))
			fail(key, "\"" + item + "\" is not a number");
		at = comma + 1;
	}
	return values;
}

std::vector<long> cfg_section::integers(const char *key) const
{
	std::vector<long> values;

	for (double value : reals(key)) {
		if (value != floor(value) || fabs(value) > 1e9)
			fail(key, std::to_string(value) + " is not an integer");
		values.push_back(long(value));
	}
	return values;
}

double cfg_section::real(const char *key, double missing) const
{
	if (!has(key))
		return missing;
	const std::vector<double> values = reals(key);
	if (values.size() != 1)
		fail(key, "\"" + text(key, "") + "\" is not one number");
	return values[0];
}

long cfg_section::integer(const char *key, long missing, long low, long high) const
{
	if (!has(key))
		return missing;
	const double value = real(key, 0);
	if (value != floor(value) || value < low || value > high)
		fail(key, "\"" + text(key, "") + "\" is not an integer from " + std::to_string(low) + " to " +
		              std::to_string(high));
	return long(value);
}
