/* nodes.c: see nodes.h. */
#define _GNU_SOURCE /* accept4 */
#include "nodes.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node.h"

enum { JOIN_SECONDS = 60, MOST_STRANGERS = 64, MOST_ADDRESS = 64 << 10 };

struct node *nodes;
int node_count;

static pid_t *children;
static int child_count;

static int fail(const char *what)
{
	say("cannot start nodes: %s: %s", what, strerror(errno));
	return -1;
}

/* start forks. The child is in a group of its own, so that the terminal's signals are for the head alone. It ends with the head. */
static pid_t start(void)
{
	const pid_t head = getpid(), pid = fork();

	if (pid == 0) {
		if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != head)
			_exit(1);
	} else if (pid > 0) {
		children[child_count++] = pid;
	}
	return pid;
}

static int make(int count)
{
	nodes = calloc((size_t)count, sizeof *nodes);
	children = calloc((size_t)count, sizeof *children);
	node_count = count;
	for (int i = 0; nodes != NULL && i < count; i++)
		nodes[i].gpus = NOT_ASKED;
	return nodes != NULL && children != NULL ? 0 : fail("memory");
}

int nodes_one(char **program)
{
	int pair[2];

	if (make(1) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return fail("socketpair");
	gethostname(nodes[0].name, NODE_NAME);
	unsetenv(IVM_HOSTS); /* of an application that this one is started in */
	const pid_t pid = start();
	if (pid == 0) {
		close(pair[0]);
		_exit(node_run(pair[1], program));
	}
	close(pair[1]);
	nodes[0].link.socket = pair[0];
	return pid > 0 ? 0 : fail("fork");
}

/* serve_joins makes a socket for nodes that join, and puts what they need into the environment. */
static int serve_joins(const char *host, char token[64])
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host == NULL ? INADDR_LOOPBACK : INADDR_ANY)};
	socklen_t size = sizeof address;
	unsigned char random[16];
	char where[HOST_NAME_MAX + 16];

	if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 128) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) != 0 || getrandom(random, sizeof random, 0) != sizeof random)
		return -1;
	for (size_t i = 0; i < sizeof random; i++)
		sprintf(token + 2 * i, "%02x", random[i]);
	snprintf(where, sizeof where, "%s:%d", host != NULL ? host : "127.0.0.1", ntohs(address.sin_port));
	return setenv(IVM_HEAD, where, 1) == 0 && setenv(IVM_TOKEN, token, 1) == 0 ? listener : -1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* wake_at has poll tell of a connection when it has so many bytes, or ends. */
