/* process_test.c: which processes count as gone (shared/process.h). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../shared/process.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("process_test:%d: %s: %s\n", __LINE__, __func__, #condition); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

static int told[2]; /* a child says here who it is */

static void tell(void)
{
	const struct case_shared_process self = shared_self(7);

	CHECK(write(told[1], &self, sizeof self) == sizeof self);
}

static struct case_shared_process hear(void)
{
	struct case_shared_process process;

	CHECK(read(told[0], &process, sizeof process) == sizeof process);
	return process;
}

/* A process number that the system has used again is not the client's. */
static void used_again(void)
{
	const struct case_shared_process self = shared_self(7);
	struct case_shared_process other = self;

	CHECK(self.pid == (uint32_t)getpid() && self.instance == 7 && self.started != 0 && self.stack != 0);
	CHECK(!shared_gone(&self));
	other.started--;
	CHECK(shared_gone(&other));
	other = self;
	other.stack -= 16;
	CHECK(shared_gone(&other));
	other.stack = 0; /* it could not be told */
	CHECK(!shared_gone(&other));
}

/* A zombie has already given its memory back. */
static void zombie(void)
{
	const pid_t child = fork();

	if (child == 0) {
		tell();
		pause();
	}
	const struct case_shared_process process = hear();
	CHECK(!shared_gone(&process));
	CHECK(kill(child, SIGKILL) == 0);
	siginfo_t ended;
	CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
	CHECK(shared_gone(&process));
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(shared_gone(&process));
}

static char state_of(pid_t pid)
{
	char path[32], text[512], state = '?';

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");
	if (file != NULL && fgets(text, sizeof text, file) != NULL && strrchr(text, ')') != NULL)
		state = strrchr(text, ')')[2];
	if (file != NULL)
		fclose(file);
	return state;
}

static void *lives_on(void *unused)
{
	pause();
	return unused;
}

/* A program goes on after its first thread has ended. */
static void first_thread_ended(void)
{
	const pid_t child = fork();

	if (child == 0) {
		pthread_t other;
		CHECK(pthread_create(&other, NULL, lives_on, NULL) == 0);
		tell();
		pthread_exit(NULL);
	}
	const struct case_shared_process process = hear();
	while (state_of(child) != 'Z')
		usleep(1000);
	CHECK(!shared_gone(&process));
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child && shared_gone(&process));
}

static void exec(void)
{
	const pid_t child = fork();

	if (child == 0) {
		tell();
		execl("/proc/self/exe", "again", NULL);
	}
	const struct case_shared_process before = hear(), after = hear();
	CHECK(before.pid == after.pid && before.started == after.started);
	CHECK(shared_gone(&before) && !shared_gone(&after));
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "again") == 0) {
		told[1] = atoi(getenv("TOLD"));
		tell();
		return pause();
	}
	char number[16];

	CHECK(pipe(told) == 0);
	snprintf(number, sizeof number, "%d", told[1]);
	setenv("TOLD", number, 1);
	alarm(60);
	used_again();
	zombie();
	first_thread_ended();
	exec();
	puts("process_test: ok");
	return 0;
}
