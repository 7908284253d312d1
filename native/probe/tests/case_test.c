/* case_test.c: libcase against a server in another thread of this process, so that the test chooses
 * the order of replies and failures. Each test runs in a fork, which gives it a library without a
 * connection. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../activity.h"
#include "../case.h"
#include "../client.h"
#include "../wire.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("case_test:%d: %s: %s\n", __LINE__, __func__, #condition); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

static char directory[64] = "/tmp/case_testXXXXXX", socket_path[100];
static int stderr_pipe[2];

static int serve(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, socket_path);
	unlink(socket_path);
	CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0);
	setenv("CASE_SOCKET", socket_path, 1);
	setenv("CASE_TOKEN", "000102030405060708090a0b0c0d0e0f", 1);
	setenv("CASE_REQUIRED", "1", 1);
	return fd;
}

/* take receives a frame of the given type into a buffer of a frame's size. */
static void take(int fd, void *frame, size_t size, enum case_wire_type type)
{
	CHECK(recv(fd, frame, size, MSG_TRUNC) == (ssize_t)size);
	CHECK(((struct case_wire_header *)frame)->type == type);
}

static int greet(int listener)
{
	struct case_wire_hello hello;
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	take(fd, &hello, sizeof hello, CASE_WIRE_HELLO);
	CHECK(hello.pid == (uint32_t)getpid() && hello.token[15] == 15);
	return fd;
}

static void grant(int fd, uint64_t task, int ordinal)
{
	struct case_wire_grant f = {{CASE_WIRE_GRANT, CASE_WIRE_VERSION, sizeof f}, task, {9}, ordinal, 0, 0};
	CHECK(send(fd, &f, sizeof f, MSG_NOSIGNAL) == sizeof f);
}

/* said checks stderr so far: the number of lines, and a part of the first. */
static void said(int lines, const char *part)
{
	char text[4096];
	ssize_t n = read(stderr_pipe[0], text, sizeof text - 1);
	int count = 0;

	text[n < 0 ? 0 : n] = '\0';
	for (char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		count++;
	if (count != lines || strstr(text, part) == NULL) {
		printf("case_test: stderr is not %d lines with \"%s\":\n%s", lines, part, text);
		fflush(stdout);
		_exit(1);
	}
}

struct call {
	pthread_t thread;
	uint64_t bytes;
	int result;
	struct case_task task;
};

static void *beginning(void *argument)
{
	struct call *c = argument;
	c->result = case_task_begin(c->bytes, 1, 32, 0, 0, &c->task);
	return NULL;
}

static void start(struct call *c, uint64_t bytes)
{
	c->bytes = bytes;
	CHECK(pthread_create(&c->thread, NULL, beginning, c) == 0);
}

static void unscheduled(void)
{
	struct case_task a, b;

	CHECK(case_task_begin(1, 1, 1, 0, 0, &a) == CASE_OK && case_task_begin(1, 1, 1, 0, 0, &b) == CASE_OK);
	CHECK(a.device == -1 && a.id != 0 && b.id != 0 && a.id != b.id);
	CHECK(case_task_grow(&a, 1, 0) == CASE_OK && case_task_shape(&a, 1, 1, 1) == CASE_OK && case_task_shrink(&a, 1) == CASE_OK &&
	      case_task_free(&a) == CASE_OK);
	case_report_oom(1, "cudaMalloc");
	case_report_fault(700, NULL);
	said(1, "running unscheduled: CASE_SOCKET is not set");
}

static void required(void)
{
	struct case_task t;

	setenv("CASE_REQUIRED", "1", 1);
	CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_DISCONNECTED && t.id == 0);
	CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_DISCONNECTED);
	said(1, "CASE_REQUIRED");
}

static void long_path(void)
{
	struct case_task t;
	char path[200];

	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	setenv("CASE_SOCKET", path, 1);
	setenv("CASE_TOKEN", "000102030405060708090a0b0c0d0e0f", 1);
	CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_OK && t.device == -1);
	said(1, "a socket path holds 107");
}

static void bad_token(void)
{
	struct case_task t;

	serve();
	setenv("CASE_TOKEN", "00", 1);
	CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_DISCONNECTED);
	said(1, "CASE_TOKEN");
}

/* A daemon has closed the standard descriptors, and may still write into them. */
static void closed_standard_descriptors(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	start(&a, 1);
	int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(server == 0); /* so 0 was free */
	server = fcntl(server, F_DUPFD_CLOEXEC, 3);
	close(0);
	struct case_wire_hello hello;
	take(server, &hello, sizeof hello, CASE_WIRE_HELLO);
	take(server, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	grant(server, f.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_OK);
}

/* The later request is answered first, so the reading thread must hand the
 * frame on; then its own comes. */
static void replies_out_of_order(void)
{
	int listener = serve();
	struct call a, b;
	struct case_wire_task_begin first, second;

	start(&a, 100);
	int fd = greet(listener);
	take(fd, &first, sizeof first, CASE_WIRE_TASK_BEGIN);
	start(&b, 200);
	take(fd, &second, sizeof second, CASE_WIRE_TASK_BEGIN);
	grant(fd, second.task, 2);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK && b.task.device == 2 && b.task.uuid[0] == 9);
	grant(fd, first.task, 1);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_OK && a.task.device == 1);
}

/* The reader's own reply comes first, so it must pass the reading on. */
static void reading_is_passed_on(void)
{
	int listener = serve();
	struct call a, b, c;
	struct case_wire_task_begin f[3];
	struct case_wire_task_free freed;

	start(&a, 100);
	int fd = greet(listener);
	take(fd, &f[0], sizeof f[0], CASE_WIRE_TASK_BEGIN);
	start(&b, 200);
	take(fd, &f[1], sizeof f[1], CASE_WIRE_TASK_BEGIN);
	start(&c, 300);
	take(fd, &f[2], sizeof f[2], CASE_WIRE_TASK_BEGIN);
	grant(fd, f[0].task, 0);
	pthread_join(a.thread, NULL);
	CHECK(case_task_free(&a.task) == CASE_OK && a.task.device == -1);
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
	CHECK(freed.task == f[0].task);
	grant(fd, f[2].task, 0);
	pthread_join(c.thread, NULL);
	grant(fd, f[1].task, 0);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK && c.result == CASE_OK);
}

static void server_goes_away(void)
{
	int listener = serve();
	struct call a, b;
	struct case_wire_task_begin f;
	struct case_task t;

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	start(&b, 1);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	close(fd);
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);
	CHECK(a.result == CASE_DISCONNECTED && b.result == CASE_DISCONNECTED);
	CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_DISCONNECTED);
	said(1, "lost the scheduler");
}

/* The server's reason, still queued when a send fails, reaches the user. */
static void last_words(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;
	struct case_wire_refuse r = {{CASE_WIRE_REFUSE, CASE_WIRE_VERSION + 1, sizeof r}, 0, 0, 0,
	                             CASE_CAUSE_PROTOCOL, 0, "you speak nonsense"};

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(send(fd, &r, sizeof r, 0) == sizeof r);
	case_report_oom(1, "left unread, which makes the next send of the library fail");
	close(fd);
	CHECK(case_task_free(&a.task) == CASE_DISCONNECTED);
	said(1, "you speak nonsense");
}

/* A send to a closed socket raises no SIGPIPE, which would end the program. */
static void free_after_the_end(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;
	struct case_task never = {0};

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	close(fd);
	CHECK(case_task_free(&never) == CASE_OK);
	CHECK(case_task_free(&a.task) == CASE_DISCONNECTED);
	said(1, "lost the scheduler");
}

static void broken_server(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task + 1, 0);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_DISCONNECTED);
	said(1, "answers no request");
}

