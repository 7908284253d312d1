/* node.c: see node.h. A node has one thread. */
#define _GNU_SOURCE /* memfd_create */
#include "node.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copies.h"
#include "link.h"
#include "net.h"

enum { FAILED_STATUS = 125, HEAD = -1, SIGNALS = -2, NETWORK = -3 }; /* beside ids of PEs in events */

struct local_pe {
	struct local_pe *next;
	ivm_pe id;
	pid_t pid;
	int socket;
	int transfers; /* that it has asked for and the network has not ended */
	bool ended, waits; /* whether the head is to be told of its end after them */
	int status;
};

/* A request that has no reply yet. */
struct asked {
	struct asked *next;
	uint64_t ticket;
	ivm_pe pe;
	int reply, copy; /* -1: the request has no copy */
	bool enters, transfers;
};

static struct link head;
static struct local_pe *pes;
static struct asked *askings;
static uint64_t last_ticket;
static char **program;
static int events;
static const struct net *net; /* NULL on the only node */
static int page;              /* that PEs map, with drops */
static _Atomic uint64_t *drops;

static bool watch(int fd, int id)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = id};

	return epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0;
}

static struct local_pe **find_pe(ivm_pe id)
{
	struct local_pe **link = &pes;

	while (*link != NULL && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

static void forget(struct asked *a)
{
	close(a->reply);
	if (a->copy >= 0)
		close(a->copy);
	free(a);
}

/* answer answers a request, with copies of this node as descriptors. */
static void answer(struct asked *a, const struct reply *reply, const int *fds, int count)
{
	wire_send(a->reply, reply, sizeof *reply, fds, count); /* the PE may have been killed */
	forget(a);
}

/* take removes a request from the list. NULL: its PE has ended, and it is no transfer. */
static struct asked *take(uint64_t ticket)
{
	struct asked **link = &askings;

	while (*link != NULL && (*link)->ticket != ticket)
		link = &(*link)->next;
	struct asked *a = *link;
	if (a != NULL)
		*link = a->next;
	return a;
}

/* report tells the head that a PE has ended, if nothing of it writes to copies any more. */
static void report(struct local_pe **link)
{
	struct local_pe *pe = *link;

	if (pe == NULL || !pe->ended || (pe->waits && pe->transfers > 0))
		return;
	*link = pe->next;
	link_send(&head, &(struct message){.kind = PE_ENDED, .pe = pe->id, .result = pe->status}, NULL);
	free(pe);
}

static void transferred(uint64_t ticket, int result)
{
	struct asked *a = take(ticket);
	struct local_pe **link = find_pe(a->pe);

	answer(a, &(struct reply){.result = result}, NULL, 0);
	if (*link != NULL)
		(*link)->transfers--;
	report(link);
}

/* The head's messages. */

static int start_one(ivm_pe id, const char *gpus)
{
	struct local_pe *pe = calloc(1, sizeof *pe);

	if (pe == NULL)
		return -ENOMEM;
	const pid_t pid = process_start(program, gpus, &pe->socket);
	if (pid < 0) {
		free(pe);
		return pid;
	}
	pe->id = id;
	pe->pid = pid;
	pe->waits = true;
	pe->next = pes;
	pes = pe;
	if (!watch(pe->socket, id)) { /* it ends without a reply */
		say("epoll_ctl: %s", strerror(errno));
		kill(-pid, SIGKILL);
	}
	return pid;
}

static void start(const struct message *m)
{
	struct message started = {.kind = STARTED, .dev = m->dev};
	const char *gpus = gpus_seen_from(m->type == IVM_GPU ? m->number : NO_GPU);
	pid_t *pids = malloc((size_t)m->count * sizeof *pids);

	started.result = pids != NULL ? 0 : -ENOMEM;
	while (started.count < m->count && started.result == 0) {
		const int pid = start_one(m->pe + started.count, gpus);
		if (pid > 0)
			pids[started.count++] = pid;
		else
			started.result = pid;
	}
	started.tail = (uint32_t)started.count * sizeof *pids;
	link_send(&head, &started, pids);
	free(pids);
}

/* attach returns the descriptor of a copy, or a negative errno value. */
static int attach(struct asked *a, const struct attached *copy)
{
	if (!copy->brought)
		return copies_get(copy->object, copy->dev, copy->bytes);
	if (a == NULL) /* the PE that brought it has ended */
		return -ESRCH;
	const int failed = copies_keep(copy->object, copy->dev, copy->bytes, a->copy);
	if (failed)
		return failed;
	const int fd = a->copy;
	a->copy = -1;
	return fd;
}

/* pass_reply gives a PE its reply. A copy that cannot be made is the reply then. */
static void pass_reply(struct message *m)
{
	struct asked *a = take(m->ticket);
	int fds[MOST_FDS], count = 0;

	for (int i = 0; i < m->attached_count; i++) {
		const struct attached *copy = &m->attached[i];
		const int fd = attach(a, copy);
		if (fd < 0) {
			link_send(&head, &(struct message){.kind = COPY_FAILED, .object = copy->object, .dev = copy->dev}, NULL);
			m->reply.result = fd;
			count = 0;
			break;
		}
		fds[count++] = fd;
	}
	if (a != NULL && a->enters && m->reply.result == 0)
		fds[count++] = page;
	if (a != NULL)
		answer(a, &m->reply, fds, count);
}

static void kill_pe(ivm_pe id, bool at_end)
{
	struct local_pe **link = find_pe(id), *pe = *link;

	if (pe == NULL)
		return;
	pe->waits = !at_end;
	if (!pe->ended)
		kill(-pe->pid, SIGKILL);
	report(link);
}

/* meet tells PEs and the network of all nodes. It returns NULL or what went wrong. */
static const char *meet(const char *tail, size_t size)
{
	char *names = calloc(1, size + 1), *end = names;
	const char *failed = NULL;
	struct meeting m;

	for (size_t at = 0; names != NULL && failed == NULL && at + sizeof m <= size; at += sizeof m + m.size) {
		memcpy(&m, tail + at, sizeof m);
		end += sprintf(end, "%s%s", at > 0 ? "," : "", m.name);
		failed = net->meet(tail + at + sizeof m, m.size);
	}
	if (names != NULL && setenv(IVM_HOSTS, names, 1) != 0)
		failed = strerror(errno);
	free(names);
	return failed;
}

/* obey does what the head says. It reports whether this node can go on. */
static bool obey(void)
{
	struct message m;
	void *tail;
	const char *failed = NULL;

	if (!link_receive(&head, &m, &tail))
		return false;
	switch (m.kind) {
	case MEET:
		failed = meet(tail, m.tail);
		break;
	case START:
		start(&m);
		break;
	case KILL:
		kill_pe(m.pe, m.result);
		break;
	case ANSWER:
		pass_reply(&m);
		break;
	case DROP:
		++*drops;
		copies_drop(m.object, m.dev);
		break;
	case COUNT_GPUS:
		link_send(&head, &(struct message){.kind = GPUS, .count = gpus_count()}, NULL);
		break;
	}
	free(tail);
	if (failed != NULL)
		say("the network: %s", failed);
	return failed == NULL;
}

/* The PEs. */

/* forget_requests leaves transfers, which end by themselves. */
static void forget_requests(ivm_pe pe)
{
	for (struct asked **link = &askings; *link != NULL;) {
		struct asked *a = *link;
		if (a->pe == pe && !a->transfers) {
			*link = a->next;
			forget(a);
		} else {
			link = &a->next;
		}
	}
}

static void transfer(const struct asked *a, const struct request *request)
{
	if (net != NULL)
		net->transfer(a->ticket, request->object, request->range, request->from, request->to);
	else
		transferred(a->ticket, -EHOSTUNREACH);
}

/* receive takes a request of a PE. */
static void receive(struct local_pe *pe)
{
	struct message m = {.kind = ASK, .pe = pe->id};
	struct asked *a = malloc(sizeof *a);
	int fds[MOST_FDS];
	const int got = a != NULL ? wire_receive(pe->socket, &m.request, sizeof m.request, fds) : -ENOMEM;

	if (got == 1 && fds[0] >= 0) {
		m.request.name[IVM_NAME] = '\0';
		m.ticket = ++last_ticket;
		m.with_copy = fds[1] >= 0;
		*a = (struct asked){.next = askings, .ticket = m.ticket, .pe = pe->id, .reply = fds[0], .copy = fds[1], .enters = m.request.call == CALL_ENTER, .transfers = m.request.call == CALL_TRANSFER};
		askings = a;
		if (a->transfers) {
			pe->transfers++;
			transfer(a, &m.request);
		} else {
			link_send(&head, &m, NULL);
		}
		return;
	}
	free(a);
	if (got == 0 || got == -ECONNRESET) { /* the PE has closed it, and perhaps ended */
		epoll_ctl(events, EPOLL_CTL_DEL, pe->socket, NULL);
		return;
	}
	link_send(&head, &(struct message){.kind = REFUSED, .pe = pe->id, .result = got == 1 ? -EPROTO : got}, NULL);
	epoll_ctl(events, EPOLL_CTL_DEL, pe->socket, NULL);
}

static void bury(pid_t pid, int status)
{
	struct local_pe **link = &pes;

	while (*link != NULL && ((*link)->pid != pid || (*link)->ended))
		link = &(*link)->next;
	struct local_pe *pe = *link;
	if (pe == NULL)
		return;
	pe->ended = true;
	pe->status = status;
	close(pe->socket);
	forget_requests(pe->id);
	report(link);
}

static void bury_all(int signals)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	if (read(signals, &info, sizeof info) != sizeof info)
		return;
	while ((pid = process_next_end(&status)) > 0)
		bury(pid, status);
}

/* serve returns when the head has gone, or this node cannot go on. */
static bool serve(int signals)
{
	struct epoll_event ready[16];
	bool more = false;

	for (;;) {
		const int n = epoll_wait(events, ready, 16, more ? 0 : -1);
		if (n < 0 && errno != EINTR) {
			say("epoll_wait: %s", strerror(errno));
			return false;
		}
		for (int i = 0; i < n; i++) {
			const int id = ready[i].data.fd;
			if (id == HEAD && ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !obey())
				return true;
			if (id == SIGNALS)
				bury_all(signals);
			struct local_pe *pe = id >= 0 ? *find_pe(id) : NULL;
			if (pe != NULL && !pe->ended)
				receive(pe);
		}
		if (net != NULL)
			more = net->work();
		struct epoll_event of_head = {.events = link_flush(&head) ? EPOLLIN : EPOLLIN | EPOLLOUT, .data.fd = HEAD};
		epoll_ctl(events, EPOLL_CTL_MOD, head.socket, &of_head);
	}
}

/* block_signals returns a descriptor of them. It comes before threads of the network, which would take them else. */
static int block_signals(void)
{
	sigset_t set;

	signal(SIGCHLD, SIG_DFL); /* if it was ignored, ends would not be reported */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT); /* the head ends the application */
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

/* make_page reports whether there is one. */
static bool make_page(void)
{
	page = memfd_create("ivm", MFD_CLOEXEC);
	if (page < 0 || ftruncate(page, sizeof *drops) != 0)
		return false;
	void *at = mmap(NULL, sizeof *drops, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
	drops = at;
	return at != MAP_FAILED;
}

int node_run(int socket, char **argv)
{
	process_raise_limits();
	program = argv;
	head.socket = socket;
	const int signals = block_signals();
	events = events > 0 ? events : epoll_create1(EPOLL_CLOEXEC);
	if (signals < 0 || events < 0 || !make_page() || !watch(signals, SIGNALS) || !watch(socket, HEAD)) {
		say("cannot start a node: %s", strerror(errno));
		return FAILED_STATUS;
	}
	const bool ended = serve(signals);
	for (const struct local_pe *pe = pes; pe != NULL; pe = pe->next)
		if (!pe->ended)
			kill(-pe->pid, SIGKILL);
	return ended ? 0 : FAILED_STATUS;
}

#define ON_ERRORS "UCX_HANDLE_ERRORS"

/* open_net loads the network from beside ivmd. It returns NULL or what went wrong. */
static const char *open_net(int number, struct message *join, const void **address)
{
	static char text[PATH_MAX + 200];
	static struct net_node self = {.hold = copies_hold, .release = copies_release, .done = transferred};
	char path[PATH_MAX + sizeof NET_FILE];
	size_t size;
	int fd;

	const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	if (n < 0)
		return strerror(errno);
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, NET_FILE);
	const bool ours = getenv(ON_ERRORS) == NULL; /* UCX would handle faults, also in a child before it is the program, and could wait there */
	if (ours)
		setenv(ON_ERRORS, "none", 1);
	void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (ours)
		unsetenv(ON_ERRORS);
	const struct net *found = file != NULL ? dlsym(file, NET_SYMBOL) : NULL;
	if (found == NULL) {
		snprintf(text, sizeof text, "%s. Several nodes need UCX (Debian: libucx-dev) and make -C native/ivm", dlerror());
		return text;
	}
	self.number = number;
	const char *failed = found->open(&self, address, &size, &fd);
	if (failed != NULL)
		return failed;
	events = epoll_create1(EPOLL_CLOEXEC);
	if (events < 0 || !watch(fd, NETWORK))
		return strerror(errno);
	net = found;
	join->tail = (uint32_t)size;
	return NULL;
}

/* reach connects to host:port. It returns a socket, or a negative errno value. */
static int reach(char *host)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found, *a;
	char *port = strrchr(host, ':');
	int fd = -1;

