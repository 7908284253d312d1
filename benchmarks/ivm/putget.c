/* putget.c: how fast put and get are beside memcpy, in one run, and their group forms for one part. PE 1 is on another device than the root, which has the master copy. */
#include <errno.h>

#include "measure.h"
#include "program.h"

enum { ROUNDS = 7 };

static ivm_dev dev; /* PE 1's */

enum what { MEMCPY, PUT, GET, SCATTER, GATHER, KINDS };

static int sync_copies(enum what what, char *mirror, size_t bytes)
{
	const struct ivm_part part = {dev, mirror, bytes};

	return what == PUT ? ivm_sync_put(mirror, bytes) : what == GET ? ivm_sync_get(mirror, bytes) : what == SCATTER ? ivm_sync_put_group(&part, 1) : ivm_sync_get_group(&part, 1);
}

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
			must("sync", sync_copies(what, mirror, bytes));
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
	printf("%12s %14s %10s %10s %10s %10s\n", "bytes", "memcpy GB/s", "put", "get", "scatter", "gather");
	for (size_t bytes = 1 << 20; bytes <= most; bytes *= 4) {
		double times[KINDS][ROUNDS];
		for (int round = -1; round < ROUNDS; round++) /* the first is for pages that nobody has touched */
			for (enum what what = MEMCPY; what < KINDS; what++)
				times[what][round < 0 ? 0 : round] = copy(what, mirror, own, bytes);
		const double of_memcpy = percentile(times[MEMCPY], ROUNDS, 50);
		printf("%12zu %14.2f", bytes, 1e-9 * (double)bytes / of_memcpy);
		for (enum what what = PUT; what < KINDS; what++)
			printf(" %10.2f", of_memcpy / percentile(times[what], ROUNDS, 50));
		printf("\n");
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
	void *at;

	read_options(argc, argv, "How fast put, get, scatter and gather are beside memcpy: medians of 7, as ratios of memcpy's rate.", options);
	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&id));
	must("create_dev", ivm_create_dev(NULL, IVM_CPU, 1, &dev));
	if (id == 0) {
		must("malloc", ivm_malloc("object", (size_t)most, &at));
		must("create_pes", ivm_create_pes(dev, 1, NULL));
		must("wait", ivm_wait(1));
	} else {
		must("map", ivm_map("object", &at, NULL));
		measure(at, (size_t)most);
		must("signal", ivm_signal());
	}
	must("exit", ivm_exit());
	return 0;
}
