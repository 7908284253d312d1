/* ivmd.c: the head of an application. It starts the nodes and the first PE, and answers the requests of PEs until the last has ended. */
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
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"
#include "nodes.h"

static const char help[] =
	"Usage: ivmd [-v] [--nodes N | --slurm] PROGRAM [ARGUMENT]...\n"
	"\n"
	"Starts PROGRAM as the first processing element (PE) of an application, and the further PEs that it asks for.\n"
	"\n"
	"      --nodes N  have N nodes on this host, which copy over a network as nodes of a cluster do\n"
	"      --slurm    have a node on each node of the allocation of Slurm that this command runs in\n"
	"  -v, --verbose  say on stderr when a PE starts and ends, and how many bytes PEs have copied\n"
	"  -h, --help     print this text\n"
	"\n"
	"Exit status: that of the first PE if all PEs ended by themselves. Otherwise:\n"
	"  124    a PE died, or ended without ivm_exit, or a node was lost: ivmd says which, and has ended all others\n"
	"  125    wrong options, no nodes, or ivmd itself failed\n"
	"  126    PROGRAM cannot be started\n"
	"  127    there is no PROGRAM\n"
	"  128+N  ivmd got signal N, and has ended all PEs. A second signal ends ivmd at once, and the kernel its processes\n";

enum { DIED = 124, FAILED = 125, NOT_STARTED = 126, NOT_FOUND = 127, SIGNALLED = 128 };

enum phase { BORN, ENTERED, LEFT, ENDED };

struct pe {
	pid_t pid;
	int dev, group;
	enum phase phase;
	bool killed; /* by ivm_kill_pes */
	int signals; /* that nobody has taken */
};

struct dev {
	enum ivm_dev_type type;
	int node, number;
	bool destroyed;
};

