/* ends.c MODE: PE 2 of four ends as MODE says, while the others call without end. */
#include "check.h"
#include "hosts.h"

#include <signal.h>
#include <sys/wait.h>

enum { BYTES = 1 << 20, BAD = 2 };

static void call_for_ever(ivm_pe self)
{
	char own[16], *all;
	void *at;

	snprintf(own, sizeof own, "own%d", self);
	WANT(ivm_map("all", (void **)&all, NULL), 0);
	for (;;) {
		WANT(ivm_malloc(own, 1 + (size_t)self * BYTES, &at), 0);
		WANT(ivm_sync_get(all, BYTES), 0);
		WANT(ivm_sync_put(all, BYTES), 0);
		WANT(ivm_free(at), 0);
		WANT(ivm_signal(), 0);
		WANT(ivm_wait(self), 0);
	}
}

static int end_as(const char *mode)
{
	if (strcmp(mode, "exit") == 0)
		return 0;
	if (strcmp(mode, "garbage") == 0) {
		HOLDS(write(atoi(getenv("IVM_SOCKET")), mode, 1) == 1);
		pause();
	}
	if (strcmp(mode, "abort") == 0)
		abort();
	if (strcmp(mode, "fault") == 0)
		raise(SIGSEGV);
	WANT(ivm_exit(), 0);
	return strcmp(mode, "status") == 0 ? 3 : 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";
	ivm_pe self;
	ivm_dev devs[2];
	void *all;

	if (strcmp(mode, "help") == 0)
		return 7;
	WANT(ivm_enter(), 0);
	WANT(ivm_get_my_id(&self), 0);
	if (strcmp(mode, "alone") == 0) {
		WANT(ivm_exit(), 0);
		return 5;
	}
	if (strcmp(mode, "helper") == 0) { /* which would outlive the PE */
		const pid_t helper = fork();
		if (helper == 0)
			pause();
		printf("helper %d\n", (int)helper);
		fflush(stdout);
		WANT(ivm_exit(), 0);
		return 0;
	}
	if (self == 0) {
		for (int i = 0; i < 2; i++)
			WANT(ivm_create_dev(host_of(i), IVM_CPU, i, &devs[i]), 0);
		WANT(ivm_malloc("all", BYTES, &all), 0);
		WANT(ivm_create_pes(devs[1], 2, NULL), 2);
		WANT(ivm_create_pes(devs[0], 1, NULL), 1);
	}
	if (self == BAD && strcmp(mode, "none") != 0)
		return end_as(mode);
	call_for_ever(self);
}
