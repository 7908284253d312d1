/* drive.c: a client that does what its standard input says, a line at a time,
 * and prints one line for each result; runner/probe's tests speak to it.
 *
 *   begin NAME BYTES   on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   grow NAME BYTES    on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   pin NAME DEVICE    as begin, of 1 byte of unified memory on that device
 *   shape NAME BLOCKS  "NAME RESULT"; 256 threads in a block, 8 blocks on an SM
 *   free NAME          "NAME RESULT"
 *   oom BYTES WHERE    "reported"
 *   fault CODE WHERE   "reported"
 *   fork NAME BYTES    in a child: free of the parent's task NAME, then begin,
 *                      free and exit: "child PID FREE_RESULT BEGIN_RESULT"
 *   pid                "pid PID"
 *
 * At end of input it returns from main. Output goes past stdio, dprintf
 * included: a fork while a thread prints would leave the child a buffer to flush.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../case.h"

#define NAMES 64

static struct step {
	char name[32];
	enum { BEGIN, PIN, GROW } what;
	uint64_t number;
	struct case_task task;
} steps[NAMES];

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
	int result = s->what == GROW  ? case_task_grow(&s->task, s->number)
	             : s->what == PIN ? case_task_ask(&pinned, &s->task)
	                              : case_task_begin(s->number, 64, 16, 1024, 0, &s->task);

	say("%s %d %d %u\n", s->name, result, s->task.device, s->task.uuid[0]);
	return NULL;
}

static void start(const char *verb, const char *name, uint64_t number)
{
	pthread_t thread;
	struct step *s = named(name);

	s->number = number;
	s->what = strcmp(verb, "grow") == 0 ? GROW : strcmp(verb, "pin") == 0 ? PIN : BEGIN;
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

int main(void)
{
	char line[256], verb[32], name[32], rest[128];
	uint64_t bytes;
	int code;

	while (fgets(line, sizeof line, stdin) != NULL) {
		if (sscanf(line, "%31s", verb) != 1)
			continue;
		if (strcmp(verb, "pid") == 0)
			say("pid %d\n", (int)getpid());
		else if (strcmp(verb, "free") == 0 && sscanf(line, "%*s %31s", name) == 1)
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
		else if (strcmp(verb, "shape") == 0)
			say("%s %d\n", name, case_task_shape(&named(name)->task, bytes, 256, 8));
		else
			start(verb, name, bytes);
	}
	return 0;
}