static void ignore(int signal) { (void)signal; }

static void interrupted(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;
	struct sigaction action = {.sa_handler = ignore}; /* no SA_RESTART */

	sigaction(SIGUSR1, &action, NULL);
	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	for (int i = 0; i < 100; i++) {
		pthread_kill(a.thread, SIGUSR1);
		sched_yield();
	}
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_OK);
}

/* The library refuses requests that cannot be frames. Calls on tasks of another process are not
 * sent. */
static void nonsense_stays_here(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;
	struct case_task t, copy;

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(case_task_begin(UINT64_MAX, 1, 1, 0, 0, &t) == CASE_REFUSED);
	CHECK(case_task_begin(INT64_MAX, 1, 1, 1, 0, &t) == CASE_REFUSED);
	CHECK(case_task_begin(1, 1, 1, 0, 0x80, &t) == CASE_REFUSED);
	CHECK(case_task_begin(1, 1, 1, 0, CASE_FLAG_DECIDED, &t) == CASE_REFUSED); /* nobody would answer */
	CHECK(case_task_ask(&(struct case_need){.flags = CASE_FLAG_DEVICE, .device = -1}, &t) == CASE_REFUSED);
	CHECK(case_task_grow(&a.task, UINT64_MAX, 0) == CASE_REFUSED);
	CHECK(case_task_shrink(&a.task, UINT64_MAX) == CASE_REFUSED);
	CHECK(case_task_shape(&a.task, UINT64_MAX, 1, 1) == CASE_REFUSED);
	copy = a.task;
	CHECK(case_task_free(&a.task) == CASE_OK);
	CHECK(case_task_free(&a.task) == CASE_OK);
	CHECK(case_task_shape(&copy, 1, 1, 1) == CASE_REFUSED);
	CHECK(case_task_shrink(&copy, 1) == CASE_REFUSED);
	CHECK(case_task_free(&copy) == CASE_REFUSED);
	struct case_wire_task_free freed;
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
	CHECK(recv(fd, &freed, sizeof freed, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

/* A device without its flag is ignored; a shape waits for nobody. */
static void needs_and_shapes(void)
{
	int listener = serve();
	struct case_wire_task_begin begin;
	struct case_wire_task_shape shape;
	struct call a;

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	grant(fd, begin.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(case_task_shape(&a.task, 12, 96, 5) == CASE_OK);
	take(fd, &shape, sizeof shape, CASE_WIRE_TASK_SHAPE);
	CHECK(shape.task == begin.task && shape.blocks == 12 && shape.threads_per_block == 96 && shape.blocks_per_sm == 5);

	for (uint32_t flags = 0; flags <= CASE_FLAG_DEVICE; flags += CASE_FLAG_DEVICE) {
		struct case_need need = {3, 4, 5, 6, 7, flags, 2, 8};
		struct case_task t;
		grant(fd, begin.task + 1, 2); /* the answer is there before the request */
		CHECK(case_task_ask(&need, &t) == CASE_OK && t.device == 2);
		take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
		CHECK(begin.bytes == 3 && begin.blocks == 4 && begin.heap_bytes == 5 && begin.threads_per_block == 6 &&
		      begin.blocks_per_sm == 7 && begin.flags == flags && begin.device == (flags ? 2 : 0) && begin.wait_ms == 8);
	}
}

static void refuse_timeout(int fd, uint64_t task)
{
	struct case_wire_refuse f = {{CASE_WIRE_REFUSE, CASE_WIRE_VERSION, sizeof f}, task, 2, 1, CASE_CAUSE_TIMED_OUT, 0, "late"};
	CHECK(send(fd, &f, sizeof f, MSG_NOSIGNAL) == sizeof f);
}

/* A request has its own longest wait, or the job's, which the environment says once. The end of
 * the wait is told from another refusal. */
static void waits(void)
{
	int listener = serve();
	struct case_wire_task_begin begin;
	struct case_wire_task_grow grow;
	struct case_wire_task_shrink shrink;
	struct call a;

	setenv("CASE_WAIT", "250", 1);
	start(&a, 1);
	int fd = greet(listener);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	CHECK(begin.wait_ms == 250);
	setenv("CASE_WAIT", "none", 1);
	grant(fd, begin.task, 0);
	pthread_join(a.thread, NULL);
	const struct {
		uint32_t asked, sent;
	} each[] = {{CASE_WAIT_DEFAULT, 250}, {7, 7}, {CASE_WAIT_NONE, UINT32_MAX}};
	for (int i = 0; i < 3; i++) {
		struct case_need need = {.bytes = 3, .wait_ms = each[i].asked};
		struct case_task t;
		refuse_timeout(fd, begin.task + 1); /* the answer is there before the request */
		CHECK(case_task_ask(&need, &t) == CASE_TIMED_OUT && t.id == 0);
		take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
		CHECK(begin.wait_ms == each[i].sent);
		refuse_timeout(fd, a.task.id);
		CHECK(case_task_grow(&a.task, 5, each[i].asked) == CASE_TIMED_OUT);
		take(fd, &grow, sizeof grow, CASE_WIRE_TASK_GROW);
		CHECK(grow.wait_ms == each[i].sent && grow.bytes == 5 && grow.task == a.task.id);
	}
	CHECK(case_task_shrink(&a.task, 4) == CASE_OK);
	take(fd, &shrink, sizeof shrink, CASE_WIRE_TASK_SHRINK);
	CHECK(shrink.task == a.task.id && shrink.bytes == 4);
}

/* `none` is the wait of a job whose requests wait for nothing. */
static void waits_for_nothing(void)
{
	int listener = serve();
	struct case_wire_task_begin begin;
	struct call a;

	setenv("CASE_WAIT", "none", 1);
	start(&a, 1);
	int fd = greet(listener);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	CHECK(begin.wait_ms == CASE_WAIT_NONE);
	refuse_timeout(fd, begin.task);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_TIMED_OUT);
}

static void only_the_first_fault(void)
{
	int listener = serve();
	struct case_wire_fault fault;
	struct case_wire_oom oom;
	char where[200];

	memset(where, 'w', sizeof where - 1);
	where[sizeof where - 1] = '\0';
	case_report_fault(700, "cudaMemcpy");
	case_report_fault(2, "cudaMalloc");
	case_report_oom(5, where);
	int fd = greet(listener);
	take(fd, &fault, sizeof fault, CASE_WIRE_FAULT);
	CHECK(fault.code == 700 && fault.monotonic_ns > 0 && strcmp(fault.where, "cudaMemcpy") == 0);
	take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
	CHECK(oom.bytes == 5 && strlen(oom.where) == sizeof oom.where - 1);
}

/* Failed allocations beyond the first few are counted, and the count, if there is one, comes last. */
static void failed_allocations(int listener, int n, const char *last)
{
	struct case_wire_oom oom;
	struct case_wire_bye bye;
	pid_t owner = fork();

	if (owner == 0) {
		for (int i = 1; i <= n; i++)
			case_report_oom((uint64_t)i, "cudaMalloc");
		exit(0);
	}
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct case_wire_hello hello;
	take(fd, &hello, sizeof hello, CASE_WIRE_HELLO);
	for (int i = 1; i < CASE_WIRE_REPORTS; i++) {
		take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
		CHECK(oom.bytes == (uint64_t)i && strcmp(oom.where, "cudaMalloc") == 0);
	}
	if (last != NULL) {
		take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
		CHECK(oom.bytes == (uint64_t)n && strcmp(oom.where, last) == 0);
	}
	take(fd, &bye, sizeof bye, CASE_WIRE_BYE);
	waitpid(owner, NULL, 0);
	close(fd);
}

static void many_failed_allocations(void)
{
	int listener = serve();

	failed_allocations(listener, CASE_WIRE_REPORTS - 1, NULL);
	failed_allocations(listener, CASE_WIRE_REPORTS, "the last of 1 more failed allocations");
	failed_allocations(listener, 1000, "the last of 993 more failed allocations");
}

/* seize closes the library's descriptor and gives its number to one end of a pair. */
static void seize(int server_end, int pair[2])
{
	int seized = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	for (int i = 3; i < 64; i++) {
		struct sockaddr_un peer;
		socklen_t size = sizeof peer;
		if (i != server_end && getpeername(i, (struct sockaddr *)&peer, &size) == 0 &&
		    size > sizeof peer.sun_family) {
			CHECK(dup2(pair[0], i) == i);
			seized++;
		}
	}
	CHECK(seized == 1);
}

static void untouched(int pair[2])
{
	char byte;

	CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	CHECK(send(pair[0], "x", 1, MSG_NOSIGNAL) == 1 && recv(pair[1], &byte, 1, 0) == 1);
}

/* If a program closes the descriptor and uses its number again, the library writes nothing to the
 * program's file. The task goes on over another connection of the same library. */
static void descriptor_taken(void)
{
	int listener = serve(), pair[2];
	struct call a, b;
	struct case_wire_hello hello, again;
	struct case_wire_task_begin f;
	struct case_wire_task_free freed;

	start(&a, 1);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	take(fd, &hello, sizeof hello, CASE_WIRE_HELLO);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	seize(fd, pair);
	clearenv(); /* nor is the environment the library's */
	CHECK(recv(fd, &f, sizeof f, 0) == 0);
	CHECK(case_task_free(&a.task) == CASE_OK);
	int second = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	take(second, &again, sizeof again, CASE_WIRE_HELLO);
	CHECK(hello.instance != 0 && memcmp(&hello, &again, sizeof hello) == 0);
	take(second, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
	CHECK(freed.task == f.task);
	start(&b, 2);
	take(second, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(second, f.task, 0);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK);
	untouched(pair);
	said(0, "");
}

/* If a thread waits for an answer on a connection that is gone, no thread goes on as if the answer
 * could come. */
static void descriptor_taken_from_a_waiting_thread(void)
{
	int listener = serve(), pair[2];
	struct call a, b;
	struct case_wire_task_begin f;

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	start(&b, 2);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	seize(fd, pair);
	CHECK(case_task_free(&a.task) == CASE_DISCONNECTED);
	CHECK(shutdown(fd, SHUT_RDWR) == 0);
	CHECK(send(pair[1], "y", 1, 0) == 1); /* to b, if it was not in recv yet */
	pthread_join(b.thread, NULL);
	untouched(pair);
	CHECK(b.result == CASE_DISCONNECTED);
	said(1, "the program has closed its connection");
}

static void reports(int signal)
{
	(void)signal;
	case_report_oom(1, "a handler");
}

/* A handler of a signal may report, whatever it interrupts. */
static void reports_from_a_handler(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_begin f;
	const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};

	start(&a, 1);
	int fd = greet(listener);
	take(fd, &f, sizeof f, CASE_WIRE_TASK_BEGIN);
	grant(fd, f.task, 0);
	pthread_join(a.thread, NULL);
	CHECK(signal(SIGPROF, reports) != SIG_ERR && setitimer(ITIMER_PROF, &often, NULL) == 0);
	for (int i = 0; i < 50000; i++) {
		unsigned char frame[CASE_WIRE_MAX_FRAME];
		CHECK(case_task_shape(&a.task, 1, 32, 0) == CASE_OK);
		while (recv(fd, frame, sizeof frame, MSG_DONTWAIT) > 0)
			;
	}
	CHECK(setitimer(ITIMER_PROF, &never, NULL) == 0 && signal(SIGPROF, SIG_DFL) != SIG_ERR);
	CHECK(case_task_free(&a.task) == CASE_OK);
}

/* Nothing that the process executes may inherit the socket. */
static void close_on_exec(void)
{
	int listener = serve();
	case_report_oom(1, "x");
	int fd = greet(listener);
	for (int i = 3; i < 64; i++) {
		struct sockaddr_un peer;
		socklen_t size = sizeof peer;
		if (getpeername(i, (struct sockaddr *)&peer, &size) == 0 && i != fd)
			CHECK((fcntl(i, F_GETFD) & FD_CLOEXEC) != 0);
	}
}

/* A child that lives on must not keep the parent's connection open. */
static void fork_lets_go(void)
{
	int listener = serve(), go[2];
	char end;

	CHECK(pipe2(go, O_CLOEXEC) == 0);
	pid_t owner = fork();
	if (owner == 0) {
		case_report_oom(1, "parent");
		if (fork() == 0) {
			close(go[1]);
			_exit(read(go[0], &end, 1) != 0);
		}
		_exit(0);
	}
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct case_wire_hello hello;
	struct case_wire_oom oom;
	take(fd, &hello, sizeof hello, CASE_WIRE_HELLO);
	take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
	CHECK(recv(fd, &end, 1, 0) == 0);
	close(go[1]);
	waitpid(owner, NULL, 0);
}

/* A child reports its own fault and its own failed allocations, whatever its parent has reported. */
static void fork_reports_anew(void)
{
	int listener = serve();
	struct case_wire_hello hello;
	struct case_wire_fault fault;
	struct case_wire_oom oom;

	case_report_fault(700, "parent");
	for (int i = 0; i < CASE_WIRE_REPORTS; i++)
		case_report_oom(1, "parent");
	int fd = greet(listener);
	take(fd, &fault, sizeof fault, CASE_WIRE_FAULT);
	CHECK(fault.code == 700);
	pid_t child = fork();
	if (child == 0) {
		case_report_fault(719, "child");
		case_report_oom(2, "child");
		_exit(0);
	}
	int own = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	take(own, &hello, sizeof hello, CASE_WIRE_HELLO);
	CHECK(hello.pid == (uint32_t)child);
	take(own, &fault, sizeof fault, CASE_WIRE_FAULT);
	CHECK(fault.code == 719 && strcmp(fault.where, "child") == 0);
	take(own, &oom, sizeof oom, CASE_WIRE_OOM);
	CHECK(oom.bytes == 2 && strcmp(oom.where, "child") == 0);
	waitpid(child, NULL, 0);
}

/* What follows is of a process that can give memory back. */

static struct {
	sem_t entered, go; /* revoke posts one, and waits for the other */
	struct client_revocation revocation;
	struct client_revoked answer;
	void (*act)(void); /* in revoke, if not NULL */
	sigset_t blocked;
	pthread_t thread;
	sem_t greeted;
	struct client_welcome welcome;
	sem_t offered;
	struct client_space space;
	uint64_t kept;    /* recall returns it, */
	uint64_t offered_to; /* when so much had been offered */
} hook;

static void hook_welcome(const struct client_welcome *welcome)
{
	hook.welcome = *welcome;
	sem_post(&hook.greeted);
}

static void hook_revoke(const struct client_revocation *revocation, struct client_revoked *answer)
{
	hook.revocation = *revocation;
	hook.thread = pthread_self();
	pthread_sigmask(SIG_BLOCK, NULL, &hook.blocked);
	sem_post(&hook.entered);
	sem_wait(&hook.go);
	if (hook.act != NULL)
		hook.act();
	*answer = hook.answer;
}

static void hook_offer(const struct client_space *space)
{
	hook.space = *space;
	sem_post(&hook.offered);
}

static uint64_t hook_recall(void)
{
	hook.offered_to = hook.space.offset + hook.space.bytes;
	return hook.kept;
}

static const struct client_hooks hooks = {hook_welcome, hook_revoke, hook_offer, hook_recall, 0};

static void evicts(void)
{
	sem_init(&hook.entered, 0, 0);
	sem_init(&hook.go, 0, 0);
	sem_init(&hook.greeted, 0, 0);
	sem_init(&hook.offered, 0, 0);
	hook.answer.outcome = CASE_REVOKED_DONE;
	activity_watched();
	CHECK(client_can_evict(&hooks));
}

/* send_with sends a frame with descriptors. */
static void send_with(int fd, const void *frame, size_t size, const int *files, int count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec part = {(void *)frame, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (count > 0) {
		control.header = (struct cmsghdr){CMSG_LEN((size_t)count * sizeof *files), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), files, (size_t)count * sizeof *files);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof *files);
	}
	CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)size);
}

