/* crowd.c: how many grants a second a crowd of waiting clients makes.
 *
 *     crowd CLIENTS BYTES SECONDS
 *
 * CLIENTS processes each pre-allocate BYTES, all that the device has, and free them, again and
 * again: one client has the memory, and all others wait for it. When each has come to its first
 * request, grants are counted for SECONDS, and how often a client looked for dead ones.
 * Prints: GRANTS LOOKS SECONDS. The clients are killed when this process ends.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../schedgpu.h"

static struct {
	atomic_long asking, grants, looks;
} *count;

void shared_point(const char *name);

void shared_point(const char *name)
{
	if (count != NULL && strcmp(name, "looking") == 0)
		atomic_fetch_add(&count->looks, 1);
}

static void must(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "crowd: %s\n", what);
		_exit(1);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noreturn)) static void client(size_t bytes)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(schedGPUInit() == 0, "schedGPUInit");
	atomic_fetch_add(&count->asking, 1);
	for (;;) {
		must(preCudaMalloc(bytes, 0, SCHEDGPU_WAIT_DEFAULT) == 0, "preCudaMalloc");
		atomic_fetch_add(&count->grants, 1);
		must(postCudaFree(bytes, 0) == 0, "postCudaFree");
	}
}

int main(int argc, char **argv)
{
	const long clients = argc == 4 ? atol(argv[1]) : 0;

	if (clients < 1)
		return 2;
	const double seconds = atof(argv[3]);
	count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(count != MAP_FAILED, "mmap");
	for (long i = 0; i < clients; i++) {
		const pid_t made = fork();
		must(made >= 0, "fork");
		if (made == 0)
			client(strtoull(argv[2], NULL, 10));
	}
	const struct timespec moment = {0, 10000000}, window = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	while (atomic_load(&count->asking) < clients)
		nanosleep(&moment, NULL);
	const double began = now();
	const long grants = atomic_load(&count->grants), looks = atomic_load(&count->looks);
	nanosleep(&window, NULL);
	printf("%ld %ld ", atomic_load(&count->grants) - grants, atomic_load(&count->looks) - looks);
	printf("%.6f\n", now() - began);
	fflush(stdout);
	must(waitpid(-1, NULL, WNOHANG) == 0, "a client has ended");
	return 0;
}
