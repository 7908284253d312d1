/* drive.c: a client that does what its standard input says, a line at a time,
 * and prints one line for each result; runner/probe's tests speak to it.
 *
 *   begin NAME BYTES   on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   grow NAME BYTES    on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   pin NAME DEVICE    as begin, of 1 byte of unified memory on that device
 *   wait MS            how long later begins and grows may wait, 0 as the scheduler says;
 *                      "wait none": not at all
 *   on NAME DEVICE BYTES  as begin, on that device
 *   shrink NAME BYTES  "NAME RESULT"
 *   shape NAME BLOCKS  "NAME RESULT"; 256 threads in a block, 8 blocks on an SM
 *   free NAME          "NAME RESULT"
 *   evict              before all others: the process can give memory back: "able CAN". From then on
 *                      each revocation says "revoke TASK ACTION BYTES DEADLINE", and ends with
 *   answer HOW         done (1 byte), busy, unable, kill (the process, before it answers), or swap,
 *                      which asks for 64 MiB of swap space: "swap GIVEN BYTES", and waits for another
 *   resume NAME BYTES  on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   permit NAME        "NAME PERMITTED"
 *   oom BYTES WHERE    "reported"
 *   fault CODE WHERE   "reported"
 *   fork NAME BYTES    in a child: free of the parent's task NAME, then begin,
 *                      free and exit: "child PID FREE_RESULT BEGIN_RESULT"
 *   pid                "pid PID"
 *   close              of all descriptors from 3 up: "closed"
 *   reuse              the same; then their numbers name one end of a pair of sockets: "reused"
 *   stolen             how much has come out of the other end, and whether it is
 *                      open yet: "stolen BYTES OPEN"
 *   exec               runs this program again in its place: "again"
 *   daemon             ends, and leaves a child with its socket behind, which the library
 *                      does not know of, until end of input: "daemon PID"
 *
 * At end of input it returns from main. Output goes past stdio, dprintf
 * included: a fork while a thread prints would leave the child a buffer to flush.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../case.h"
#include "../client.h"

#define NAMES 64

static struct step {
	char name[32];
	enum { BEGIN, PIN, ON, GROW, RESUME } what;
	uint64_t number;
	int device; /* of ON */
	uint32_t wait_ms;
	struct case_task task;
} steps[NAMES];

static uint32_t wait_ms = CASE_WAIT_DEFAULT;

static struct step *named(const char *name)
{
	for (int i = 0; i < NAMES; i++)
		if (steps[i].name[0] == '\0' || strcmp(steps[i].name, name) == 0) {
			strcpy(steps[i].name, name);
			return &steps[i];
		}
	exit(2);
}

static void say(const char *format, ...)
{
	char line[256];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		exit(2);
}

static _Thread_local uint64_t needs;

static struct client_need needed(void) { return (struct client_need){needs, 0, 0}; }

static void *request(void *argument)
{
	struct step *s = argument;
	struct case_need pinned = {
		.bytes = 1,
		.blocks = 64,
		.threads_per_block = 16,
		.blocks_per_sm = 6,
		.flags = CASE_FLAG_MANAGED | CASE_FLAG_DEVICE,
		.device = (int32_t)s->number,
	};
	struct case_need need = {
		.bytes = s->number,
		.blocks = 64,
		.heap_bytes = 1024,
		.threads_per_block = 16,
		.flags = s->what == ON ? CASE_FLAG_DEVICE : 0,
		.device = s->device,
		.wait_ms = s->wait_ms,
	};
	needs = s->number;
	int result = s->what == GROW     ? case_task_grow(&s->task, s->number, s->wait_ms)
	             : s->what == RESUME ? client_await_resume(&s->task, needed)
	             : s->what == PIN    ? case_task_ask(&pinned, &s->task)
	                                 : case_task_ask(&need, &s->task);

	say("%s %d %d %u\n", s->name, result, s->task.device, s->task.uuid[0]);
	return NULL;
}

static void start(const char *verb, const char *name, uint64_t number)
{
	pthread_t thread;
	struct step *s = named(name);

	s->number = number;
	s->wait_ms = wait_ms;
	s->what = strcmp(verb, "grow") == 0 ? GROW : strcmp(verb, "resume") == 0 ? RESUME : strcmp(verb, "pin") == 0 ? PIN : strcmp(verb, "on") == 0 ? ON : BEGIN;
	if (pthread_create(&thread, NULL, request, s) != 0)
		exit(2);
	pthread_detach(thread);
}

static void fork_child(const char *name, uint64_t bytes)
{
	pid_t child = fork();

	if (child == 0) {
		struct case_task task;
		struct case_task inherited = named(name)->task;
		int freed = case_task_free(&inherited);
		int begun = case_task_begin(bytes, 1, 1, 0, 0, &task);
		say("child %d %d %d\n", (int)getpid(), freed, begun);
		case_task_free(&task);
		exit(0);
	}
	waitpid(child, NULL, 0);
}