static uint32_t bursts; /* of welcomes */

static void welcome(int fd)
{
	struct case_wire_welcome f = {{CASE_WIRE_WELCOME, CASE_WIRE_VERSION, sizeof f}, 32 << 20, 50000, 0, bursts, 0};
	send_with(fd, &f, sizeof f, NULL, 0);
}

static void send_revoke(int fd, uint64_t task, uint64_t ticket)
{
	struct case_wire_revoke f = {{CASE_WIRE_REVOKE, CASE_WIRE_VERSION, sizeof f}, task, ticket, 3ull << 30, CASE_REVOKE_YIELD, 250, {0}, 0, 0};
	send_with(fd, &f, sizeof f, NULL, 0);
}

static int accept_evictor(int listener, struct case_wire_hello *hello)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	take(fd, hello, sizeof *hello, CASE_WIRE_HELLO);
	return fd;
}

/* evictor has the library connect, and the task of *a granted. */
static int evictor(int listener, struct call *a)
{
	struct case_wire_hello hello;
	struct case_wire_task_begin begin;

	start(a, 1000);
	int fd = accept_evictor(listener, &hello);
	CHECK(hello.capabilities == (CASE_CAN_EVICT | CASE_CAN_PREPARE));
	welcome(fd);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	grant(fd, begin.task, 1);
	pthread_join(a->thread, NULL);
	CHECK(a->result == CASE_OK && a->task.device == 1);
	CHECK(sem_trywait(&hook.greeted) == 0 && hook.welcome.chunk_bytes == 32 << 20 && hook.welcome.window_us == 50000); /* before the grant */
	return fd;
}

