/* program.h: what the programs share: options, and the end of a program whose call fails. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <ivm.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2, WRONG = 4 }; /* exit statuses: wrong options, and a wrong result */

/* must ends the PE, and so the application, if a call has failed. It returns the call's result. */
static inline int must(const char *call, int result)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "ivm_%s: %s\n", call, ivm_error(result));
	_exit(1);
}

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

/* read_options ends the process if the options are wrong, or --help is one of them. It comes before ivm_enter. */
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

#endif
