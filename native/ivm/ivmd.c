/* ivmd.c: starts an application and serves its PEs until the last has ended. */
#define _GNU_SOURCE /* EPOLL_CLOEXEC */
#include "ivmd.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] =
	"Usage: ivmd [-v] PROGRAM [ARGUMENT]...\n"
	"\n"
	"Starts PROGRAM as the first processing element (PE) of an application, and the further PEs that it asks for.\n"
	"\n"
	"  -v, --verbose  say on stderr when a PE starts and ends\n"
	"  -h, --help     print this text\n"
	"\n"
	"Exit status: that of the first PE if all PEs ended by themselves. Otherwise:\n"
	"  124    a PE died, or ended without ivm_exit: ivmd says which, and has ended the others\n"
	"  125    wrong options, or ivmd itself failed\n"
	"  126    PROGRAM cannot be started\n"
	"  127    there is no PROGRAM\n"
	"  128+N  ivmd got signal N, and has ended all PEs\n";

enum { DIED = 124, FAILED = 125, NOT_STARTED = 126, NOT_FOUND = 127, SIGNALLED = 128 };

enum phase { STARTED, ENTERED, LEFT, ENDED };

struct pe {
	pid_t pid;
	int socket, dev, group;
	enum phase phase;
	bool killed; /* by ivm_kill_pes */
	int signals; /* that nobody has taken */
};

struct dev {
	enum ivm_dev_type type;
	int number;
	bool destroyed;
};

struct waiting {
	struct waiting *next;
	struct request request;
	ivm_pe pe;
	int reply, copy; /* -1: the request has no copy */
};

static char **program;
static bool verbose;
static struct pe *pes; /* by id */
static int pe_count, living;
static int greatest = INT_MAX; /* id that a PE may get */
static int last_group = -1;
static struct dev *devs;
static int dev_count;
static struct waiting *waits; /* in the order of their arrival */
static int events;
static int status; /* ivmd's */
static bool ending;

enum { SIGNALS = -1 }; /* beside ids of PEs in events */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "ivmd: %s\n", line);
}

/* end_all ends the application with a status. */
static void end_all(int with)
{
	if (ending)
		return;
	ending = true;
	status = with;
	for (int i = 0; i < pe_count; i++)
		if (pes[i].phase != ENDED)
			kill(-pes[i].pid, SIGKILL);
}

static void *grown(void *list, int count, size_t size)
{
	void *more = realloc(list, (size_t)(count + 1) * size);

	if (more == NULL) {
		say("no memory");
		_exit(FAILED); /* which ends the PEs */
	}
	return more;
}

static struct dev *find_dev(ivm_dev dev)
{
	return dev >= 0 && dev < dev_count && !devs[dev].destroyed ? &devs[dev] : NULL;
}

static struct pe *find_pe(ivm_pe pe)
{
	return pe >= 0 && pe < pe_count ? &pes[pe] : NULL;
}

static int make_dev(enum ivm_dev_type type, int number)
{
	for (int i = 0; i < dev_count; i++)
		if (devs[i].type == type && devs[i].number == number && !devs[i].destroyed)
			return i;
	devs = grown(devs, dev_count, sizeof *devs);
	devs[dev_count] = (struct dev){.type = type, .number = number};
	return dev_count++;
}

static void watch(int fd, int id)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = id};

	if (epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) != 0) {
		say("epoll_ctl: %s", strerror(errno));
		_exit(FAILED);
	}
}

/* start_pe returns 0 or a negative errno value. */
static int start_pe(ivm_dev dev, int group)
{
	int socket;
	const pid_t pid = process_start(program, gpus_seen_from(devs[dev].type == IVM_GPU ? devs[dev].number : NO_GPU), &socket);

	if (pid < 0)
		return pid;
	pes = grown(pes, pe_count, sizeof *pes);
	pes[pe_count] = (struct pe){.pid = pid, .socket = socket, .dev = dev, .group = group};
	watch(socket, pe_count);
	if (verbose)
		say("PE %d starts on device %d (pid %d)", pe_count, dev, (int)pid);
	pe_count++;
	living++;
	return 0;
}

/* The calls. Each returns a result or LATER. */

static int enter(struct caller *caller, const struct request *request)
{
	struct pe *pe = &pes[caller->pe];

	(void)request;
	if (pe->phase != STARTED)
		return -EALREADY;
	pe->phase = ENTERED;
	caller->reply.pe = caller->pe;
	caller->reply.group = pe->group;
	caller->reply.type = (int32_t)devs[pe->dev].type;
	return 0;
}

static int leave(struct caller *caller, const struct request *request)
{
	(void)request;
	pes[caller->pe].phase = LEFT;
	return 0;
}