struct waiting {
	struct waiting *next;
	struct request request;
	ivm_pe pe;
	uint64_t ticket; /* of the PE's node */
	bool brings;     /* a copy, which its node keeps */
	bool started;    /* PEs, as many as count from first on */
	int first, count;
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
static struct range copied; /* by PEs that have left, as CALL_EXIT says it */
static int events;
static int status; /* ivmd's */
static bool ending;

/* A node starts PEs for one request at a time, so that ids follow one another. */
static bool starting;
static ivm_dev starting_on;
static struct waiting *starting_for; /* NULL: its PE has ended, or it is the first PE */

enum { SIGNALS = -1 }; /* beside numbers of nodes in events */

void say(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fprintf(stderr, "ivmd: %s\n", line);
}

static void kill_process(ivm_pe id)
{
	if (pes[id].phase != ENDED)
		link_send(&nodes[devs[pes[id].dev].node].link, &(struct message){.kind = KILL, .pe = id, .result = ending}, NULL);
}

/* end_all ends the application with a status. */
static void end_all(int with)
{
	if (ending)
		return;
	ending = true;
	status = with;
	for (int i = 0; i < pe_count; i++)
		kill_process(i);
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

struct home home_of(ivm_dev dev)
{
	return (struct home){devs[dev].node, dev};
}

bool is_gpu(ivm_dev dev)
{
	return devs[dev].type == IVM_GPU;
}

void drop_copy(uint64_t object, ivm_dev dev)
{
	for (int i = 0; i < node_count; i++)
		link_send(&nodes[i].link, &(struct message){.kind = DROP, .object = object, .dev = dev}, NULL);
}

static int make_dev(int node, enum ivm_dev_type type, int number)
{
	for (int i = 0; i < dev_count; i++)
		if (devs[i].node == node && devs[i].type == type && devs[i].number == number && !devs[i].destroyed)
			return i;
	devs = grown(devs, dev_count, sizeof *devs);
	devs[dev_count] = (struct dev){.node = node, .type = type, .number = number};
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

/* start_pes has PEs of the next ids started, for a request or NULL. */
static void start_pes(ivm_dev dev, int count, struct waiting *w)
{
	last_group++;
	starting = true;
	starting_on = dev;
	starting_for = w;
	link_send(&nodes[devs[dev].node].link, &(struct message){.kind = START, .pe = pe_count, .dev = dev, .type = (int32_t)devs[dev].type, .number = devs[dev].number, .count = count}, NULL);
}

/* on_node returns what messages have of a node, if there are several. */
static const char *on_node(int node)
{
	static char text[NODE_NAME + 5];

	snprintf(text, sizeof text, " on %s", nodes[node].name);
	return node_count > 1 ? text : "";
}

/* started takes what a node has started. It returns why it has not started all, or 0. */
static int started(const struct message *m, const pid_t *pids)
{
	struct waiting *w = starting_for;

	for (int i = 0; i < m->count; i++) {
		pes = grown(pes, pe_count, sizeof *pes);
		pes[pe_count] = (struct pe){.pid = pids[i], .dev = m->dev, .group = last_group};
		if (verbose)
			say("PE %d starts on device %d (pid %d%s)", pe_count, m->dev, (int)pids[i], on_node(devs[m->dev].node));
		pe_count++;
		living++;
	}
	starting = false;
	if (w != NULL) {
		w->started = true;
		w->first = pe_count - m->count;
		w->count = m->count > 0 ? m->count : m->result;
	}
	for (int i = 0; ending && i < m->count; i++)
		kill_process(pe_count - 1 - i);
	return m->result;
}

/* The calls. Each returns a result or LATER. */

static int enter(struct caller *caller, const struct request *request)
{
	struct pe *pe = &pes[caller->pe];

	(void)request;
	if (pe->phase != BORN)
		return -EALREADY;
	pe->phase = ENTERED;
	caller->answer.reply.pe = caller->pe;
	caller->answer.reply.group = pe->group;
	caller->answer.reply.type = (int32_t)devs[pe->dev].type;
	return 0;
}

static int leave(struct caller *caller, const struct request *request)
{
	pes[caller->pe].phase = LEFT;
	copied.begin += request->range.begin;
	copied.end += request->range.end;
	return 0;
}

/* find_node returns the number of a node by its name, the caller's if it is empty, or -1. */
static int find_node(const struct caller *caller, const char *name)
{
	int i = 0;

	if (name[0] == '\0')
		return devs[caller->dev].node;
	while (i < node_count && strcmp(nodes[i].name, name) != 0)
		i++;
	return i < node_count ? i : -1;
}

/* has_gpu returns whether a node has a GPU of a number, or LATER. */
static int has_gpu(struct node *node, int number)
{
	if (node->gpus == NOT_ASKED) {
		node->gpus = ASKED;
		link_send(&node->link, &(struct message){.kind = COUNT_GPUS}, NULL);
	}
	return node->gpus == ASKED ? LATER : number < node->gpus;
}

static int create_dev(struct caller *caller, const struct request *request)
{
	const int node = find_node(caller, request->name);
	int has = request->type == IVM_CPU && request->dev >= 0;

	if (node < 0)
		return -EHOSTUNREACH;
	if (request->type == IVM_THIS_DEV) {
		caller->answer.reply.dev = caller->dev;
		return 0;
	}
	if (request->type == IVM_GPU && request->dev >= 0)
		has = has_gpu(&nodes[node], request->dev);
	if (has == LATER)
		return LATER;
	if (!has)
		return -ENODEV;
	caller->answer.reply.dev = make_dev(node, (enum ivm_dev_type)request->type, request->dev);
	return 0;
}

static int destroy_dev(struct caller *caller, const struct request *request)
{
	struct dev *dev = find_dev(request->dev);

	(void)caller;
	if (dev == NULL)
		return -ENODEV;
	if (starting && starting_on == request->dev)
		return -EBUSY;
	for (int i = 0; i < pe_count; i++)
		if (pes[i].dev == request->dev && pes[i].phase != ENDED)
			return -EBUSY;
	const int failed = objects_drop_mirrors(request->dev);
	dev->destroyed = !failed;
	return failed;
}

static int create_pes(struct caller *caller, const struct request *request)
{
	struct waiting *w = caller->waiting;
	int count = request->count;

	if (w->started) {
		caller->answer.reply.pe = w->first;
		return w->count;
	}
	if (starting)
		return LATER;
	if (find_dev(request->dev) == NULL)
		return -ENODEV;
	if (count < 0)
		return -EINVAL;
	if (pe_count > greatest || count == 0)
		return 0;
	if (count - 1 > greatest - pe_count)
		count = greatest - pe_count + 1;
	start_pes(request->dev, count, w);
	return LATER;
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
		kill_process(request->pe);
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
	[CALL_TRANSFER] = NULL, /* of nodes */
};

/* answer reports whether it has answered. */
static bool answer(struct waiting *w)
{
	struct caller caller = {.pe = w->pe, .dev = pes[w->pe].dev, .gpu = is_gpu(pes[w->pe].dev), .brings = w->brings, .waiting = w, .answer = {.kind = ANSWER, .ticket = w->ticket}};
	const bool known = w->request.call < sizeof calls / sizeof *calls && calls[w->request.call] != NULL;
	const bool now = w->request.call == CALL_ENTER || pes[w->pe].phase == ENTERED;

	const int result = !known ? -ENOSYS : !now ? -ENOTCONN : calls[w->request.call](&caller, &w->request);
	if (result == LATER)
		return false;
	caller.answer.reply.result = result;
	link_send(&nodes[devs[caller.dev].node].link, &caller.answer, NULL);
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
			if (starting_for == w)
				starting_for = NULL;
			free(w);
		} else {
			link = &w->next;
		}
	}
}

/* queue keeps a request of a PE until it is answered. */
static void queue(const struct message *m)
{
	struct waiting *w = grown(NULL, 0, sizeof *w), **link = &waits;

	*w = (struct waiting){.request = m->request, .pe = m->pe, .ticket = m->ticket, .brings = m->with_copy != 0};
	while (*link != NULL)
		link = &(*link)->next;
	*link = w;
}

/* judge says what was wrong with the end of a PE, if it was. */
static void judge(ivm_pe id, const struct pe *pe, int ended)
{
	const char *rest = living > 0 ? ", so its application ends" : "";

	if (ending || pe->killed)
		return;
	if (WIFSIGNALED(ended))
		say("PE %d (pid %d) was killed by signal %d (%s)%s", id, (int)pe->pid, WTERMSIG(ended), strsignal(WTERMSIG(ended)), rest);
	else if (id == 0 && (pe->phase == LEFT || (pe->phase == BORN && pe_count == 1))) {
		status = WEXITSTATUS(ended);
		return;
	} else if (pe->phase != LEFT)
		say("PE %d (pid %d) ended with status %d without ivm_%s%s", id, (int)pe->pid, WEXITSTATUS(ended), pe->phase == BORN ? "enter" : "exit", rest);
	else if (WEXITSTATUS(ended) != 0)
		say("PE %d (pid %d) ended with status %d%s", id, (int)pe->pid, WEXITSTATUS(ended), rest);
	else
		return;
	end_all(DIED);
}

static void bury(ivm_pe id, int ended)
{
	struct pe *pe = &pes[id];

	living--;
	judge(id, pe, ended);
	if (verbose)
		say("PE %d ends (pid %d)", id, (int)pe->pid);
	pe->phase = ENDED;
	forget_waits(id);
	objects_leave(id);
}

/* lose ends the application without a node. */
static void lose(int number)
{
	nodes[number].gone = true;
	epoll_ctl(events, EPOLL_CTL_DEL, nodes[number].link.socket, NULL);
	say("node %s is lost%s", nodes[number].name, ending ? "" : ", so its application ends");
	end_all(DIED);
	for (int i = 0; i < pe_count; i++)
		if (devs[pes[i].dev].node == number && pes[i].phase != ENDED) {
			pes[i].phase = ENDED;
			living--;
		}
	starting = false; /* nobody starts PEs any more */
}

/* receive takes a message of a node. */
static void receive(int number)
{
	struct message m;
	void *tail;

	if (!link_receive(&nodes[number].link, &m, &tail)) {
		lose(number);
		return;
	}
	switch (m.kind) {
	case STARTED: {
		const int failed = started(&m, tail);
		if (pe_count == 0) {
			say("cannot start %s: %s", program[0], strerror(-failed));
			status = failed == -ENOENT ? NOT_FOUND : NOT_STARTED;
		}
		break;
	}
	case ASK:
		queue(&m);
		break;
	case REFUSED:
		if (m.result == -EPROTO)
			say("PE %d (pid %d) sent what is not a request, so its application ends", m.pe, (int)pes[m.pe].pid);
		else
			say("cannot take a request of PE %d (pid %d)%s: %s, so its application ends", m.pe, (int)pes[m.pe].pid, on_node(number), strerror(-m.result));
		end_all(DIED);
		break;
	case PE_ENDED:
		bury(m.pe, m.result);
		break;
	case GPUS:
		nodes[number].gpus = m.count;
		break;
	case COPY_FAILED:
		objects_not_made(m.object, m.dev);
		break;
	}
	free(tail);
}

static void handle_signal(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof info) != sizeof info)
		return;
	if (ending) { /* a node may be stopped, or its host gone */
		say("signal %d (%s) while the application ends: ivmd does not wait for its end", (int)info.ssi_signo, strsignal((int)info.ssi_signo));
		_exit(SIGNALLED + (int)info.ssi_signo); /* which ends nodes, and that ends PEs */
	}
	say("signal %d (%s): the application ends", (int)info.ssi_signo, strsignal((int)info.ssi_signo));
	end_all(SIGNALLED + (int)info.ssi_signo);
}

