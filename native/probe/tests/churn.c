/* churn.c: a client that asks, grows, shrinks and frees at random until it is killed;
 * runner/schedshm's tests kill it.
 *
 *     churn SEED LARGEST [POINT VISITS [SIZE]]
 *
 * A request is of up to LARGEST bytes. The client kills itself at the given visit of a
 * point of its critical section (shared/file.h), if there is one. With SIZE it truncates the state file
 * there instead, and ends soon after. It ends at end of input, having given all back, with 0 if each
 * answer made sense. If CHURN_SANDBOX is set, the kernel forbids it to have its memory copied, as some
 * sandboxes do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../case.h"

static const char *fatal_point = "";
static long visits, cut_to = -1;
static int over;

void shared_point(const char *name);

void shared_point(const char *name)
{
	if (strcmp(name, fatal_point) != 0 || --visits != 0)
		return;
	if (cut_to < 0)
		kill(getpid(), SIGKILL);
	over = truncate(getenv("CASE_SHARED"), cut_to) == 0;
}

static unsigned seed;

static uint64_t random_below(uint64_t limit) { return (uint64_t)rand_r(&seed) * (uint64_t)rand_r(&seed) % limit; }

static int ended(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return over || poll(&input, 1, 0) > 0;
}

static void forbid(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(6);
}

int main(int argc, char **argv)
{
	const uint32_t waits[] = {CASE_WAIT_DEFAULT, CASE_WAIT_DEFAULT, CASE_WAIT_NONE, 1, 30};

	if (argc < 3)
		return 2;
	seed = (unsigned)strtoul(argv[1], NULL, 10);
	const uint64_t largest = strtoull(argv[2], NULL, 10);
	if (argc >= 5) {
		fatal_point = argv[3];
		visits = strtol(argv[4], NULL, 10);
	}
	if (argc == 6)
		cut_to = strtol(argv[5], NULL, 10);
	if (getenv("CHURN_SANDBOX") != NULL)
		forbid();
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
