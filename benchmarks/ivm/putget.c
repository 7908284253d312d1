/* putget.c: how fast put and get are beside memcpy, in one run. PE 1 is on another device than the root, which has the master copy. */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "program.h"

enum { ROUNDS = 7 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

enum what { MEMCPY, PUT, GET, KINDS };

/* copy copies so many bytes, as often as makes 64 MiB, and returns the time of one. */
static double copy(enum what what, char *mirror, char *const own[2], size_t bytes)
{
	const size_t times = bytes < 64 << 20 ? (64 << 20) / bytes : 1;
	const double start = now();

	for (size_t i = 0; i < times; i++)
		if (what == MEMCPY) {
			memcpy(own[0], own[1], bytes);
			__asm__ volatile("" : : "r"(own[0]) : "memory");
		} else {
			must(what == PUT ? "put" : "get", what == PUT ? ivm_sync_put(mirror, bytes) : ivm_sync_get(mirror, bytes));
		}
	return (now() - start) / (double)times;
}

static void measure(char *mirror, size_t most)
{
	char *own[2];

	for (int i = 0; i < 2; i++) {
		own[i] = malloc(most);
		if (own[i] == NULL)
			must("malloc", -ENOMEM);
		memset(own[i], i, most);
	}
	printf("%12s %14s %10s %10s\n", "bytes", "memcpy GB/s", "put", "get");
	for (size_t bytes = 1 << 20; bytes <= most; bytes *= 4) {
		double times[KINDS][ROUNDS];
		for (int round = -1; round < ROUNDS; round++) /* the first is for pages that nobody has touched */
			for (enum what what = MEMCPY; what < KINDS; what++)
				times[what][round < 0 ? 0 : round] = copy(what, mirror, own, bytes);
		for (enum what what = MEMCPY; what < KINDS; what++)
			qsort(times[what], ROUNDS, sizeof(double), by_value);
		const double of_memcpy = times[MEMCPY][ROUNDS / 2];
		printf("%12zu %14.2f %10.2f %10.2f\n", bytes, 1e-9 * (double)bytes / of_memcpy, of_memcpy / times[PUT][ROUNDS / 2],
		       of_memcpy / times[GET][ROUNDS / 2]);
		fflush(stdout);
	}
	for (int i = 0; i < 2; i++)
		free(own[i]);
}

int main(int argc, char **argv)
{
	long most = 1 << 30;
	const struct option_of_program options[] = {{"--most", &most, 1, 1L << 40, "greatest size in bytes"}, {0}};
	ivm_pe id;
	ivm_dev dev;
	void *at;

	read_options(argc, argv, "How fast put and get are beside memcpy: medians of 7, as ratios of memcpy's.", options);
	must("enter", ivm_enter());
	must("id", ivm_get_my_id(&id));
	if (id == 0) {
		must("malloc", ivm_malloc("object", (size_t)most, &at));
		must("device", ivm_create_dev(NULL, IVM_CPU, 1, &dev));
		must("create", ivm_create_pes(dev, 1, NULL));
		must("wait", ivm_wait(1));
	} else {
		must("map", ivm_map("object", &at, NULL));
		measure(at, (size_t)most);
		must("signal", ivm_signal());
	}
	must("exit", ivm_exit());
	return 0;
}