static int threads(void)
{
	DIR *list = opendir("/proc/self/task");
	int n = 0;

	CHECK(list != NULL);
	for (struct dirent *d; (d = readdir(list)) != NULL;)
		n += d->d_name[0] != '.';
	closedir(list);
	return n;
}

/* reader_waits returns when the other thread sleeps. It has no lock to wait for. */
static void reader_waits(void)
{
	char path[64], text[256] = "";
	DIR *list = opendir("/proc/self/task");

	CHECK(list != NULL);
	for (struct dirent *d; (d = readdir(list)) != NULL;)
		if (d->d_name[0] != '.' && atoi(d->d_name) != (int)getpid())
			snprintf(path, sizeof path, "/proc/self/task/%d/stat", atoi(d->d_name));
	closedir(list);
	for (char *state = NULL; state == NULL || state[2] != 'S'; state = strrchr(text, ')')) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof text - 1);
		text[n < 0 ? 0 : n] = '\0';
		close(fd);
		sched_yield();
	}
}

static void plain_process_has_no_thread(void)
{
	int listener = serve();
	struct case_wire_hello hello;

	case_report_oom(1, "x");
	int fd = accept_evictor(listener, &hello);
	CHECK(hello.capabilities == 0 && threads() == 1 && !client_can_evict(&hooks)); /* too late */
	close(fd);
}

static struct client_need needs(void) { return (struct client_need){900, 600, 0}; }

static void *resuming(void *argument)
{
	struct call *c = argument;
	c->result = client_await_resume(&c->task, needs);
	return NULL;
}

static void reports_inside(void) { case_report_oom(5, "inside"); }

static void revocation(void)
{
	int listener = serve();
	struct call a, b;
	struct case_wire_oom oom;
	struct case_wire_revoked revoked;
	struct case_wire_task_resume resume;
	struct case_wire_task_moved moved;

	evicts();
	hook.answer = (struct client_revoked){CASE_REVOKED_DONE, 4, 3, 2, 10, 20, 30, 40, "not for a success"};
	hook.act = reports_inside;
	int fd = evictor(listener, &a);
	CHECK(threads() == 2 && activity_permitted() && client_permitted(&a.task));
	CHECK(client_await_resume(&a.task, needs) == CASE_OK); /* no frame */
	send_revoke(fd, a.task.id, 9);
	sem_wait(&hook.entered);
	CHECK(!activity_permitted() && !client_permitted(&a.task));
	CHECK(hook.revocation.task == a.task.id && hook.revocation.action == CASE_REVOKE_YIELD && hook.revocation.bytes == 3ull << 30 &&
	      hook.revocation.deadline_ms == 250 && !pthread_equal(hook.thread, pthread_self()));
	for (int i = 1; i < 32; i++)
		CHECK(i == SIGKILL || i == SIGSTOP || sigismember(&hook.blocked, i) == 1);
	sem_post(&hook.go);
	take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.task == a.task.id && revoked.ticket == 9 && revoked.outcome == CASE_REVOKED_DONE && revoked.freed_bytes == 4 &&
	      revoked.resident_bytes == 993 && revoked.fixed_bytes == 991 && revoked.drain_ns == 10 && revoked.copy_ns == 20 &&
	      revoked.bookkeeping_ns == 30 && revoked.lost_ns == 40 && revoked.why[0] == '\0');
	CHECK(!activity_permitted());
	b = a;
	CHECK(pthread_create(&b.thread, NULL, resuming, &b) == 0);
	CHECK(pthread_create(&a.thread, NULL, resuming, &a) == 0); /* one asks, and both are answered */
	take(fd, &resume, sizeof resume, CASE_WIRE_TASK_RESUME);
	CHECK(resume.task == a.task.id && resume.bytes == 900 && resume.referenced_bytes == 600);
	grant(fd, resume.task, 2);
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);
	CHECK(a.result == CASE_OK && b.result == CASE_OK && (a.task.device == 2 || b.task.device == 2));
	CHECK(activity_permitted() && client_permitted(&a.task));
	CHECK(client_moved(&a.task, CASE_MOVED_IN, &(struct client_move){800, 40, 50}) == CASE_OK);
	take(fd, &moved, sizeof moved, CASE_WIRE_TASK_MOVED);
	CHECK(moved.task == a.task.id && moved.bytes == 800 && moved.copy_ns == 40 && moved.bookkeeping_ns == 50 && moved.direction == CASE_MOVED_IN);
	said(0, "");
}

/* A revocation that changes nothing gives the permission back, and nothing is asked. */
static void revocation_without_effect(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_revoked revoked;
	struct case_wire_task_free freed;

	evicts();
	int fd = evictor(listener, &a);
	const struct client_revoked each[] = {{.outcome = CASE_REVOKED_BUSY, .freed_bytes = 7, .lost_ns = 5, .why = "x"},
	                                      {.outcome = CASE_REVOKED_UNABLE, .freed_bytes = 7, .why = "the area is full"}};
	for (uint64_t i = 0; i < 2; i++) {
		hook.answer = each[i];
		send_revoke(fd, a.task.id, i + 1);
		sem_wait(&hook.entered);
		CHECK(pthread_create(&a.thread, NULL, resuming, &a) == 0); /* waits for the end of the revocation */
		sem_post(&hook.go);
		pthread_join(a.thread, NULL);
		CHECK(a.result == CASE_OK && activity_permitted());
		take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
		CHECK(revoked.ticket == i + 1 && revoked.outcome == each[i].outcome && revoked.freed_bytes == 0 &&
		      revoked.lost_ns == each[i].lost_ns && revoked.resident_bytes == 1000 && strcmp(revoked.why, i == 1 ? "the area is full" : "") == 0);
	}
	CHECK(case_task_free(&a.task) == CASE_OK);
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
}

