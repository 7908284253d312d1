/* A job that is odd on purpose, for runner/live/escaped_test.go. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../case.h"

extern char **environ;
static const struct case_need need = { .bytes = 12000000000, .blocks = 1024, .threads_per_block = 256 };

static int dies;

/* The library's: it has asked when it comes here. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (dies)
		abort();
	return syscall(SYS_recvmsg, fd, message, flags);
}

/* odd wipe: has a task and nothing in its environment, for a minute.
 * odd die: holds a task, asks for another one, and dies. */
int main(int argc, char **argv)
{
	struct case_task task = { 0 }, other = { 0 };
	int wipes = argc == 2 && !strcmp(argv[1], "wipe");

	if (case_task_ask(&need, &task))
		return 5;
	for (char **e = environ; wipes && *e; e++)
		memset(*e, 0, strlen(*e));
	puts("here");
	fflush(stdout);
	if (wipes)
		return sleep(60);
	dies = 1;
	return case_task_ask(&need, &other);
}
