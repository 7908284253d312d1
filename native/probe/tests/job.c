/* job.c: a job made of the steps on its command line, for tests of the run
 * loop on a machine without a GPU. It talks to the scheduler through the real
 * library; it touches no device.
 *
 *   begin:BYTES  grow:BYTES  shrink:BYTES  free   the task API, one task at a time
 *   wait:MS  nowait                 how long later requests may wait
 *   pin:DEVICE                      later tasks need that device
 *   shape:BLOCKS                    the task has a kernel of so many blocks
 *   device                          print the granted device
 *   busy  idle                      have kernels running from here on, or none
 *   oom:BYTES  fault:CODE           report, as a program whose CUDA call failed
 *   sleep:MS  spin:MS               wait; keep a core busy
 *   hear:PIPE  tell:PIPE            wait until another job has come to the other one
 *   child:MS                        leave a child behind that sleeps
 *   escape:MS                       the same in a session of its own
 *   closefrom                       close all descriptors from 3 up
 *   stubborn                        ignore SIGTERM from here on
 *   print:TEXT  exit:STATUS  abort
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../activity.h"
#include "../case.h"

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t))
		;
}

static void spin_ms(long ms)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

/* An end of a pipe opens when the other one does. */
static int meet(const char *path, const char *mode)
{
	mkfifo(path, 0600); /* unless the other job has */
	FILE *end = fopen(path, mode);

	return end ? fclose(end) : -1;
}

int main(int argc, char **argv)
{
	struct case_task task = { 0 };
	struct case_need need = { .blocks = 1024, .threads_per_block = 256 };

	for (int i = 1; i < argc; i++) {
		char *colon = strchr(argv[i], ':');
		size_t word = colon ? (size_t)(colon - argv[i]) : strlen(argv[i]);
		const char *text = colon ? colon + 1 : "";
		long value = strtol(text, NULL, 10);
#define STEP(name) (word == sizeof(name) - 1 && !strncmp(argv[i], name, word))
		if (STEP("begin")) {
			need.bytes = (uint64_t)value;
			if (case_task_ask(&need, &task))
				return 5;
		} else if (STEP("wait") || STEP("nowait")) {
			need.wait_ms = STEP("wait") ? (uint32_t)value : CASE_WAIT_NONE;
		} else if (STEP("pin")) {
			need.flags |= CASE_FLAG_DEVICE;
			need.device = (int32_t)value;
		} else if (STEP("shape")) {
			case_task_shape(&task, (uint64_t)value, 256, 8);
		} else if (STEP("grow")) {
			if (case_task_grow(&task, (uint64_t)value, need.wait_ms))
				return 6;
		} else if (STEP("shrink")) {
			case_task_shrink(&task, (uint64_t)value);
		} else if (STEP("free")) {
			case_task_free(&task);
		} else if (STEP("device")) {
			printf("device %d of %s\n", task.device, getenv("CUDA_VISIBLE_DEVICES"));
			fflush(stdout);
		} else if (STEP("oom")) {
			case_report_oom((uint64_t)value, "cudaMalloc");
		} else if (STEP("busy")) {
			activity_watched();
			activity_began();
		} else if (STEP("use")) { /* the first of them before it connects */
			activity_watched();
			activity_uses((uint64_t)value);
		} else if (STEP("idle")) {
			activity_watched();
			activity_over(activity_mark());
		} else if (STEP("fault")) {
			case_report_fault((int)value, "cudaDeviceSynchronize");
		} else if (STEP("sleep")) {
			sleep_ms(value);
		} else if (STEP("spin")) {
			spin_ms(value);
		} else if (STEP("hear") || STEP("tell")) {
			if (meet(text, STEP("hear") ? "r" : "w"))
				return 7;
		} else if (STEP("child")) {
			if (fork() == 0) {
				sleep_ms(value);
				_exit(0);
			}
		} else if (STEP("escape")) {
			if (fork() == 0) {
				setsid();
				sleep_ms(value);
				_exit(0);
			}
		} else if (STEP("closefrom")) {
			close_range(3, ~0U, 0);
		} else if (STEP("stubborn")) {
			signal(SIGTERM, SIG_IGN);
		} else if (STEP("print")) {
			fprintf(stderr, "%s\n", text);
		} else if (STEP("exit")) {
			return (int)value;
		} else if (STEP("abort")) {
			abort();
		} else {
			fprintf(stderr, "job: unknown step %s\n", argv[i]);
			return 9;
		}
	}
	return 0;
}