static sem_t answered;
static char how[32];

static void welcome(const struct client_welcome *w) { (void)w; }

static void put_away(const struct client_space *space)
{
	for (int i = 0; i < space->file_count; i++)
		close(space->files[i]);
	say("offered %d\n", space->file_count);
}

static uint64_t give_back(void)
{
	say("recalled\n");
	return 0;
}

static void take_back(const struct client_revocation *r, struct client_revoked *answer)
{
	struct client_space space = {0};

	say("revoke %" PRIu64 " %d %" PRIu64 " %u\n", r->task, (int)r->action, r->bytes, r->deadline_ms);
	for (sem_wait(&answered); strcmp(how, "swap") == 0; sem_wait(&answered)) {
		const bool given = client_await_swap(64 << 20, &space);
		say("swap %d %" PRIu64 "\n", given, space.bytes);
	}
	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	answer->outcome = strcmp(how, "done") == 0   ? CASE_REVOKED_DONE
	                  : strcmp(how, "busy") == 0 ? CASE_REVOKED_BUSY
	                                             : CASE_REVOKED_UNABLE;
	answer->freed_bytes = 1;
	strcpy(answer->why, "told so");
}

static int other_end = -1;

/* reuse gives every number below 64 that has been closed to one end of a pair. */
static void reuse(void)
{
	int pair[2];

	close_range(3, ~0U, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || dup2(pair[1], 100) != 100)
		exit(2);
	other_end = 100;
	close(pair[1]);
	for (int i = 3; i < 64; i++)
		dup2(pair[0], i);
	say("reused\n");
}

static void stolen(void)
{
	char text[1024];
	ssize_t n = recv(other_end, text, sizeof text, MSG_DONTWAIT);

	say("stolen %zd %d\n", n < 0 ? 0 : n, n != 0);
}

static void leave_daemon(void)
{
	char end;
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (child == 0) {
		say("daemon %d\n", (int)getpid());
		while (read(STDIN_FILENO, &end, 1) > 0)
			;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	char line[256], verb[32], name[32], rest[128];
	uint64_t bytes;
	int code;

	(void)argc;
	if (strcmp(argv[0], "again") == 0)
		say("again\n");
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (sscanf(line, "%31s", verb) != 1)
			continue;
		if (strcmp(verb, "pid") == 0)
			say("pid %d\n", (int)getpid());
		else if (strcmp(verb, "evict") == 0) {
			static const struct client_hooks hooks = {welcome, take_back, put_away, give_back, 0};
			sem_init(&answered, 0, 0);
			say("able %d\n", client_can_evict(&hooks));
		} else if (strcmp(verb, "answer") == 0 && sscanf(line, "%*s %31s", how) == 1)
			sem_post(&answered);
		else if (strcmp(verb, "permit") == 0 && sscanf(line, "%*s %31s", name) == 1)
			say("%s %d\n", name, client_permitted(&named(name)->task));
		else if (strcmp(verb, "close") == 0) {
			close_range(3, ~0U, 0);
			say("closed\n");
		} else if (strcmp(verb, "reuse") == 0)
			reuse();
		else if (strcmp(verb, "stolen") == 0)
			stolen();
		else if (strcmp(verb, "exec") == 0)
			execl("/proc/self/exe", "again", NULL);
		else if (strcmp(verb, "daemon") == 0)
			leave_daemon();
		else if (strcmp(verb, "wait") == 0 && sscanf(line, "%*s %31s", name) == 1)
			wait_ms = strcmp(name, "none") == 0 ? CASE_WAIT_NONE : (uint32_t)strtoul(name, NULL, 10);
		else if (strcmp(verb, "on") == 0 && sscanf(line, "%*s %31s %d %" SCNu64, name, &code, &bytes) == 3) {
			named(name)->device = code;
			start(verb, name, bytes);
		} else if (strcmp(verb, "free") == 0 && sscanf(line, "%*s %31s", name) == 1)
			say("%s %d\n", name, case_task_free(&named(name)->task));
		else if (strcmp(verb, "oom") == 0 && sscanf(line, "%*s %" SCNu64 " %127[^\n]", &bytes, rest) == 2) {
			case_report_oom(bytes, rest);
			say("reported\n");
		} else if (strcmp(verb, "fault") == 0 && sscanf(line, "%*s %d %127[^\n]", &code, rest) == 2) {
			case_report_fault(code, rest);
			say("reported\n");
		} else if (sscanf(line, "%*s %31s %" SCNu64, name, &bytes) != 2)
			return 2;
		else if (strcmp(verb, "fork") == 0)
			fork_child(name, bytes);
		else if (strcmp(verb, "shrink") == 0)
			say("%s %d\n", name, case_task_shrink(&named(name)->task, bytes));
		else if (strcmp(verb, "shape") == 0)
			say("%s %d\n", name, case_task_shape(&named(name)->task, bytes, 256, 8));
		else
			start(verb, name, bytes);
	}
	return 0;
}