static int create_dev(struct caller *caller, const struct request *request)
{
	char own[HOST_NAME_MAX + 1];

	if (request->name[0] != '\0' && (gethostname(own, sizeof own) != 0 || strcmp(own, request->name) != 0))
		return -EHOSTUNREACH;
	if (request->type == IVM_THIS_DEV)
		caller->reply.dev = caller->dev;
	else if ((request->type == IVM_CPU && request->dev >= 0) || (request->type == IVM_GPU && request->dev >= 0 && gpus_seen_from(request->dev) != NULL))
		caller->reply.dev = make_dev((enum ivm_dev_type)request->type, request->dev);
	else
		return -ENODEV;
	return 0;
}

static int destroy_dev(struct caller *caller, const struct request *request)
{
	struct dev *dev = find_dev(request->dev);

	(void)caller;
	if (dev == NULL)
		return -ENODEV;
	for (int i = 0; i < pe_count; i++)
		if (pes[i].dev == request->dev && pes[i].phase != ENDED)
			return -EBUSY;
	const int failed = objects_drop_mirrors(request->dev);
	dev->destroyed = !failed;
	return failed;
}

static int create_pes(struct caller *caller, const struct request *request)
{
	const int first = pe_count;
	int failed = 0;

	if (find_dev(request->dev) == NULL)
		return -ENODEV;
	if (request->count < 0)
		return -EINVAL;
	if (request->count == 0 || first > greatest)
		return 0;
	last_group++;
	while (failed == 0 && pe_count - first < request->count && pe_count <= greatest)
		failed = start_pe(request->dev, last_group);
	caller->reply.pe = first;
	return pe_count > first ? pe_count - first : failed;
}

static int kill_pe(struct caller *caller, const struct request *request)
{
	struct pe *pe = find_pe(request->pe);

	if (pe == NULL || pe->dev != request->dev || (pe->phase == ENDED && !pe->killed))
		return -ESRCH;
	if (request->pe == 0 || request->pe == caller->pe)
		return -EPERM;
	if (pe->phase == ENDED)
		return 0;
	if (!pe->killed)
		kill(-pe->pid, SIGKILL);
	pe->killed = true;
	return LATER;
}

static int set_max(struct caller *caller, const struct request *request)
{
	(void)caller;
	if (request->pe < 0)
		return -EINVAL;
	greatest = request->pe;
	return 0;
}

static int wait_for(struct caller *caller, const struct request *request)
{
	struct pe *pe = find_pe(request->pe);

	(void)caller;
	if (pe == NULL)
		return request->pe < 0 || request->pe > greatest ? -EINVAL : LATER;
	if (pe->signals == 0)
		return pe->phase >= LEFT ? -ESRCH : LATER;
	pe->signals--;
	return 0;
}

static int signal_waiter(struct caller *caller, const struct request *request)
{
	struct pe *pe = &pes[caller->pe];

	(void)request;
	if (pe->signals == INT_MAX)
		return -EAGAIN;
	pe->signals++;
	return 0;
}

static int mirror(struct caller *caller, const struct request *request)
{
	return find_dev(request->dev) != NULL ? objects_mirror(caller, request) : -ENODEV;
}

static int (*const calls[])(struct caller *, const struct request *) = {
	[CALL_ENTER] = enter,
	[CALL_EXIT] = leave,
	[CALL_CREATE_DEV] = create_dev,
	[CALL_DESTROY_DEV] = destroy_dev,
	[CALL_CREATE_PES] = create_pes,
	[CALL_KILL_PE] = kill_pe,
	[CALL_SET_MAX] = set_max,
	[CALL_WAIT] = wait_for,
	[CALL_SIGNAL] = signal_waiter,
	[CALL_MALLOC] = objects_malloc,
	[CALL_FREE] = objects_free,
	[CALL_MAP] = objects_map,
	[CALL_FILLED] = objects_filled,
	[CALL_FAILED] = objects_failed,
	[CALL_MIRROR] = mirror,
};

/* answer reports whether it has answered. */
static bool answer(const struct waiting *w)
{
	struct caller caller = {.pe = w->pe, .dev = pes[w->pe].dev, .gpu = devs[pes[w->pe].dev].type == IVM_GPU, .copy = w->copy};
	const bool known = w->request.call < sizeof calls / sizeof *calls;
	const bool now = w->request.call == CALL_ENTER || pes[w->pe].phase == ENTERED;

	const int result = !known ? -ENOSYS : !now ? -ENOTCONN : calls[w->request.call](&caller, &w->request);
	if (result == LATER)
		return false;
	caller.reply.result = result;
	wire_send(w->reply, &caller.reply, sizeof caller.reply, caller.fds, caller.fd_count); /* the PE may have been killed */
	close(w->reply);
	if (caller.copy >= 0)
		close(caller.copy);
	return true;
}

/* answer_waits answers what can be answered now. An answer may allow that of an earlier request. */
static void answer_waits(void)
{
	for (struct waiting **link = &waits; *link != NULL;) {
		struct waiting *w = *link;
		if (answer(w)) {
			*link = w->next;
			free(w);
			link = &waits;
		} else {
			link = &w->next;
		}
	}
}

static void forget_waits(ivm_pe pe)
{
	for (struct waiting **link = &waits; *link != NULL;) {
		struct waiting *w = *link;
		if (w->pe == pe) {
			*link = w->next;
			close(w->reply);
			if (w->copy >= 0)
				close(w->copy);
			free(w);
		} else {
			link = &w->next;
		}
	}
}

