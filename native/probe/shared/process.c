/* process.c: see process.h.
 *
 * The system uses a process's number again, so its start time identifies it too. exec keeps both,
 * but frees the device memory. exec shows in the addresses of code and stack. */
#define _GNU_SOURCE /* O_CLOEXEC, kill */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of proc(5), "stat". */
enum { STATE = 3, THREADS = 20, STARTED = 22, CODE = 26, STACK = 28 };

/* stat_of reads the fields from the third on into field[3] to field[28]; the state as its
 * letter. It returns 0 or an errno value. */
static int stat_of(pid_t pid, uint64_t field[STACK + 1])
{
	char path[32], text[1024];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	const ssize_t n = read(fd, text, sizeof text - 1);
	const int failed = n < 0 ? errno : 0;
	close(fd);
	if (failed)
		return failed;
	text[n] = '\0';
	char *at = strrchr(text, ')'); /* the name before it may hold anything */
	if (at == NULL || at[1] == '\0')
		return EINVAL;
	at += 2;
	field[STATE] = (unsigned char)*at++;
	for (int i = STATE + 1; i <= STACK; i++)
		field[i] = strtoull(at, &at, 10);
	return 0;
}

struct case_shared_process shared_self(uint32_t instance)
{
	uint64_t field[STACK + 1] = {0};

	stat_of(getpid(), field);
	return (struct case_shared_process){
		.pid = (uint32_t)getpid(),
		.instance = instance,
		.started = field[STARTED],
		.code = field[CODE],
		.stack = field[STACK],
	};
}

bool shared_gone(const struct case_shared_process *process)
{
	uint64_t field[STACK + 1];
	const int failed = stat_of((pid_t)process->pid, field);

	if (failed == ENOENT || failed == ESRCH)
		return kill((pid_t)process->pid, 0) != 0 && errno == ESRCH; /* /proc may not be there */
	if (failed)
		return false;
	if (process->started != 0 && field[STARTED] != process->started)
		return true;
	/* The first thread of a program may end before the others. A zombie has closed its files. */
	if ((field[STATE] == 'Z' || field[STATE] == 'X') && field[THREADS] <= 1)
		return true;
	/* A process that does not let others look shows no stack. In exec it has no stack yet. */
	const bool told = field[STACK] != 0 && process->stack != 0;
	return told && (field[CODE] != process->code || field[STACK] != process->stack);
}
