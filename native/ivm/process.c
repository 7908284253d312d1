/* process.c: see node.h. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"
#include "wire.h"

static struct rlimit descriptors; /* what PEs get */
static void (*on_large_file)(int);

void process_raise_limits(void)
{
	struct rlimit raised;

	on_large_file = signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &descriptors);
	raised = descriptors;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(RLIMIT_NOFILE, &raised);
}

static bool restore_limits(void)
{
	return signal(SIGXFSZ, on_large_file) != SIG_ERR && setrlimit(RLIMIT_NOFILE, &descriptors) == 0;
}

/* become turns the new process into the program. It returns if it cannot. */
static void become(char **argv, const char *gpus, int socket, pid_t ivmd)
{
	char number[16];
	sigset_t none;

	sigemptyset(&none);
	snprintf(number, sizeof number, "%d", socket);
	if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return;
	if (getppid() != ivmd) /* it has gone before the prctl */
		_exit(1);
	if (gpus != NULL && setenv("CUDA_VISIBLE_DEVICES", gpus, 1) != 0)
		return;
	signal(SIGPIPE, SIG_DFL); /* which ivmd ignores */
	if (restore_limits() && fcntl(socket, F_SETFD, 0) == 0 && setenv(IVM_SOCKET, number, 1) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		execvp(argv[0], argv);
}

pid_t process_start(char **argv, const char *gpus, int *socket)
{
	int pair[2], report[2], failed = 0; /* the new process reports why it cannot become the program */
	const pid_t ivmd = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	if (pipe2(report, O_CLOEXEC) != 0) {
		failed = errno;
		close(pair[0]);
		close(pair[1]);
		return -failed;
	}
	const pid_t pid = fork();
	if (pid == 0) {
		become(argv, gpus, pair[1], ivmd);
		failed = errno;
		_exit(write(report[1], &failed, sizeof failed) == sizeof failed ? 127 : 126);
	}
	if (pid < 0)
		failed = errno;
	close(pair[1]);
	close(report[1]);
	if (pid > 0)
		while (read(report[0], &failed, sizeof failed) < 0 && errno == EINTR)
			;
	close(report[0]);
	if (failed == 0) {
		*socket = pair[0];
		return pid;
	}
	close(pair[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return -failed;
}

pid_t process_next_end(int *status)
{
	siginfo_t info = {.si_pid = 0};

	/* Until it is removed, nobody else gets its number, nor its group's. */
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
		return 0;
	kill(-info.si_pid, SIGKILL);
	return waitpid(info.si_pid, status, 0);
}
