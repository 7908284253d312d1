/* check.h: a PE that finds something wrong says so and ends, which ends the application. */
#define _DEFAULT_SOURCE /* gethostname, usleep */
#include <ivm.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void check_result(int line, const char *call, int result, int wanted)
{
	if (result == wanted)
		return;
	fprintf(stderr, "line %d: %s is %d (%s), want %d (%s)\n", line, call, result, ivm_error(result), wanted, ivm_error(wanted));
	_exit(1);
}

/* WANT is for calls, and HOLDS for what must be true. */
#define WANT(call, result) check_result(__LINE__, #call, (call), (result))
#define HOLDS(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
			_exit(1);                                              \
		}                                                              \
	} while (0)