static void *growing(void *argument)
{
	struct call *c = argument;
	c->result = case_task_grow(&c->task, 5, 0);
	return NULL;
}

static sem_t in_handler, go_on;

static void stays(int signal)
{
	(void)signal;
	sem_post(&in_handler);
	while (sem_wait(&go_on) != 0)
		;
}

/* What other threads ask of a task reaches the server after the answer to its own request, also where that answer
 * has come and the thread that waits for it has not seen it. */
static void asked_beside_a_request(void)
{
	int listener = serve();
	struct call a, b;
	struct case_wire_task_grow grow;
	struct case_wire_task_shrink shrunk;
	struct case_wire_task_shape shape;
	struct case_wire_task_free freed;
	struct sigaction action = {.sa_handler = stays};

	sem_init(&in_handler, 0, 0);
	sem_init(&go_on, 0, 0);
	sigaction(SIGUSR1, &action, NULL);
	evicts();
	int fd = evictor(listener, &a);
	for (int answered = 0; answered < 2; answered++) {
		CHECK(pthread_create(&a.thread, NULL, growing, &a) == 0);
		take(fd, &grow, sizeof grow, CASE_WIRE_TASK_GROW);
		pthread_kill(a.thread, SIGUSR1);
		sem_wait(&in_handler);
		if (answered) {
			struct case_wire_task_begin begin;
			grant(fd, a.task.id, 1);
			start(&b, 2);
			take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
			grant(fd, begin.task, 0);
			pthread_join(b.thread, NULL);
		}
		CHECK(case_task_grow(&a.task, 1, 0) == CASE_REFUSED);
		said(1, "another thread waits for it");
		CHECK(case_task_shrink(&a.task, 2) == CASE_OK && case_task_shrink(&a.task, 1) == CASE_OK);
		CHECK(case_task_shape(&a.task, 8, 64, 1) == CASE_OK);
		CHECK(recv(fd, &shrunk, sizeof shrunk, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		if (answered)
			CHECK(case_task_free(&(struct case_task){.id = a.task.id}) == CASE_OK);
		else
			grant(fd, a.task.id, 1);
		sem_post(&go_on);
		pthread_join(a.thread, NULL);
		CHECK(a.result == (answered ? CASE_REFUSED : CASE_OK));
		take(fd, &shrunk, sizeof shrunk, CASE_WIRE_TASK_SHRINK);
		take(fd, &shape, sizeof shape, CASE_WIRE_TASK_SHAPE);
		CHECK(shrunk.task == a.task.id && shrunk.bytes == 3 && shape.task == a.task.id && shape.blocks == 8);
	}
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
	CHECK(freed.task == a.task.id && case_task_shape(&a.task, 1, 1, 1) == CASE_REFUSED);
	said(1, "this process does not hold it");
}

/* The grant of a growth is not a permission, and a task that waits for growth can be revoked. A refused
 * resumption leaves the task as it was. */
static void growth_is_no_permission(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_revoked revoked;
	struct case_wire_task_grow grow;
	struct case_wire_task_resume resume;

	evicts();
	int fd = evictor(listener, &a);
	CHECK(pthread_create(&a.thread, NULL, growing, &a) == 0);
	take(fd, &grow, sizeof grow, CASE_WIRE_TASK_GROW);
	send_revoke(fd, a.task.id, 1);
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	grant(fd, a.task.id, 1);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_OK && !activity_permitted() && !client_permitted(&a.task));
	CHECK(pthread_create(&a.thread, NULL, resuming, &a) == 0);
	take(fd, &resume, sizeof resume, CASE_WIRE_TASK_RESUME);
	refuse_timeout(fd, a.task.id);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_TIMED_OUT && a.task.device == 1 && !client_permitted(&a.task));
	CHECK(case_task_free(&a.task) == CASE_OK && activity_permitted());
}

/* The task's end answers the ticket: nobody hears what the hook says later. A revocation that crosses
 * the end is not for anybody. */
static void revoked_task_is_freed(void)
{
	int listener = serve();
	struct call a, b;
	struct case_wire_task_begin begin;
	struct case_wire_task_free freed;

	evicts();
	int fd = evictor(listener, &a);
	const uint64_t task = a.task.id;
	send_revoke(fd, task, 1);
	sem_wait(&hook.entered);
	CHECK(case_task_free(&a.task) == CASE_OK && activity_permitted());
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
	send_revoke(fd, task, 2);
	sem_post(&hook.go);
	start(&b, 2);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	grant(fd, begin.task, 0);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK && sem_trywait(&hook.entered) != 0);
	said(0, "");
}

/* A task that has nothing submitted gives up its permission by itself, once, and asks for it again. A revocation that crosses
 * the frame is answered, and whatever the answer is, it gives no permission. */
static void bursts_end(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_revoked revoked;
	struct case_wire_task_grow grow;
	struct case_wire_task_resume resume;
	struct case_wire_task_yielded yielded;

	evicts();
	bursts = 1;
	hook.answer.outcome = CASE_REVOKED_BUSY;
	int fd = evictor(listener, &a);
	CHECK(hook.welcome.bursts);
	CHECK(client_end_burst(&a.task) && !client_end_burst(&a.task) && !activity_permitted() && !client_permitted(&a.task));
	take(fd, &yielded, sizeof yielded, CASE_WIRE_TASK_YIELDED);
	CHECK(yielded.task == a.task.id);
	send_revoke(fd, a.task.id, 1);
	sem_wait(&hook.entered);
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.outcome == CASE_REVOKED_BUSY && !activity_permitted() && !client_permitted(&a.task));
	CHECK(pthread_create(&a.thread, NULL, resuming, &a) == 0);
	take(fd, &resume, sizeof resume, CASE_WIRE_TASK_RESUME);
	CHECK(!client_end_burst(&a.task));
	grant(fd, a.task.id, 1);
	pthread_join(a.thread, NULL);
	CHECK(a.result == CASE_OK && activity_permitted());
	send_revoke(fd, a.task.id, 2);
	sem_wait(&hook.entered);
	CHECK(!client_end_burst(&a.task)); /* the answer says what becomes of it */
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(pthread_create(&a.thread, NULL, growing, &a) == 0);
	take(fd, &grow, sizeof grow, CASE_WIRE_TASK_GROW);
	CHECK(!client_end_burst(&a.task));
	grant(fd, a.task.id, 1);
	pthread_join(a.thread, NULL);
	CHECK(activity_permitted() && client_end_burst(&a.task));
	take(fd, &yielded, sizeof yielded, CASE_WIRE_TASK_YIELDED);
	CHECK(case_task_free(&a.task) == CASE_OK && !client_end_burst(&a.task));
	bursts = 0;
}

/* What a revocation asks for that nobody here knows is for the hook to say. */
static void unknown_action(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_revoked revoked;

	evicts();
	hook.answer = (struct client_revoked){.outcome = CASE_REVOKED_UNABLE, .why = "unknown"};
	int fd = evictor(listener, &a);
	struct case_wire_revoke r = {{CASE_WIRE_REVOKE, CASE_WIRE_VERSION, sizeof r}, a.task.id, 1, 0, 99, 0, {9}, 3, 7};
	send_with(fd, &r, sizeof r, NULL, 0);
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK((int)hook.revocation.action == 99 && hook.revocation.flags == 7);
	CHECK(revoked.outcome == CASE_REVOKED_UNABLE && strcmp(revoked.why, "unknown") == 0 && activity_permitted());
}

