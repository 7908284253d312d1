/* drive.c: a client that does what its standard input says, a line at a time,
 * and prints one line for each result; runner/probe's tests speak to it.
 *
 *   begin NAME BYTES   on a thread of its own: "NAME RESULT DEVICE UUID[0]"
 *   grow NAME BYTES    on a thread of its own: "NAME RESULT DEVICE UUID[0]"
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
	uint64_t bytes;
	int grow;
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
	int result = s->grow ? case_task_grow(&s->task, s->bytes)
	                     : case_task_begin(s->bytes, 64, 16, 1024, 0, &s->task);

	say("%s %d %d %u\n", s->name, result, s->task.device, s->task.uuid[0]);
	return NULL;
}

static void start(const char *name, uint64_t bytes, int grow)
{
	pthread_t thread;
	struct step *s = named(name);

	s->bytes = bytes;
	s->grow = grow;
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
		else
			start(name, bytes, strcmp(verb, "grow") == 0);
	}
	return 0;
}