/* flush_links sends what can be sent, and waits for what cannot. */
static void flush_links(void)
{
	for (int i = 0; i < node_count; i++) {
		struct epoll_event event = {.events = link_flush(&nodes[i].link) ? EPOLLIN : EPOLLIN | EPOLLOUT, .data.fd = i};
		if (!nodes[i].gone)
			epoll_ctl(events, EPOLL_CTL_MOD, nodes[i].link.socket, &event);
	}
}

static int serve(int signals)
{
	struct epoll_event ready[16];

	while (living > 0 || starting) {
		const int n = epoll_wait(events, ready, 16, -1);
		if (n < 0 && errno != EINTR) {
			say("epoll_wait: %s", strerror(errno));
			return FAILED;
		}
		for (int i = 0; i < n; i++)
			if (ready[i].data.fd == SIGNALS)
				handle_signal(signals);
			else if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				receive(ready[i].data.fd);
		if (!ending)
			answer_waits();
		flush_links();
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

static sigset_t ending_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return set;
}

static int block_signals(void)
{
	const sigset_t set = ending_signals();

	return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

static void unblock_signals(void)
{
	const sigset_t set = ending_signals();

	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* whole returns the number that a text is, or 0. */
static int whole(const char *text)
{
	char *end;
	const long n = strtol(text, &end, 10);

	return *end == '\0' && n > 0 && n <= 1024 ? (int)n : 0;
}

int main(int argc, char **argv)
{
	enum { NODES = 256, SLURM, JOIN };
	static const struct option options[] = {{"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'}, {"nodes", required_argument, NULL, NODES},
						{"slurm", no_argument, NULL, SLURM}, {"join", no_argument, NULL, JOIN}, {0}};
	int option, count = 0;
	bool slurm = false, join = false;

	while ((option = getopt_long(argc, argv, "+vh", options, NULL)) != -1)
		switch (option) {
		case 'v':
			verbose = true;
			break;
		case 'h':
			return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? FAILED : 0;
		case NODES:
			count = whole(optarg);
			if (count == 0) {
				say("--nodes %s is not a number from 1 to 1024", optarg);
				return FAILED;
			}
			break;
		case SLURM:
			slurm = true;
			break;
		case JOIN:
			join = true;
			break;
		default:
			fputs("ivmd: try ivmd --help\n", stderr);
			return FAILED;
		}
	if (optind == argc) {
		say("no PROGRAM: try ivmd --help");
		return FAILED;
	}
	if (count > 0 && slurm) {
		say("--nodes and --slurm exclude each other");
		return FAILED;
	}
	program = argv + optind;
	open_standard();
	signal(SIGPIPE, SIG_IGN); /* whoever reads its messages may end first */
	if (join)
		return node_join(program);
	if ((slurm ? nodes_of_slurm(program) : count > 0 ? nodes_here(count, program) : nodes_one(program)) != 0)
		return FAILED;
	const int signals = block_signals();
	events = epoll_create1(EPOLL_CLOEXEC);
	if (signals < 0 || events < 0) {
		say("cannot start: %s", strerror(errno));
		return FAILED;
	}
	watch(signals, SIGNALS);
	for (int i = 0; i < node_count; i++)
		watch(nodes[i].link.socket, i);
	start_pes(make_dev(0, IVM_CPU, 0), 1, NULL);
	const int result = serve(signals);
	if (verbose)
		say("%llu bytes were copied between devices, %llu of them between nodes", (unsigned long long)copied.begin, (unsigned long long)copied.end);
	unblock_signals(); /* which end ivmd if a node does not end */
	nodes_end();
	return result;
}
