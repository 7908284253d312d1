/* case_test.c: libcase against a server in another thread of this process, so that the test chooses
 * the order of replies and failures. Each test runs in a fork, which gives it a library without a
 * connection. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../case.h"
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
	struct case_wire_grant f = {{CASE_WIRE_GRANT, CASE_WIRE_VERSION, sizeof f}, task, {9}, ordinal, 0};
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
	                             CASE_REASON_PROTOCOL, 0, "you speak nonsense"};

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
	struct case_wire_refuse f = {{CASE_WIRE_REFUSE, CASE_WIRE_VERSION, sizeof f}, task, 2, 1, CASE_REASON_TIMEOUT, 0, "late"};
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

/* Failed allocations beyond the first few are counted, and the count comes last. */
static void many_failed_allocations(void)
{
	int listener = serve();
	struct case_wire_oom oom;
	struct case_wire_bye bye;
	pid_t owner = fork();

	if (owner == 0) {
		for (int i = 1; i <= 1000; i++)
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
	take(fd, &oom, sizeof oom, CASE_WIRE_OOM);
	CHECK(oom.bytes == 1000 && strcmp(oom.where, "the last of 993 more failed allocations") == 0);
	take(fd, &bye, sizeof bye, CASE_WIRE_BYE);
	waitpid(owner, NULL, 0);
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

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name) {#name, name}
	TEST(unscheduled), TEST(required), TEST(long_path), TEST(bad_token),
	TEST(replies_out_of_order), TEST(reading_is_passed_on), TEST(server_goes_away),
	TEST(last_words), TEST(free_after_the_end), TEST(broken_server), TEST(interrupted), TEST(nonsense_stays_here),
	TEST(needs_and_shapes), TEST(waits), TEST(waits_for_nothing), TEST(only_the_first_fault), TEST(reports_from_a_handler), TEST(close_on_exec), TEST(fork_lets_go),
	TEST(many_failed_allocations), TEST(descriptor_taken), TEST(descriptor_taken_from_a_waiting_thread),
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
