/* churn.c: a client that asks, grows, shrinks and frees at random until it is killed;
 * runner/schedshm's tests kill it.
 *
 *     churn SEED LARGEST [POINT VISITS]
 *
 * A request is of up to LARGEST bytes. The client kills itself at the given visit of a
 * point of its critical section (shared/file.h), if there is one. It ends at end of input, having
 * given all back, with 0 if each answer made sense.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../case.h"

static const char *fatal_point = "";
static long visits;

void shared_point(const char *name);

void shared_point(const char *name)
{
	if (strcmp(name, fatal_point) == 0 && --visits == 0)
		kill(getpid(), SIGKILL);
}

static unsigned seed;

static uint64_t random_below(uint64_t limit) { return (uint64_t)rand_r(&seed) * (uint64_t)rand_r(&seed) % limit; }

static int ended(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	const uint32_t waits[] = {CASE_WAIT_DEFAULT, CASE_WAIT_DEFAULT, CASE_WAIT_NONE, 1, 30};

	if (argc < 3)
		return 2;
	seed = (unsigned)strtoul(argv[1], NULL, 10);
	const uint64_t largest = strtoull(argv[2], NULL, 10);
	if (argc == 5) {
		fatal_point = argv[3];
		visits = strtol(argv[4], NULL, 10);
	}
	while (!ended()) {
		struct case_need need = {.bytes = random_below(largest), .wait_ms = waits[random_below(5)]};
		struct case_task task;
		const int answer = case_task_ask(&need, &task);
		if (answer != CASE_OK && answer != CASE_TIMED_OUT && answer != CASE_REFUSED)
			return 3;
		if (answer != CASE_OK)
			continue;
		uint64_t held = need.bytes;
		for (uint64_t steps = random_below(4); steps > 0; steps--) {
			const uint64_t bytes = random_below(largest / 4);
			if (random_below(2) == 0 && bytes <= held) {
				if (case_task_shrink(&task, bytes) != CASE_OK)
					return 4;
				held -= bytes;
			} else if (case_task_grow(&task, bytes, waits[random_below(5)]) == CASE_OK) {
				held += bytes;
			}
		}
		if (case_task_free(&task) != CASE_OK)
			return 5;
	}
	return 0;
}
