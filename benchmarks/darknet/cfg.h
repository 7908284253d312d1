/* cfg.h: readers of Darknet's text files: networks (.cfg), data descriptions (.data) and
 * lists of lines. Unknown content is an error that names the file and the line. */
#ifndef DARKNET_CFG_H
#define DARKNET_CFG_H

#include <string>
#include <vector>

struct cfg_option {
	std::string key, value;
	int line;
};

/* The options of one [section], or of a whole .data file. */
struct cfg_section {
	std::string file, name;
	int line;
	std::vector<cfg_option> options;

	/* The values of known keys. A value of the wrong type or outside [low, high] ends the
	 * program. */
	bool has(const char *key) const;
	std::string text(const char *key, const char *missing) const;
	long integer(const char *key, long missing, long low, long high) const;
	double real(const char *key, double missing) const;
	std::vector<double> reals(const char *key) const; /* separated by commas */
	std::vector<long> integers(const char *key) const;

	/* fail ends the program with "FILE:LINE: MESSAGE". The line is the key's, or the
	 * section's if the section lacks the key. */
	[[noreturn]] void fail(const char *key, const std::string &message) const;

private:
	const cfg_option *find(const char *key) const;
};

/* read_cfg: the sections of a network, [net] first. `[network]` is [net]. */
std::vector<cfg_section> read_cfg(const std::string &path);

/* read_data: a .data file. */
cfg_section read_data(const std::string &path);

/* read_lines reads the lines of a file that are not empty, without surrounding blanks.
 * Returns false if the file does not exist. */
bool read_lines(const std::string &path, std::vector<std::string> *lines);

#endif