/* In a run that does not want it, a task keeps its permission. */
static void permission_lasts(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_task_free freed;

	evicts();
	int fd = evictor(listener, &a);
	CHECK(!hook.welcome.bursts && !client_end_burst(&a.task) && activity_permitted());
	CHECK(case_task_free(&a.task) == CASE_OK);
	take(fd, &freed, sizeof freed, CASE_WIRE_TASK_FREE);
}

static struct client_space space;
static bool has_space;
static int swap_asks;

static void asks_for_swap(void)
{
	for (int i = 0; i < swap_asks; i++)
		has_space = client_await_swap(64 << 20, &space);
	has_space = has_space && client_await_resume(&(struct case_task){.id = hook.revocation.task}, needs) == CASE_REFUSED;
}

static void *ask_for_swap(void *bytes)
{
	struct client_space got;
	return client_await_swap(*(uint64_t *)bytes, &got) && got.bytes == *(uint64_t *)bytes ? bytes : NULL;
}

/* Threads that are in no hook ask one after the other. */
static void two_ask_for_swap(int fd)
{
	uint64_t bytes[] = {32 << 20, 64 << 20};
	pthread_t threads[2];
	void *answered;

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, ask_for_swap, &bytes[i]) == 0);
	for (int i = 0; i < 2; i++) {
		struct case_wire_swap_more more;
		take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
		struct case_wire_swap_space f = {{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, sizeof f}, more.bytes, 0, 0, 0};
		send_with(fd, &f, sizeof f, NULL, 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], &answered) == 0 && answered == &bytes[i]);
}

static void *ask_for_room(void *device)
{
	uint64_t bytes = 0;

	return client_await_room((int)(intptr_t)device, &bytes) ? (void *)(uintptr_t)bytes : NULL;
}

/* answer_room answers one question with as many bytes as the device has as its number. */
static void answer_room(int fd)
{
	struct case_wire_room room;

	take(fd, &room, sizeof room, CASE_WIRE_ROOM);
	CHECK(room.zero == 0);
	struct case_wire_room_is f = {{CASE_WIRE_ROOM_IS, CASE_WIRE_VERSION, sizeof f}, (uint64_t)room.device};
	send_with(fd, &f, sizeof f, NULL, 0);
}

/* Questions about room come one after the other, also while a thread waits for a task. An answer without a question
 * breaks the protocol. */
