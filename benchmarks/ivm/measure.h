/* measure.h: times of programs that measure. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdlib.h>
#include <time.h>

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* percentile sorts times, and returns the one that so many of 100 do not exceed. */
static inline double percentile(double *times, size_t count, size_t of_100)
{
	qsort(times, count, sizeof *times, by_value);
	return times[(count - 1) * of_100 / 100];
}

#endif
