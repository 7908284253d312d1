/* options.h: the options of a program, what it says at its end, and its exit statuses. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE = 2, WRONG = 4 }; /* wrong options, and a wrong result */

/* An option with a number from least to most. A flag has most 0. The last has no name. */
struct option_of_program {
	const char *name;
	long *value, least, most;
	const char *meaning;
};

static inline bool read_option(const struct option_of_program *o, const char *text)
{
	char *end = NULL;

	if (text == NULL || *text == '\0')
		return false;
	*o->value = strtol(text, &end, 10);
	return *end == '\0' && *o->value >= o->least && *o->value <= o->most;
}

/* read_options ends the process if the options are wrong, or --help is one of them. */
static inline void read_options(int argc, char **argv, const char *about, const struct option_of_program *options)
{
	for (int i = 1; i < argc; i++) {
		const struct option_of_program *o = options;
		if (strcmp(argv[i], "--help") == 0) {
			printf("%s\n\n", about);
			for (; o->name != NULL; o++)
				printf("  %-18s %s (default %ld)\n", o->name, o->meaning, *o->value);
			exit(0);
		}
		while (o->name != NULL && strcmp(o->name, argv[i]) != 0)
			o++;
		if (o->name != NULL && o->most == 0) {
			*o->value = 1;
		} else if (o->name == NULL || !read_option(o, argv[++i])) {
			fprintf(stderr, "%s: wrong option or value: %s (try --help)\n", argv[0], argv[o->name == NULL ? i : i - 1]);
			exit(USAGE);
		}
	}
}

/* report prints the time of the work, and returns the exit status of a result that is right or wrong. */
static inline int report(const char *program, double seconds, bool right)
{
	printf("seconds %.6f\n", seconds);
	if (!right)
		fprintf(stderr, "%s: the result is not that of the sequential program\n", program);
	return right ? 0 : WRONG;
}

#endif