static void room(void)
{
	uint64_t bytes;

	CHECK(!client_await_room(1, &bytes)); /* nobody to ask */
	for (int evicting = 0; evicting < 2; evicting++) {
		pid_t child = fork();
		if (child == 0) {
			struct case_wire_hello hello;
			struct case_wire_task_begin begin;
			pthread_t threads[2];
			struct call a, b;
			void *said[2];
			int listener = serve();

			if (evicting)
				evicts();
			start(&a, 1);
			int fd = evicting ? accept_evictor(listener, &hello) : greet(listener);
			if (evicting)
				welcome(fd);
			take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
			grant(fd, begin.task, 1);
			pthread_join(a.thread, NULL);
			start(&b, 2);
			take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
			for (int i = 0; i < 2; i++)
				CHECK(pthread_create(&threads[i], NULL, ask_for_room, (void *)(intptr_t)(3 + i)) == 0);
			answer_room(fd);
			grant(fd, begin.task, 1);
			answer_room(fd);
			for (int i = 0; i < 2; i++)
				CHECK(pthread_join(threads[i], &said[i]) == 0 && (uintptr_t)said[i] == 3u + (unsigned)i);
			CHECK(pthread_join(b.thread, NULL) == 0 && b.result == CASE_OK);
			struct case_wire_room_is f = {{CASE_WIRE_ROOM_IS, CASE_WIRE_VERSION, sizeof f}, 1};
			send_with(fd, &f, sizeof f, NULL, 0);
			CHECK(case_task_grow(&a.task, 1, 0) == CASE_DISCONNECTED);
			_exit(0);
		}
		int status = -1;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
}

/* A hook that waits for swap space reads the connection, and what comes meanwhile is not lost. */
static void swap_space(void)
{
	int listener = serve(), files[2];
	struct call a, b;
	struct case_wire_task_begin begin;
	struct case_wire_swap_more more;
	struct case_wire_swap_space f = {{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, sizeof f}, 64 << 20, 0, 2, 0};
	struct case_wire_revoked revoked;
	char byte;

	evicts();
	hook.act = asks_for_swap;
	swap_asks = 2;
	int fd = evictor(listener, &a);
	two_ask_for_swap(fd);
	start(&b, 2);
	take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	send_revoke(fd, a.task.id, 1);
	sem_wait(&hook.entered);
	sem_post(&hook.go);
	take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
	CHECK(more.bytes == 64 << 20);
	grant(fd, begin.task, 3);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK && b.task.device == 3);
	send_revoke(fd, b.task.id, 2); /* waits for its turn */
	CHECK(pipe2(files, O_CLOEXEC) == 0);
	send_with(fd, &f, sizeof f, files, 2);
	take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
	CHECK(write(space.files[1], "x", 1) == 1 && read(files[0], &byte, 1) == 1 && (fcntl(space.files[0], F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(space.bytes == 64 << 20 && space.file_count == 2 && sem_trywait(&hook.entered) != 0);
	f.files = 0;
	f.offset = 96 << 20;
	send_with(fd, &f, sizeof f, NULL, 0);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.ticket == 1 && has_space && space.offset == 96 << 20 && space.file_count == 0);
	said(1, "may not wait for its own end");
	hook.act = NULL;
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.ticket == 2 && revoked.task == b.task.id);
}

enum { OFFERED = 8 };
static const uint64_t chunk = 32 << 20; /* of welcome */

/* send_offer offers chunks; `before` of them were offered before. */
static void send_offer(int fd, uint64_t before, const int *files)
{
	struct case_wire_swap_space f = {{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, sizeof f}, OFFERED * chunk, before * chunk, OFFERED, 1};
	send_with(fd, &f, sizeof f, files, OFFERED);
}

static void send_recall(int fd)
{
	struct case_wire_swap_recall f = {{CASE_WIRE_SWAP_RECALL, CASE_WIRE_VERSION, sizeof f}};
	send_with(fd, &f, sizeof f, NULL, 0);
}

static void wait_for_offer(uint64_t before, int files)
{
	sem_wait(&hook.offered);
	CHECK(hook.space.offset == before * chunk && hook.space.bytes == (uint64_t)files * chunk && hook.space.file_count == files);
	CHECK((fcntl(hook.space.files[files - 1], F_GETFD) & FD_CLOEXEC) != 0);
}

/* Offers that come while a hook is at work are one for the next: as many files as one has place for. They answer no request. What is
 * recalled is given back after that. */
static void offers(void)
{
	int listener = serve(), files[OFFERED];
	struct call a;
	struct case_wire_swap_more more;
	struct case_wire_swap_space f = {{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, sizeof f}, 2 * chunk, 0, 2, 0};
	struct case_wire_swap_kept kept;
	struct case_wire_revoked revoked;
	uint64_t sent = 0;

	evicts();
	int fd = evictor(listener, &a);
	for (int i = 0; i < OFFERED; i++)
		CHECK((files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
	send_offer(fd, sent, files);
	wait_for_offer(0, OFFERED);
	hook.act = asks_for_swap;
	swap_asks = 1;
	send_revoke(fd, a.task.id, 1);
	sem_wait(&hook.entered);
	sem_post(&hook.go);
	take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
	for (int i = 0; i <= CASE_WIRE_FILES / OFFERED; i++)
		send_offer(fd, sent += OFFERED, files); /* one frame more than there is place for */
	hook.kept = 3 * chunk;
	send_recall(fd);
	send_with(fd, &f, sizeof f, files, 2);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(has_space && space.file_count == 2);
	wait_for_offer(OFFERED, CASE_WIRE_FILES);
	take(fd, &kept, sizeof kept, CASE_WIRE_SWAP_KEPT);
	CHECK(kept.bytes == hook.kept && hook.offered_to == (OFFERED + CASE_WIRE_FILES) * chunk && sem_trywait(&hook.offered) != 0);
	send_offer(fd, 3, files);
	wait_for_offer(3, OFFERED);
	send_offer(fd, sent, files); /* some were lost on the way */
	wait_for_offer(sent, OFFERED);
	hook.kept = 0;
	send_recall(fd);
	take(fd, &kept, sizeof kept, CASE_WIRE_SWAP_KEPT);
	CHECK(kept.bytes == 0);
}

/* What a server may not send ends the connection. */
static void breaches_of_revocation(void)
{
	enum { REVOKE_PLAIN, WELCOME_PLAIN, NO_WELCOME_YET, WELCOMED_TWICE, TICKET_0, ACTION_0, TWO_TICKETS, WAITING_TASK, SWAP_UNASKED, OFFER_2, OFFER_EMPTY,
	       OFFER_OF_PARTS, OFFER_RECALLED, RECALLED_TWICE, RECALL_PLAIN,
	       FILES_WITH_GRANT, TOO_FEW_FILES, NOTHING_TAKEN_BACK, BREACHES };
	for (int breach = 0; breach < BREACHES; breach++) {
		pid_t child = fork();
		if (child == 0) {
			int listener = serve();
			struct case_wire_hello hello;
			struct case_wire_task_begin begin;
			struct case_wire_revoke r = {{CASE_WIRE_REVOKE, CASE_WIRE_VERSION, sizeof r}, 1, 1, 0, CASE_REVOKE_YIELD, 0, {0}, 0, 0};
			struct case_wire_swap_space f = {{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, sizeof f}, 1, 0, 1, 0};
			struct case_wire_welcome w = {{CASE_WIRE_WELCOME, CASE_WIRE_VERSION, sizeof w}, 0, 0, 0, 0, 0};
			struct case_wire_grant g = {{CASE_WIRE_GRANT, CASE_WIRE_VERSION, sizeof g}, 2, {9}, 0, 0, 0};
			struct case_wire_swap_more more;
			struct call a, b;
			int fd;

			if (breach > WELCOME_PLAIN)
				evicts();
			if (breach <= NO_WELCOME_YET || breach == NOTHING_TAKEN_BACK || breach == RECALL_PLAIN) {
				start(&b, 1);
				fd = accept_evictor(listener, &hello);
				if (breach == NOTHING_TAKEN_BACK || breach == RECALL_PLAIN)
					send_with(fd, &w, sizeof w, NULL, 0);
				take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
				g.task = begin.task;
			} else {
				fd = evictor(listener, &a);
				start(&b, 2);
				take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
				g.task = begin.task;
			}
			switch (breach) {
			case WELCOME_PLAIN:
			case WELCOMED_TWICE: welcome(fd); break;
			case TICKET_0: r.ticket = 0; break;
			case ACTION_0: r.action = 0; break;
			case TWO_TICKETS:
				send_revoke(fd, a.task.id, 5);
				hook.act = asks_for_swap; /* the hook reads */
				swap_asks = 1;
				sem_post(&hook.go);
				take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
				send_revoke(fd, a.task.id, 6);
				break;
			case WAITING_TASK: r.task = begin.task; break;
			case SWAP_UNASKED: send_with(fd, &f, sizeof f, &fd, 1); break;
			case OFFER_2:
				f.offered = 2;
				send_with(fd, &f, sizeof f, &fd, 1);
				break;
			case OFFER_EMPTY:
				f.offered = 1;
				f.files = 0;
				send_with(fd, &f, sizeof f, NULL, 0);
				break;
			case OFFER_OF_PARTS:
				f.offered = 1;
				send_with(fd, &f, sizeof f, &fd, 1);
				break;
			case OFFER_RECALLED:
			case RECALLED_TWICE:
				send_revoke(fd, a.task.id, 5);
				hook.act = asks_for_swap; /* the hook reads, and gives nothing back meanwhile */
				swap_asks = 1;
				sem_post(&hook.go);
				take(fd, &more, sizeof more, CASE_WIRE_SWAP_MORE);
				send_recall(fd);
				if (breach == OFFER_RECALLED) {
					f = (struct case_wire_swap_space){f.header, chunk, 0, 1, 1};
					send_with(fd, &f, sizeof f, &fd, 1);
				} else {
					send_recall(fd);
				}
				break;
			case RECALL_PLAIN: send_recall(fd); break;
			case FILES_WITH_GRANT: send_with(fd, &g, sizeof g, &fd, 1); break;
			case TOO_FEW_FILES: send_with(fd, &f, sizeof f, NULL, 0); break;
			case NO_WELCOME_YET: send_with(fd, &g, sizeof g, NULL, 0); break;
			}
			if (breach == REVOKE_PLAIN || breach == TICKET_0 || breach == ACTION_0 || breach == WAITING_TASK || breach == NOTHING_TAKEN_BACK)
				send_with(fd, &r, sizeof r, NULL, 0);
			pthread_join(b.thread, NULL);
			if (b.result != CASE_DISCONNECTED)
				_exit(1);
			said(1, "answers no request, or none that is allowed now");
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (status != 0)
			printf("breach %d: wait status %#x\n", breach, (unsigned)status);
		CHECK(status == 0);
	}
}

/* The program closes the descriptor while the reader waits: the next connection has a reader too. */
static void descriptor_taken_from_the_reader(void)
{
	int listener = serve(), pair[2];
	struct call a, b;
	struct case_wire_hello hello;
	struct case_wire_revoked revoked;
	struct case_wire_task_begin begin;

	evicts();
	int fd = evictor(listener, &a);
	reader_waits();
	seize(fd, pair);
	send_revoke(fd, a.task.id, 1); /* comes: the thread has the socket yet */
	int second = accept_evictor(listener, &hello);
	CHECK(hello.capabilities == (CASE_CAN_EVICT | CASE_CAN_PREPARE));
	close(fd);
	welcome(second);
	sem_wait(&hook.greeted);
	send_revoke(second, a.task.id, 2);
	sem_post(&hook.go);
	sem_post(&hook.go);
	take(second, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.ticket == 2); /* the first one's connection is over */
	start(&b, 2);
	take(second, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	grant(second, begin.task, 0);
	pthread_join(b.thread, NULL);
	CHECK(b.result == CASE_OK);
	untouched(pair);
	said(0, "");
}

/* The same while the thread is in a hook: a thread of the program connects again, and the hook's answer
 * is nobody's. What comes over the next connection waits for its turn. */
static void descriptor_taken_from_a_hook(void)
{
	int listener = serve(), pair[2];
	struct call a;
	struct case_wire_hello hello;
	struct case_wire_oom oom;
	struct case_wire_revoked revoked;

	evicts();
	int fd = evictor(listener, &a);
	send_revoke(fd, a.task.id, 1);
	sem_wait(&hook.entered);
	seize(fd, pair);
	CHECK(recv(fd, &oom, sizeof oom, 0) == 0);
	case_report_oom(1, "which connects again");
	int second = accept_evictor(listener, &hello);
	welcome(second);
	take(second, &oom, sizeof oom, CASE_WIRE_OOM);
	send_revoke(second, a.task.id, 2);
	sem_post(&hook.go);
	sem_wait(&hook.entered);
	sem_post(&hook.go);
	take(second, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.ticket == 2);
	untouched(pair);
	said(0, "");
}

static void child_has_a_reader_of_its_own(void)
{
	int listener = serve();
	struct call a;
	struct case_wire_hello hello;
	struct case_wire_revoked revoked;

	evicts();
	int fd = evictor(listener, &a);
	pid_t child = fork();
	if (child == 0) {
		struct case_task t;
		CHECK(threads() == 1 && !activity_permitted());
		CHECK(case_task_begin(1, 1, 1, 0, 0, &t) == CASE_OK && threads() == 2);
		sem_wait(&hook.entered); /* its own */
		_exit(0);
	}
	struct case_wire_task_begin begin;
	int second = accept_evictor(listener, &hello);
	CHECK(hello.pid == (uint32_t)child && hello.capabilities == (CASE_CAN_EVICT | CASE_CAN_PREPARE));
	welcome(second);
	take(second, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
	grant(second, begin.task, 0);
	send_revoke(second, begin.task, 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	send_revoke(fd, a.task.id, 2);
	sem_post(&hook.go);
	take(fd, &revoked, sizeof revoked, CASE_WIRE_REVOKED);
	CHECK(revoked.ticket == 2);
}

/* exit waits for no hook, and nothing follows BYE, whatever the reader is at. */
static void exit_with_a_reader(void)
{
	int listener = serve(), byes = 0;

	for (uint64_t round = 0; round < 40; round++) {
		pid_t child = fork();
		if (child == 0) {
			struct case_task t;
			evicts();
			if (round % 2 == 0)
				sem_post(&hook.go); /* else the hook does not return */
			if (case_task_begin(1, 1, 1, 0, 0, &t) != CASE_OK)
				_exit(1);
			if (round % 4 == 3)
				sem_wait(&hook.entered);
			exit(0);
		}
		struct case_wire_hello hello;
		struct case_wire_task_begin begin;
		union {
			struct case_wire_header header;
			unsigned char bytes[CASE_WIRE_MAX_FRAME];
		} frame;
		int fd = accept_evictor(listener, &hello), status;
		welcome(fd);
		take(fd, &begin, sizeof begin, CASE_WIRE_TASK_BEGIN);
		grant(fd, begin.task, 0);
		struct case_wire_revoke r = {{CASE_WIRE_REVOKE, CASE_WIRE_VERSION, sizeof r}, begin.task, 1, 0, CASE_REVOKE_YIELD, 0, {0}, 0, 0};
		send(fd, &r, sizeof r, MSG_NOSIGNAL); /* the process may be gone */
		bool bye = false;
		for (ssize_t n; (n = recv(fd, &frame, sizeof frame, 0)) > 0 || (n < 0 && errno == ECONNRESET);) {
			if (n < 0)
				continue;
			CHECK(!bye);
			bye = frame.header.type == CASE_WIRE_BYE;
		}
		byes += bye;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		close(fd);
	}
	CHECK(byes > 0);
}

static atomic_int handled;

static void count(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

/* A thread that waits lets signals in, whoever reads for it. */
static void signals_while_another_reads(void)
{
	int listener = serve();
	struct call first, second, a;
	struct case_wire_task_begin begin[2];
	int fd;

	CHECK(signal(SIGUSR1, count) != SIG_ERR);
	start(&first, 1);
	fd = greet(listener);
	take(fd, &begin[0], sizeof begin[0], CASE_WIRE_TASK_BEGIN);
	start(&second, 1);
	take(fd, &begin[1], sizeof begin[1], CASE_WIRE_TASK_BEGIN);
	pthread_kill(first.thread, SIGUSR1);
	pthread_kill(second.thread, SIGUSR1);
	while (atomic_load(&handled) < 2)
		sched_yield();
	grant(fd, begin[0].task, 0);
	grant(fd, begin[1].task, 0);
	pthread_join(first.thread, NULL);
	pthread_join(second.thread, NULL);
	pid_t child = fork();
	if (child == 0) {
		struct case_wire_hello hello;
		evicts();
		start(&a, 1);
		fd = accept_evictor(listener, &hello);
		welcome(fd);
		take(fd, &begin[0], sizeof begin[0], CASE_WIRE_TASK_BEGIN);
		pthread_kill(a.thread, SIGUSR1);
		while (atomic_load(&handled) < 3)
			sched_yield();
		grant(fd, begin[0].task, 0);
		pthread_join(a.thread, NULL);
		_exit(a.result != CASE_OK);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A scheduler of another version says why it does not serve, in the one frame that never changes. */
static void another_version(void)
{
	for (uint16_t version = CASE_WIRE_VERSION - 1; version <= CASE_WIRE_VERSION + 1; version += 2) {
		int listener = serve();
		struct call a;
		struct case_wire_hello hello;
		struct case_wire_refuse r = {{CASE_WIRE_REFUSE, version, sizeof r}, 0, 0, 0, CASE_CAUSE_PROTOCOL, 0,
		                             "HELLO of protocol version 6; this scheduler speaks another"};
		pid_t child = fork();
		if (child == 0) {
			evicts();
			CHECK(case_task_begin(1, 1, 1, 0, 0, &a.task) == CASE_DISCONNECTED);
			_exit(0);
		}
		int fd = accept_evictor(listener, &hello), status;
		send_with(fd, &r, sizeof r, NULL, 0);
		close(fd);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		said(1, "this scheduler speaks another");
		close(listener);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name) {#name, name}
	TEST(unscheduled), TEST(required), TEST(long_path), TEST(bad_token),
	TEST(replies_out_of_order), TEST(reading_is_passed_on), TEST(server_goes_away),
	TEST(last_words), TEST(free_after_the_end), TEST(broken_server), TEST(interrupted), TEST(nonsense_stays_here),
	TEST(needs_and_shapes), TEST(waits), TEST(waits_for_nothing), TEST(only_the_first_fault), TEST(reports_from_a_handler), TEST(close_on_exec), TEST(fork_lets_go),
	TEST(fork_reports_anew),
	TEST(many_failed_allocations), TEST(descriptor_taken), TEST(descriptor_taken_from_a_waiting_thread),
	TEST(plain_process_has_no_thread), TEST(revocation), TEST(revocation_without_effect), TEST(growth_is_no_permission), TEST(asked_beside_a_request),
	TEST(revoked_task_is_freed), TEST(bursts_end), TEST(unknown_action), TEST(permission_lasts), TEST(swap_space), TEST(room), TEST(offers), TEST(breaches_of_revocation), TEST(descriptor_taken_from_the_reader),
	TEST(descriptor_taken_from_a_hook), TEST(child_has_a_reader_of_its_own), TEST(exit_with_a_reader),
	TEST(signals_while_another_reads), TEST(another_version), TEST(closed_standard_descriptors),
};

int main(void)
{
	int failures = 0;

	unsetenv("CASE_SOCKET");
	unsetenv("CASE_TOKEN");
	unsetenv("CASE_REQUIRED");
	unsetenv("CASE_WAIT");
	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(socket_path, sizeof socket_path, "%s/s", directory);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			alarm(20); /* a test that hangs fails */
			if (pipe2(stderr_pipe, O_NONBLOCK | O_CLOEXEC) != 0)
				_exit(1);
			dup2(stderr_pipe[1], STDERR_FILENO);
			tests[i].run();
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (status != 0) {
			printf("case_test: %s failed (wait status %#x)\n", tests[i].name, (unsigned)status);
			failures++;
		}
		unlink(socket_path);
	}
	rmdir(directory);
	if (failures == 0)
		puts("case_test: ok");
	return failures != 0;
}