	if (port == NULL)
		return -EINVAL;
	*port = '\0';
	if (getaddrinfo(host, port + 1, &hints, &found) != 0)
		return -EHOSTUNREACH;
	for (a = found; a != NULL; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			break;
		if (fd >= 0)
			close(fd);
	}
	freeaddrinfo(found);
	return a != NULL ? fd : -errno;
}

/* own_name stores this node's name. */
static void own_name(char *name, int number)
{
	const char *slurm = getenv("SLURMD_NODENAME");

	if (getenv(IVM_NODE) != NULL)
		snprintf(name, NODE_NAME + 1, "node%d", number);
	else if (slurm != NULL)
		snprintf(name, NODE_NAME + 1, "%s", slurm);
	else
		gethostname(name, NODE_NAME + 1);
}

int node_join(char **argv)
{
	struct message join = {.kind = JOIN};
	const char *where = getenv(IVM_HEAD), *token = getenv(IVM_TOKEN), *number = getenv(IVM_NODE);
	const void *address;

	if (number == NULL)
		number = getenv("SLURM_PROCID");
	if (where == NULL || token == NULL || number == NULL) {
		say("--join is for nodes that ivmd starts");
		return FAILED_STATUS;
	}
	join.joining.number = atoi(number);
	own_name(join.joining.name, join.joining.number);
	snprintf(join.joining.token, sizeof join.joining.token, "%s", token);
	block_signals();
	char *host = strdup(where);
	const int socket = host != NULL ? reach(host) : -ENOMEM;
	if (socket < 0) {
		say("%s cannot reach ivmd at %s: %s", join.joining.name, where, strerror(-socket));
		return FAILED_STATUS;
	}
	free(host);
	const char *failed = open_net(join.joining.number, &join, &address);
	if (failed != NULL) {
		say("%s: %s", join.joining.name, failed);
		return FAILED_STATUS;
	}
	unsetenv(IVM_HEAD);
	unsetenv(IVM_TOKEN);
	unsetenv(IVM_NODE);
	link_over_tcp(socket);
	head.socket = socket;
	link_send(&head, &join, address);
	return node_run(socket, argv);
}
