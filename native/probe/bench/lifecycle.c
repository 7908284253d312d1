/* lifecycle.c: what schedGPU costs its clients, stage by stage (Reaño et al., TPDS 2018,
 * Figure 9).
 *
 *     lifecycle ROUNDS BYTES
 *
 * In each round a client pre-allocates BYTES, all that the device has, and another one
 * waits for them. Both are new processes. Prints a line for each stage, and for their sum in
 * a round, with the p50 and the p99 in microseconds: NAME P50 P99.
 *
 * Stages are the first client's calls, but notification: that begins when its
 * postCudaFree returns, and ends when preCudaMalloc of the other does. Shutdown is what the
 * library does in exit.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../schedgpu.h"
#include "../shared/lock.h"

enum stage { INIT, PRE, POST, NOTIFICATION, SHUTDOWN, TOTAL, STAGES };
static const char *const names[STAGES] = {"init", "pre-allocation", "post-free", "notification", "shutdown", "total"};

static uint64_t *stages[STAGES]; /* nanoseconds, a row for each */
static struct moments {          /* of this round */
	uint64_t freed_ns;       /* postCudaFree of the first client returned */
	uint64_t granted_ns;     /* preCudaMalloc of the other did */
} *moments;
static long at;          /* the round */
static uint64_t exit_ns; /* of the first client; 0: not measured */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "lifecycle: %s\n", what);
		_exit(1);
	}
}

static void begin_exit(void) { exit_ns = exit_ns != 0 ? now_ns() : 0; }

/* Runs after the library's destructor. */
__attribute__((destructor(101))) static void end_exit(void)
{
	if (exit_ns != 0)
		stages[SHUTDOWN][at] = now_ns() - exit_ns;
}

static void pass(int fd) { must(write(fd, "x", 1) == 1, "write"); }

static void wait_for(int fd)
{
	char byte;

	must(read(fd, &byte, 1) == 1, "read");
}

/* asleep waits until the process sleeps, which it does until it gets the first client's memory. */
static void asleep(pid_t pid)
{
	const struct timespec pause = {0, 1000000};
	char path[32], text[256];
	int sleeps = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	while (sleeps < 2) { /* and not only for the lock */
		nanosleep(&pause, NULL);
		const int fd = open(path, O_RDONLY);
		const ssize_t n = read(fd, text, sizeof text - 1);
		close(fd);
		must(n > 0, "the other client is gone");
		text[n] = '\0';
		sleeps = strrchr(text, ')')[2] == 'S' ? sleeps + 1 : 0;
	}
}

static void first(size_t bytes, pid_t other, int go)
{
	uint64_t began = now_ns();

	must(schedGPUInit() == 0, "schedGPUInit");
	stages[INIT][at] = now_ns() - began;
	began = now_ns();
	must(preCudaMalloc(bytes, 0, SCHEDGPU_NO_WAIT) == 0, "preCudaMalloc");
	stages[PRE][at] = now_ns() - began;
	pass(go);
	asleep(other);
	began = now_ns();
	must(postCudaFree(bytes, 0) == 0, "postCudaFree");
	moments->freed_ns = now_ns();
	stages[POST][at] = moments->freed_ns - began;
	exit_ns = 1;
}

static void second(size_t bytes, int go)
{
	must(schedGPUInit() == 0, "schedGPUInit");
	wait_for(go);
	must(preCudaMalloc(bytes, 0, SCHEDGPU_WAIT_DEFAULT) == 0, "preCudaMalloc of the waiting client");
	moments->granted_ns = now_ns();
	must(postCudaFree(bytes, 0) == 0, "postCudaFree");
}

static void round_of(size_t bytes)
{
	int go[2], status;

	must(pipe(go) == 0, "pipe");
	const pid_t other = fork();
	if (other == 0) {
		second(bytes, go[0]);
		exit(0);
	}
	if (fork() == 0) {
		first(bytes, other, go[1]);
		exit(0);
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < 2; i++)
		must(wait(&status) > 0 && status == 0, "a client failed");
	if (moments->granted_ns > moments->freed_ns) /* else it went on before the call returned */
		stages[NOTIFICATION][at] = moments->granted_ns - moments->freed_ns;
	for (int stage = 0; stage < TOTAL; stage++)
		stages[TOTAL][at] += stages[stage][at];
}

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* prepare makes the mutex of a state file, where the program has lock_mutex.c. */
static void prepare(const char *path)
{
	const int fd = open(path, O_RDWR);
	void *file = mmap(NULL, sizeof(struct case_shared_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	must(file != MAP_FAILED, path);
	shared_lock_prepare(file);
	close(fd);
}

int main(int argc, char **argv)
{
	const long rounds = argc == 3 ? atol(argv[1]) : 0;

	if (rounds < 1)
		return 2;
	if (getenv("CASE_SHARED") != NULL)
		prepare(getenv("CASE_SHARED"));
	const size_t row = (size_t)rounds * sizeof **stages;
	char *memory = mmap(NULL, STAGES * row + sizeof *moments, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap");
	for (int stage = 0; stage < STAGES; stage++)
		stages[stage] = (uint64_t *)(void *)(memory + (size_t)stage * row);
	moments = (struct moments *)(void *)(memory + STAGES * row);
	atexit(begin_exit);
	for (at = 0; at < rounds; at++)
		round_of(strtoull(argv[2], NULL, 10));
	for (int stage = 0; stage < STAGES; stage++) {
		qsort(stages[stage], (size_t)rounds, sizeof **stages, ascending);
		printf("%s %.1f %.1f\n", names[stage], (double)stages[stage][rounds / 2] / 1e3,
		       (double)stages[stage][rounds * 99 / 100] / 1e3);
	}
	return 0;
}