static void wake_at(int socket, int bytes)
{
	setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

/* What nodes have said that have joined. */
struct joined {
	const char *token;
	void **meeting; /* each node's part of it */
	size_t *sizes;
	int count;
};

/* whole_join reports whether all of a message that a node of ours may have sent is there, so that nobody needs to wait for its rest. It sets
 * *stranger if it comes from somebody else. */
static bool whole_join(int socket, const struct joined *joined, bool *stranger)
{
	struct message m;
	int there = 0;
	const ssize_t n = recv(socket, &m, sizeof m, MSG_PEEK | MSG_DONTWAIT);

	*stranger = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
	if (n < (ssize_t)sizeof m)
		return false;
	const struct joining *j = &m.joining;
	*stranger = m.kind != JOIN || m.tail > MOST_ADDRESS || strncmp(j->token, joined->token, sizeof j->token) != 0 || j->number < 0 ||
		    j->number >= node_count || joined->meeting[j->number] != NULL;
	return !*stranger && ioctl(socket, FIONREAD, &there) == 0 && (size_t)there >= sizeof m + m.tail;
}

/* join takes the message of a node. It returns 0, or -1 after a message. */
static int join(int socket, struct joined *joined)
{
	const struct link link = {.socket = socket};
	struct message m;
	void *tail;

	if (!link_receive(&link, &m, &tail))
		return fail("join");
	wake_at(socket, 1);
	link_over_tcp(socket);
	struct meeting own = {.size = m.tail};
	memcpy(own.name, m.joining.name, sizeof own.name);
	own.name[NODE_NAME] = '\0';
	char *all = malloc(sizeof own + m.tail);
	if (all == NULL)
		return fail("memory");
	memcpy(all, &own, sizeof own);
	memcpy(all + sizeof own, tail, m.tail);
	free(tail);
	joined->meeting[m.joining.number] = all;
	joined->sizes[m.joining.number] = sizeof own + m.tail;
	joined->count++;
	nodes[m.joining.number].link = link;
	memcpy(nodes[m.joining.number].name, own.name, sizeof own.name);
	return 0;
}

/* introduce tells each node of all. */
static int introduce(void **meeting, const size_t *sizes)
{
	size_t size = 0;

	for (int i = 0; i < node_count; i++)
		size += sizes[i];
	char *all = malloc(size), *end = all;
	for (int i = 0; all != NULL && i < node_count; i++) {
		memcpy(end, meeting[i], sizes[i]);
		end += sizes[i];
	}
	for (int i = 0; all != NULL && i < node_count; i++)
		link_send(&nodes[i].link, &(struct message){.kind = MEET, .tail = (uint32_t)size}, all);
	free(all);
	return all != NULL ? 0 : fail("memory");
}

/* look takes messages of those who have connected, and closes connections of strangers. The first in polled is the listener. It returns
 * how many are left in polled, or -1 after a message. */
static int look(struct pollfd *polled, int count, struct joined *joined)
{
	int left = 1;
	bool stranger;

	for (int i = 1; i < count; i++)
		if (whole_join(polled[i].fd, joined, &stranger)) {
			if (join(polled[i].fd, joined) != 0)
				return -1;
		} else if (stranger) {
			close(polled[i].fd);
		} else {
			polled[left++] = polled[i];
		}
	return left;
}

/* wait_for_nodes waits until all nodes have joined, whoever else connects. It returns 0, or -1 after a message. */
static int wait_for_nodes(struct pollfd *polled, int most, struct joined *joined)
{
	const double limit = now() + JOIN_SECONDS;
	int count = 1, ended;

	while (joined->count < node_count) {
		const int n = poll(polled, (nfds_t)count, 100);
		if (n > 0 && polled[0].revents != 0) {
			const int fd = accept4(polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0 && count == most) { /* the first has been silent longest */
				close(polled[1].fd);
				memmove(polled + 1, polled + 2, (size_t)(--count - 1) * sizeof *polled);
			}
			if (fd >= 0) {
				wake_at(fd, sizeof(struct message));
				polled[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
			}
		}
		count = look(polled, count, joined);
		if (count < 0)
			return -1;
		if (joined->count < node_count && waitpid(-1, &ended, WNOHANG) > 0) {
			say("a node ended before all had joined%s%s", WIFSIGNALED(ended) ? ": " : "", WIFSIGNALED(ended) ? strsignal(WTERMSIG(ended)) : "");
			return -1;
		}
		if (joined->count < node_count && now() > limit) {
			say("%d of %d nodes joined in %d s", joined->count, node_count, JOIN_SECONDS);
			return -1;
		}
	}
	while (--count > 0)
		close(polled[count].fd);
	return 0;
}

/* await waits until all nodes have joined, and introduces them. */
static int await(int listener, const char *token)
{
	const int most = node_count + MOST_STRANGERS + 1;
	struct joined joined = {token, calloc((size_t)node_count, sizeof(void *)), calloc((size_t)node_count, sizeof(size_t)), 0};
	struct pollfd *polled = calloc((size_t)most, sizeof *polled);
	int failed = joined.meeting == NULL || joined.sizes == NULL || polled == NULL ? fail("memory") : 0;

	if (failed == 0) {
		polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		failed = wait_for_nodes(polled, most, &joined);
	}
	if (failed == 0)
		failed = introduce(joined.meeting, joined.sizes);
	for (int i = 0; joined.meeting != NULL && i < node_count; i++)
		free(joined.meeting[i]);
	free(joined.meeting);
	free(joined.sizes);
	free(polled);
	close(listener);
	return failed;
}

/* arguments returns first, --join, and the program's. */
static char **arguments(char **first, char **program)
{
	int n = 0, count = 0;

	while (first[n] != NULL)
		n++;
	while (program[count] != NULL)
		count++;
	char **all = calloc((size_t)(n + count) + 3, sizeof *all);
	if (all != NULL) {
		memcpy(all, first, (size_t)n * sizeof *all);
		all[n] = "--join";
		all[n + 1] = "--";
		memcpy(all + n + 2, program, (size_t)count * sizeof *all);
	}
	return all;
}

/* own_path returns the path of ivmd, which lasts. */
static char *own_path(void)
{
	static char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	path[n > 0 ? n : 0] = '\0';
	return path;
}

int nodes_here(int count, char **program)
{
	char token[64] = "", number[16];
	char *first[] = {own_path(), NULL};
	char **argv = arguments(first, program);
	const int listener = serve_joins(NULL, token);

	if (make(count) != 0 || argv == NULL || listener < 0)
		return fail("socket");
	for (int i = 0; i < count; i++) {
		snprintf(number, sizeof number, "%d", i);
		const pid_t pid = setenv(IVM_NODE, number, 1) == 0 ? start() : -1;
		if (pid == 0) {
			execv(argv[0], argv);
			_exit(fail(argv[0]) != 0);
		}
		if (pid < 0)
			return fail("fork");
	}
	free(argv);
	return await(listener, token);
}

int nodes_of_slurm(char **program)
{
	const char *count = getenv("SLURM_JOB_NUM_NODES");
	char token[64] = "", host[HOST_NAME_MAX + 1], of_nodes[32], of_tasks[32];

	if (count == NULL || atoi(count) <= 0) {
		say("--slurm needs an allocation of Slurm: salloc or sbatch makes one");
		return -1;
	}
	snprintf(of_nodes, sizeof of_nodes, "--nodes=%s", count);
	snprintf(of_tasks, sizeof of_tasks, "--ntasks=%s", count);
	char *first[] = {"srun", of_nodes, of_tasks, "--ntasks-per-node=1", "--whole", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0", "--quiet", own_path(), NULL};
	char **argv = arguments(first, program);
	if (make(atoi(count)) != 0 || argv == NULL || gethostname(host, sizeof host) != 0)
		return fail("arguments");
	const int listener = serve_joins(host, token);
	const pid_t pid = listener >= 0 ? start() : -1;
	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(fail("srun") != 0);
	}
	free(argv);
	return pid > 0 ? await(listener, token) : fail("socket");
}

void nodes_end(void)
{
	for (int i = 0; i < node_count; i++)
		if (nodes[i].link.socket > 0)
			close(nodes[i].link.socket);
	for (int i = 0; i < child_count; i++)
		waitpid(children[i], NULL, 0);
}
