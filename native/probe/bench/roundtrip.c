/* roundtrip.c: how long case_task_begin takes when the answer is a grant.
 *
 *     roundtrip -n REQUESTS -c CLIENTS [-t] [-i PAUSE_US] [-e] [-r]
 *
 * Each client does begin and free REQUESTS times after one that is not
 * counted, which connects. Clients are processes, or with -t threads of one
 * process. Without -i each asks again at once. With -e each has a process of
 * its own on a socket of the same kind that sends every packet back, and no
 * scheduler (one client only): what the machine itself takes. With -r each process can
 * give memory back, so a thread of its own reads its connection. Prints microseconds:
 *
 *     p50 p90 p99 max 11.2 13.0 30.1 402.7 us requests_per_s 81234
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../case.h"
#include "../client.h"

static long requests = 10000, clients = 1, pause_us = 0;
static pthread_barrier_t *barrier;
static uint32_t *nanoseconds; /* clients rows of requests */

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int echo = -1; /* the socket of -e */

static void start_echo(void)
{
	int ends[2];
	char packet[64];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
		exit(1);
	if (fork() == 0) {
		close(ends[0]);
		for (ssize_t n; (n = recv(ends[1], packet, sizeof packet, 0)) > 0;)
			if (send(ends[1], packet, (size_t)n, MSG_NOSIGNAL) != n)
				exit(1);
		exit(0);
	}
	close(ends[1]);
	echo = ends[0];
}

static uint64_t echo_trip(void)
{
	char packet[64] = {0};
	uint64_t start = now_ns();
	if (send(echo, packet, sizeof packet, MSG_NOSIGNAL) < 0 || recv(echo, packet, sizeof packet, 0) <= 0)
		exit(1);
	return now_ns() - start;
}

static uint64_t round_trip(void)
{
	if (echo >= 0)
		return echo_trip();

	struct case_task task;
	uint64_t start = now_ns();
	if (case_task_begin(1 << 20, 64, 256, 0, 0, &task) != CASE_OK || task.device < 0)
		exit(1);
	uint64_t elapsed = now_ns() - start;
	if (case_task_free(&task) != CASE_OK)
		exit(1);
	return elapsed;
}

static void *client(void *row)
{
	uint32_t *sample = row;
	struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};

	round_trip();
	pthread_barrier_wait(barrier);
	for (long i = 0; i < requests; i++) {
		uint64_t ns = round_trip();
		sample[i] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
		if (pause_us > 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

/* run_all returns the nanoseconds from the start of the first counted request
 * to the end of the last. */
static uint64_t run_all(int threads)
{
	pthread_t *thread = calloc((size_t)clients, sizeof *thread);

	for (long i = 0; i < clients; i++) {
		uint32_t *row = nanoseconds + i * requests;
		if (threads) {
			if (pthread_create(&thread[i], NULL, client, row) != 0)
				exit(1);
		} else if (fork() == 0) {
			client(row);
			exit(0);
		}
	}
	pthread_barrier_wait(barrier);
	uint64_t start = now_ns();
	for (long i = 0; i < clients; i++) {
		int status = 0;
		if (threads)
			pthread_join(thread[i], NULL);
		else
			wait(&status);
		if (status != 0)
			exit(1);
	}
	free(thread);
	return now_ns() - start;
}

static void welcome(const struct client_welcome *w) { (void)w; }

static const struct client_hooks hooks = {.welcome = welcome}; /* nothing is revoked */

int main(int argc, char **argv)
{
	int threads = 0, echoes = 0;

	for (int option; (option = getopt(argc, argv, "n:c:ti:er")) != -1;)
		switch (option) {
		case 'n': requests = atol(optarg); break;
		case 'c': clients = atol(optarg); break;
		case 't': threads = 1; break;
		case 'e': echoes = 1; break;
		case 'r': client_can_evict(&hooks); break;
		case 'i': pause_us = atol(optarg); break;
		default: return 2;
		}
	if (requests < 1 || clients < 1 || pause_us < 0 || (echoes && clients > 1))
		return 2;

	if (echoes)
		start_echo();
	size_t count = (size_t)(requests * clients);
	nanoseconds = shared(count * sizeof *nanoseconds);
	barrier = shared(sizeof *barrier);
	pthread_barrierattr_t attributes;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &attributes, (unsigned)clients + 1);

	uint64_t elapsed = run_all(threads);
	qsort(nanoseconds, count, sizeof *nanoseconds, ascending);
	printf("p50 p90 p99 max %.1f %.1f %.1f %.1f us requests_per_s %.0f\n",
	       nanoseconds[count / 2] / 1e3, nanoseconds[count * 9 / 10] / 1e3,
	       nanoseconds[count * 99 / 100] / 1e3, nanoseconds[count - 1] / 1e3,
	       (double)count * 1e9 / (double)elapsed);
	return 0;
}