/* receive takes a request of a PE. */
static void receive(ivm_pe id)
{
	struct waiting *w = grown(NULL, 0, sizeof *w), **link = &waits;
	int fds[MOST_FDS];
	const int got = wire_receive(pes[id].socket, &w->request, sizeof w->request, fds);

	if (got == 1 && fds[0] >= 0) {
		w->next = NULL;
		w->request.name[IVM_NAME] = '\0';
		w->pe = id;
		w->reply = fds[0];
		w->copy = fds[1];
		while (*link != NULL)
			link = &(*link)->next;
		*link = w;
		return;
	}
	free(w);
	if (got == 0 || got == -ECONNRESET) { /* the PE has closed it, and perhaps ended */
		epoll_ctl(events, EPOLL_CTL_DEL, pes[id].socket, NULL);
		return;
	}
	say("PE %d (pid %d) sent what is not a request, so its application ends", id, (int)pes[id].pid);
	end_all(DIED);
}

/* judge says what was wrong with the end of a PE, if it was. */
static void judge(ivm_pe id, const struct pe *pe, int ended)
{
	const char *rest = living > 0 ? ", so its application ends" : "";

	if (ending || pe->killed)
		return;
	if (WIFSIGNALED(ended))
		say("PE %d (pid %d) was killed by signal %d (%s)%s", id, (int)pe->pid, WTERMSIG(ended), strsignal(WTERMSIG(ended)), rest);
	else if (id == 0 && (pe->phase == LEFT || (pe->phase == STARTED && pe_count == 1))) {
		status = WEXITSTATUS(ended);
		return;
	} else if (pe->phase != LEFT)
		say("PE %d (pid %d) ended with status %d without ivm_%s%s", id, (int)pe->pid, WEXITSTATUS(ended), pe->phase == STARTED ? "enter" : "exit", rest);
	else if (WEXITSTATUS(ended) != 0)
		say("PE %d (pid %d) ended with status %d%s", id, (int)pe->pid, WEXITSTATUS(ended), rest);
	else
		return;
	end_all(DIED);
}

static void bury(pid_t pid, int ended)
{
	ivm_pe id = 0;

	while (id < pe_count && (pes[id].pid != pid || pes[id].phase == ENDED))
		id++;
	if (id == pe_count)
		return;
	struct pe *pe = &pes[id];
	living--;
	judge(id, pe, ended);
	if (verbose)
		say("PE %d ends (pid %d)", id, (int)pid);
	pe->phase = ENDED;
	close(pe->socket);
	forget_waits(id);
	objects_leave(id);
}

static void handle_signals(int fd)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int ended;

	if (read(fd, &info, sizeof info) != sizeof info)
		return;
	if (info.ssi_signo != SIGCHLD && !ending) {
		say("signal %d (%s): the application ends", (int)info.ssi_signo, strsignal((int)info.ssi_signo));
		end_all(SIGNALLED + (int)info.ssi_signo);
	}
	while ((pid = process_next_end(&ended)) > 0)
		bury(pid, ended);
}

static int serve(int signals)
{
	struct epoll_event ready[16];

	while (living > 0) {
		const int n = epoll_wait(events, ready, 16, -1);
		if (n < 0 && errno != EINTR) {
			say("epoll_wait: %s", strerror(errno));
			return FAILED;
		}
		for (int i = 0; i < n; i++)
			if (ready[i].data.fd == SIGNALS)
				handle_signals(signals);
			else if (pes[ready[i].data.fd].phase != ENDED)
				receive(ready[i].data.fd);
		if (!ending)
			answer_waits();
	}
	return status;
}

/* open_standard opens 0, 1 and 2 where they are closed, so that no socket gets these numbers. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int block_signals(void)
{
	sigset_t set;

	signal(SIGCHLD, SIG_DFL); /* if it was ignored, ends would not be reported */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'}, {0}};
	int option;

	while ((option = getopt_long(argc, argv, "+vh", options, NULL)) != -1)
		switch (option) {
		case 'v':
			verbose = true;
			break;
		case 'h':
			return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? FAILED : 0;
		default:
			fputs("ivmd: try ivmd --help\n", stderr);
			return FAILED;
		}
	if (optind == argc) {
		say("no PROGRAM: try ivmd --help");
		return FAILED;
	}
	program = argv + optind;
	open_standard();
	const int signals = block_signals();
	events = epoll_create1(EPOLL_CLOEXEC);
	if (signals < 0 || events < 0) {
		say("cannot start: %s", strerror(errno));
		return FAILED;
	}
	watch(signals, SIGNALS);
	const int failed = start_pe(make_dev(IVM_CPU, 0), ++last_group);
	if (failed) {
		say("cannot start %s: %s", program[0], strerror(-failed));
		return failed == -ENOENT ? NOT_FOUND : NOT_STARTED;
	}
	return serve(signals);
}
