/* case.c: what the task API of case.h comes to, over one connection per process. The calls
 * about tasks come through explicit.c, from the program, or from the lazy runtime.
 *
 * `struct arbiter` decides which task has which device. It is the scheduler at the other end of the
 * connection, or this process itself over a state file that it shares with other clients
 * (shared/shared.h). In the second case the process only tells a scheduler, if there is one.
 *
 * Replies may come in any order between tasks, and a process may have several
 * threads waiting. One of them reads the socket for all: it files each reply
 * with the task it belongs to and wakes that task's thread; when its own reply
 * has come it passes the reading on. So nothing polls, there is no helper
 * thread, and each reply wakes one thread.
 *
 * `lock` guards all state and is never held while waiting for a reply. Frames
 * are sent under it, which keeps BYE last; the server reads without waiting for
 * anybody, so a send blocks only for as long as the server is not scheduled.
 *
 * The program may close the descriptor: some code closes all descriptors from 3 up. The number may
 * then name another file of the program. So the descriptor is checked before each use. If it is
 * gone, the process connects again: the server keeps the tasks.
 */
#define _GNU_SOURCE /* pthread_setcancelstate, MSG_NOSIGNAL */
#pragma GCC visibility push(default)
#include "case.h"
#pragma GCC visibility pop

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "activity.h"
#include "client.h"
#include "link.h"
#include "shared/shared.h"

enum phase {
	UNOPENED,    /* no call yet in this process */
	UNSCHEDULED, /* no scheduler, and none is required */
	CONNECTED, /* somebody decides */
	LOST /* required and absent, or gone, or BYE was said */
};

/* DECIDING: this process itself settles what the task asks for. */
enum standing { HELD, WAITING, ANSWERED, DECIDING };

/* A live task, on the heap from begin to free. */
struct entry {
	uint64_t id;
	enum standing standing;
	union link_frame reply; /* valid when ANSWERED */
	uint64_t bytes;         /* by this process's own decision, which it holds; */
	uint32_t device;        /* on this device of the state file */
	pthread_cond_t wake;
	struct entry *next;
};

struct caller;

/* A request for a device or for more of one. */
union request {
	struct case_wire_header header;
	struct case_wire_task_begin begin;
	struct case_wire_task_grow grow;
};

/* Who decides. The calls come with the lock held. */
struct arbiter {
	/* ask waits until the request of e is decided, and leaves the answer in e->reply. false:
	 * nobody decides any more. */
	bool (*ask)(struct entry *e, union request *request, const struct caller *caller);
	/* give gives back `bytes` of e's, or all of it where they are its end, and waits for
	 * nobody; `frame` says the same. */
	bool (*give)(struct entry *e, uint64_t bytes, bool end, const void *frame, size_t size);
};
static const struct arbiter server, clients;

static struct {
	pthread_mutex_t lock;
	enum phase phase;
	const struct arbiter *arbiter; /* when CONNECTED */
	struct shared shared;          /* of the clients */
	int32_t priority;
	bool client; /* case_client has been called */
	struct link link;              /* none where clients decide and no run records it */
	char path[sizeof ((struct sockaddr_un *)0)->sun_path], token[2 * CASE_WIRE_TOKEN + 1]; /* of it */
	bool reading; /* a thread is in link_receive */
	bool fault_sent;
	uint64_t ooms; /* failed allocations so far */
	uint64_t oom_bytes; /* of the last one */
	uint64_t last_id;
	uint32_t wait_ms; /* of requests that say nothing of it */
	struct entry *tasks;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .link = {.fd = -1}};

/* What a thread was like before its call. */
struct caller {
	int cancel_state;
	sigset_t signals;
};

/* hold blocks signals, because a handler may report an error itself. Signals that an
 * instruction of this thread raises stay unblocked. */
static void hold(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	for (const int *own = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, 0}; *own; own++)
		sigdelset(&all, *own);
	pthread_sigmask(SIG_BLOCK, &all, before);
}

/* enter takes the lock. The calls are not cancellation points: a thread that is cancelled while
 * it reads for the others would leave them waiting for ever. */
static struct caller enter(void)
{
	struct caller caller;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller.cancel_state);
	hold(&caller.signals);
	pthread_mutex_lock(&process.lock);
	return caller;
}

static int leave(struct caller caller, int result)
{
	pthread_mutex_unlock(&process.lock);
	pthread_sigmask(SIG_SETMASK, &caller.signals, NULL);
	pthread_setcancelstate(caller.cancel_state, NULL);
	return result;
}

static void before_fork(void) { pthread_mutex_lock(&process.lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&process.lock); }

/* The child has no use for its parent's socket. It connects for itself when it
 * first needs to. */
static void after_fork_in_child(void)
{
	if (link_intact(&process.link))
		close(process.link.fd);
	process.link.fd = -1;
	shared_close(&process.shared);
	process.phase = UNOPENED;
	process.client = false;
	process.reading = false;
	process.fault_sent = false;
	process.ooms = 0;
	pthread_mutex_init(&process.lock, NULL);
}

__attribute__((constructor)) static void start(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* say_last_oom reports the failed allocations that were too many to report one by one. */
static void say_last_oom(void)
{
	struct case_wire_oom frame = {
		.header = link_header(CASE_WIRE_OOM, sizeof frame),
		.bytes = process.oom_bytes,
	};

	if (process.ooms < CASE_WIRE_REPORTS)
		return;
	snprintf(frame.where, sizeof frame.where, "the last of %" PRIu64 " more failed allocations",
	         process.ooms - (CASE_WIRE_REPORTS - 1));
	link_send(process.link.fd, &frame, sizeof frame, MSG_DONTWAIT);
}

/* BYE says that the process ends through exit. It must not delay the exit, so it is left out if
 *
 *   - a thread is in the middle of a call,
 *   - the queue is full, or
 *   - the program has closed the socket.
 *
 * The socket stays open until the process is gone, because the device memory stays too. */
__attribute__((destructor)) static void finish(void)
{
	if (pthread_mutex_trylock(&process.lock) != 0)
		return;
	if (process.phase == CONNECTED) {
		struct case_wire_bye bye = {link_header(CASE_WIRE_BYE, sizeof bye)};
		if (process.arbiter == &clients)
			shared_leave(&process.shared);
		if (link_intact(&process.link)) {
			say_last_oom();
			link_send(process.link.fd, &bye, sizeof bye, MSG_DONTWAIT);
		}
		process.phase = LOST;
	}
	pthread_mutex_unlock(&process.lock);
}

/* instance tells this copy of the library from another copy in the same process: each has its state
 * at its own address. */
static uint32_t instance(void) { return (uint32_t)((uintptr_t)&process >> 4) | 1; }

/* dial connects, and shows the server what this process has running from now on. */
static struct link dial(const char *path, const char *token, char *why, size_t why_size)
{
	const int page = activity_share();
	const struct link made = link_open(path, token, instance(), page, why, why_size);

	if (page >= 0)
		close(page);
	return made;
}

/* read_wait reads CASE_WAIT. */
static uint32_t read_wait(void)
{
	const char *text = getenv("CASE_WAIT");

	if (text == NULL)
		return CASE_WAIT_DEFAULT;
	return strcmp(text, "none") == 0 ? CASE_WAIT_NONE : (uint32_t)strtoul(text, NULL, 10);
}

/* read_priority reads CASE_PRIORITY, which the clients that decide go by. */
static int32_t read_priority(void)
{
	const char *text = getenv("CASE_PRIORITY");

	return text == NULL ? 0 : (int32_t)strtol(text, NULL, 10);
}

static uint32_t wait_of(uint32_t wait_ms) { return wait_ms == CASE_WAIT_DEFAULT ? process.wait_ms : wait_ms; }

static const char *variable(const char *name)
{
	const char *text = getenv(name);

	return text != NULL && *text != '\0' ? text : NULL;
}

/* open_connection runs once per process. Tasks found in the list are those of
 * the parent that forked this process; they are not ours. `file` is the state file of
 * clients that decide where the environment names nobody who does; NULL: none. */
static void open_connection(const char *file)
{
	const char *path = variable("CASE_SOCKET"), *token = getenv("CASE_TOKEN"), *required = variable("CASE_REQUIRED");
	const bool must = required != NULL && strcmp(required, "0") != 0;
	bool opened = false;
	char why[512] = "CASE_SOCKET is not set";

	while (process.tasks != NULL) {
		struct entry *inherited = process.tasks;
		process.tasks = inherited->next;
		free(inherited);
	}
	process.wait_ms = read_wait();
	process.priority = read_priority();
	process.arbiter = &server;
	if (path != NULL) {
		process.link = dial(path, token, why, sizeof why);
		opened = process.link.fd >= 0;
	}
	if (opened) { /* so both are as long as they may be */
		strcpy(process.path, path);
		strcpy(process.token, token);
	}
	if (variable("CASE_SHARED") != NULL)
		file = variable("CASE_SHARED");
	else if (path != NULL)
		file = NULL;
	if (file != NULL && (opened || path == NULL)) {
		process.arbiter = &clients;
		opened = shared_open(&process.shared, file, path == NULL, instance(), why, sizeof why);
	}
	if (opened) {
		process.phase = CONNECTED;
	} else if (must) {
		process.phase = LOST;
		link_say("no scheduler, and CASE_REQUIRED is set: %s", why);
	} else {
		process.phase = UNSCHEDULED;
		if (!lazy_is_linked || path != NULL || file != NULL) /* whoever runs what casecc built need not know of it */
			link_say("running unscheduled: %s", why);
	}
}

bool case_client(const char *file)
{
	struct caller caller = enter();

	if (process.phase == UNOPENED || (process.phase == UNSCHEDULED && !process.client))
		open_connection(file);
	process.client = true;
	return leave(caller, process.phase == CONNECTED);
}

static enum phase ready(void)
{
	if (process.phase == UNOPENED)
		open_connection(NULL);
	return process.phase;
}

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static void *working; /* the copy of the library that does the work, if it is another */

static void look(void)
{
	if (lazy_is_linked)
		return;
	if (case_linked != NULL)
		working = dlopen(NULL, RTLD_LAZY);
	else if (!lazy_accounts)
		working = dlopen("libcase.so", RTLD_LAZY | RTLD_NOLOAD);
}

/* A program with a lazy runtime need not have all of the library: the function that is found then
 * can be in this copy. */
void *client_working(const char *function)
{
	Dl_info found, own;

	pthread_once(&looked, look);
	void *there = working == NULL ? NULL : dlsym(working, function);
	if (there == NULL || dladdr(there, &found) == 0 || dladdr(&process, &own) == 0 || found.dli_fbase == own.dli_fbase)
		return NULL;
	return there;
}

static struct entry *find(uint64_t id)
{
	struct entry *e = process.phase == UNOPENED ? NULL : process.tasks;

	while (e != NULL && e->id != id)
		e = e->next;
	return e;
}

static void discard(struct entry *gone)
{
	struct entry **link = &process.tasks;

	while (*link != gone)
		link = &(*link)->next;
	*link = gone->next;
	free(gone);
}

static void lose(const char *why)
{
	process.phase = LOST;
	if (link_intact(&process.link))
		shutdown(process.link.fd, SHUT_RDWR);
	link_say("lost the scheduler: %s", why);
	for (struct entry *e = process.tasks; e != NULL; e = e->next)
		if (e->standing == WAITING)
			pthread_cond_signal(&e->wake);
}

static void deliver(enum link_event event, const union link_frame *frame)
{
	if (process.phase != CONNECTED)
		return;
	if (event == LINK_CLOSED) {
		lose("it closed the connection");
		return;
	}
	if (event == LINK_FRAME && frame->header.type == CASE_WIRE_REFUSE &&
	    frame->refuse.task == 0) {
		lose(frame->refuse.text);
		return;
	}
	/* GRANT and REFUSE both have the task first. */
	struct entry *e = event == LINK_FRAME ? find(frame->grant.task) : NULL;
	if (e == NULL || e->standing != WAITING) {
		lose("it sent a frame that answers no request");
		return;
	}
	e->reply = *frame;
	e->standing = ANSWERED;
	pthread_cond_signal(&e->wake);
}

static const char closed_here[] =
	"the program has closed its connection (a descriptor that it did not open)";

/* connected looks whether the connection is still there. If the program has closed it, and no answer
 * is lost with it, connected makes another connection. */
static bool connected(void)
{
	char why[256];

	if (process.phase != CONNECTED)
		return false;
	if (link_intact(&process.link))
		return true;
	for (struct entry *e = process.tasks; e != NULL; e = e->next)
		if (e->standing == WAITING) {
			lose(closed_here);
			return false;
		}
	process.link = dial(process.path, process.token, why, sizeof why);
	if (process.link.fd >= 0)
		return true;
	lose(why);
	return false;
}

/* transmit sends a frame. If that fails the server is gone, perhaps after a frame with the reason that
 * no thread has read yet. */
static bool transmit(const void *frame, size_t size)
{
	if (!connected())
		return false;
	if (link_send(process.link.fd, frame, size, 0) == 0)
		return true;
	shutdown(process.link.fd, SHUT_RDWR);
	while (!process.reading && process.phase == CONNECTED) {
		union link_frame last;
		deliver(link_receive(process.link.fd, &last), &last);
	}
	return false;
}

/* await blocks until e is answered (true) or the scheduler is lost. */
static bool await(struct entry *e, const struct caller *caller)
{
	while (e->standing == WAITING && process.phase == CONNECTED) {
		if (process.reading) {
			pthread_cond_wait(&e->wake, &process.lock);
			continue;
		}
		if (!link_intact(&process.link)) {
			lose(closed_here);
			break;
		}
		process.reading = true;
		pthread_mutex_unlock(&process.lock);
		pthread_sigmask(SIG_SETMASK, &caller->signals, NULL); /* it may take hours */
		union link_frame frame;
		enum link_event event = link_receive(process.link.fd, &frame);
		sigset_t again;
		hold(&again);
		pthread_mutex_lock(&process.lock);
		process.reading = false;
		deliver(event, &frame);
	}
	for (struct entry *next = process.tasks; next != NULL && !process.reading; next = next->next)
		if (next->standing == WAITING) {
			pthread_cond_signal(&next->wake);
			break;
		}
	return e->standing == ANSWERED;
}

static bool server_ask(struct entry *e, union request *request, const struct caller *caller)
{
	bool answered = false;

	if (connected()) { /* while e waits for nothing yet */
		e->standing = WAITING;
		answered = transmit(request, request->header.size) && await(e, caller);
		e->standing = HELD;
	}
	return answered;
}

static bool server_give(struct entry *e, uint64_t bytes, bool end, const void *frame, size_t size)
{
	(void)e, (void)bytes, (void)end;
	return transmit(frame, size);
}

static const struct arbiter server = {server_ask, server_give};

/* report tells the run, where there is one, what this process decides. */
static bool report(const void *frame, size_t size)
{
	return process.path[0] == '\0' ? process.phase == CONNECTED : transmit(frame, size);
}

static void begin_wait(void *caller)
{
	pthread_mutex_unlock(&process.lock);
	pthread_sigmask(SIG_SETMASK, &((const struct caller *)caller)->signals, NULL);
}

static void end_wait(void *caller)
{
	sigset_t again;

	(void)caller;
	hold(&again);
	pthread_mutex_lock(&process.lock);
}

/* answer_with makes the frame that a server would have sent for this decision. */
static void answer_with(struct entry *e, const struct shared_answer *answer)
{
	struct case_wire_grant *grant = &e->reply.grant;
	struct case_wire_refuse *refuse = &e->reply.refuse;

	memset(&e->reply, 0, sizeof e->reply);
	if (answer->reason == 0) {
		grant->header = link_header(CASE_WIRE_GRANT, sizeof *grant);
		grant->task = e->id;
		grant->ordinal = answer->ordinal;
		memcpy(grant->uuid, answer->uuid, sizeof grant->uuid);
		return;
	}
	refuse->header = link_header(CASE_WIRE_REFUSE, sizeof *refuse);
	refuse->task = e->id;
	refuse->reason = answer->reason;
	refuse->need = answer->need;
	refuse->capacity = answer->capacity;
	link_text(refuse->text, sizeof refuse->text, answer->text);
}

/* report_decided tells the run how the request of e ended. */
static bool report_decided(const struct entry *e, const struct shared_answer *answer)
{
	const bool granted = answer->reason == 0;
	const struct case_wire_task_decided frame = {
		.header = link_header(CASE_WIRE_TASK_DECIDED, sizeof frame),
		.task = e->id,
		.need = granted ? 0 : answer->need,
		.capacity = granted ? 0 : answer->capacity,
		.reason = answer->reason,
		.ordinal = granted ? answer->ordinal : 0,
	};

	return report(&frame, sizeof frame);
}

static bool clients_give(struct entry *e, uint64_t bytes, bool end, const void *frame, size_t size)
{
	char why[512];

	if (!end && bytes > e->bytes) {
		link_say("shrink of task %" PRIu64 ": it holds %" PRIu64 " bytes, and gives back %" PRIu64, e->id, e->bytes, bytes);
		return true;
	}
	if (!shared_give(&process.shared, e->device, end ? e->bytes : bytes, end ? 1 : 0, why, sizeof why))
		link_say("what task %" PRIu64 " gives back is not free yet: %s", e->id, why);
	e->bytes -= end ? e->bytes : bytes;
	return report(frame, size);
}

static bool clients_ask(struct entry *e, union request *request, const struct caller *caller)
{
	const bool grows = request->header.type == CASE_WIRE_TASK_GROW;
	const struct case_wire_task_begin *begin = &request->begin;
	const bool named = grows || (begin->flags & CASE_FLAG_DEVICE) != 0;
	const struct shared_need need = {
		.bytes = grows ? request->grow.bytes : begin->bytes + begin->heap_bytes,
		.held = e->bytes,
		.device = !named ? -1 : grows ? process.shared.config.device[e->device].ordinal : begin->device,
		.wait_ms = grows ? request->grow.wait_ms : begin->wait_ms,
		.priority = process.priority,
		.grows = grows,
	};
	const struct pause pause = {begin_wait, end_wait, (void *)caller};
	struct shared_answer answer;
	char why[512];

	if (!grows)
		request->begin.flags |= CASE_FLAG_DECIDED;
	if (!report(request, request->header.size))
		return false;
	e->standing = DECIDING;
	const bool decided = shared_ask(&process.shared, &need, &pause, &answer, why, sizeof why);
	e->standing = HELD;
	if (!decided) {
		lose(why);
		return false;
	}
	answer_with(e, &answer);
	if (answer.reason == 0) {
		e->bytes += need.bytes;
		e->device = answer.device;
	}
	return report_decided(e, &answer); /* otherwise the process has lost its run, and holds it to its end */
}

static const struct arbiter clients = {clients_ask, clients_give};

/* ask sends a request for e and waits for the answer. */
static int ask(struct entry *e, union request *request, const struct caller *caller)
{
	if (!process.arbiter->ask(e, request, caller))
		return CASE_DISCONNECTED;
	if (e->reply.header.type == CASE_WIRE_GRANT)
		return CASE_OK;
	const struct case_wire_refuse *r = &e->reply.refuse;
	link_say("task %" PRIu64 " refused: %s (needs %" PRIu64 " bytes, %.2f GiB; capacity %" PRIu64
	         " bytes, %.2f GiB)",
	         r->task, r->text, r->need, (double)r->need / (1 << 30), r->capacity,
	         (double)r->capacity / (1 << 30));
	if (r->reason == CASE_REASON_TIMEOUT)
		return CASE_TIMED_OUT;
	/* What would fit is too large only where it may not go. */
	return r->reason == CASE_REASON_TOO_LARGE && r->need <= r->capacity ? CASE_NO_DEVICE : CASE_REFUSED;
}

static bool possible(const struct case_need *need)
{
	bool pinned = (need->flags & CASE_FLAG_DEVICE) != 0;

	return need->bytes <= CASE_WIRE_MAX_BYTES &&
	       need->heap_bytes <= CASE_WIRE_MAX_BYTES - need->bytes && need->blocks <= INT64_MAX &&
	       (need->flags & ~(CASE_FLAG_MANAGED | CASE_FLAG_DEVICE)) == 0 && !(pinned && need->device < 0);
}

static int ask_for(const struct case_need *need, struct case_task *task, const struct caller *caller)
{
	if (ready() == LOST)
		return CASE_DISCONNECTED;
	if (process.phase == UNSCHEDULED) {
		task->id = ++process.last_id;
		return CASE_OK;
	}
	if (!possible(need)) {
		link_say("task refused: %" PRIu64 " + %" PRIu64 " bytes, %" PRIu64
		         " blocks, flags 0x%" PRIx32 ", device %" PRId32
		         " is not a request that a device could meet",
		         need->bytes, need->heap_bytes, need->blocks, need->flags, need->device);
		return CASE_REFUSED;
	}
	struct entry *e = calloc(1, sizeof *e);
	if (e == NULL) {
		link_say("task refused: out of host memory");
		return CASE_REFUSED;
	}
	pthread_cond_init(&e->wake, NULL);
	e->id = ++process.last_id;
	e->next = process.tasks;
	process.tasks = e;

	union request request = {.begin = {
		.header = link_header(CASE_WIRE_TASK_BEGIN, sizeof request.begin),
		.task = e->id,
		.bytes = need->bytes,
		.blocks = need->blocks,
		.heap_bytes = need->heap_bytes,
		.threads_per_block = need->threads_per_block,
		.flags = need->flags,
		.blocks_per_sm = need->blocks_per_sm,
		.device = (need->flags & CASE_FLAG_DEVICE) != 0 ? need->device : 0,
		.wait_ms = wait_of(need->wait_ms),
	}};
	int result = ask(e, &request, caller);
	if (result != CASE_OK) {
		discard(e);
		return result;
	}
	task->id = e->id;
	task->device = e->reply.grant.ordinal;
	memcpy(task->uuid, e->reply.grant.uuid, sizeof task->uuid);
	return CASE_OK;
}

int client_await_grant(const struct case_need *need, struct case_task *task)
{
	*task = (struct case_task){.device = -1};
	struct caller caller = enter();
	return leave(caller, ask_for(need, task, &caller));
}

/* held finds the task on which a call may act. NULL: it says why the call may not. */
static struct entry *held(const struct case_task *task, const char *call)
{
	struct entry *e = find(task->id);

	if (e != NULL && e->standing == HELD)
		return e;
	if (process.phase == UNOPENED || process.phase == CONNECTED)
		link_say("%s of task %" PRIu64 ": %s", call, task->id,
		         e != NULL ? "another thread waits for it" : "this process does not hold it");
	return NULL;
}

static int grow(struct case_task *task, uint64_t bytes, uint32_t wait_ms, const struct caller *caller)
{
	struct entry *e = held(task, "grow");

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (bytes > CASE_WIRE_MAX_BYTES) {
		link_say("task %" PRIu64 " refused: %" PRIu64 " bytes more is not a request that a device could meet",
		         task->id, bytes);
		return CASE_REFUSED;
	}
	union request request = {.grow = {
		.header = link_header(CASE_WIRE_TASK_GROW, sizeof request.grow),
		.task = task->id,
		.bytes = bytes,
		.wait_ms = wait_of(wait_ms),
	}};
	return ask(e, &request, caller);
}

int client_await_growth(struct case_task *task, uint64_t bytes, uint32_t wait_ms)
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, grow(task, bytes, wait_ms, &caller));
}

static int shrink(struct case_task *task, uint64_t bytes)
{
	struct entry *e = held(task, "shrink");

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (bytes > CASE_WIRE_MAX_BYTES) {
		link_say("shrink of task %" PRIu64 ": %" PRIu64 " bytes are more than any task holds", task->id, bytes);
		return CASE_REFUSED;
	}
	struct case_wire_task_shrink frame = {
		.header = link_header(CASE_WIRE_TASK_SHRINK, sizeof frame),
		.task = task->id,
		.bytes = bytes,
	};
	return process.arbiter->give(e, bytes, false, &frame, sizeof frame) ? CASE_OK : CASE_DISCONNECTED;
}

int client_shrink(struct case_task *task, uint64_t bytes)
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, shrink(task, bytes));
}

static int shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block,
                 uint32_t blocks_per_sm)
{
	struct entry *e = held(task, "shape");

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (blocks > INT64_MAX) {
		link_say("shape of task %" PRIu64 ": %" PRIu64 " blocks are more than any kernel has",
		         task->id, blocks);
		return CASE_REFUSED;
	}
	struct case_wire_task_shape frame = {
		.header = link_header(CASE_WIRE_TASK_SHAPE, sizeof frame),
		.task = task->id,
		.blocks = blocks,
		.threads_per_block = threads_per_block,
		.blocks_per_sm = blocks_per_sm,
	};
	return report(&frame, sizeof frame) ? CASE_OK : CASE_DISCONNECTED;
}

int client_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block, uint32_t blocks_per_sm)
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, shape(task, blocks, threads_per_block, blocks_per_sm));
}

static int release(struct case_task *task)
{
	struct entry *e = held(task, "free");

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	struct case_wire_task_free frame = {
		.header = link_header(CASE_WIRE_TASK_FREE, sizeof frame),
		.task = task->id,
	};
	const bool told = process.arbiter->give(e, 0, true, &frame, sizeof frame);
	discard(e);
	return told ? CASE_OK : CASE_DISCONNECTED;
}

int client_free(struct case_task *task)
{
	int result = CASE_OK;

	if (task->device >= 0 && task->id != 0) {
		struct caller caller = enter();
		result = leave(caller, release(task));
	}
	*task = (struct case_task){.device = -1};
	return result;
}

void case_report_oom(uint64_t bytes, const char *where)
{
	struct case_wire_oom frame = {
		.header = link_header(CASE_WIRE_OOM, sizeof frame),
		.bytes = bytes,
	};
	CLIENT_FORWARD(case_report_oom, bytes, where);
	link_text(frame.where, sizeof frame.where, where);
	struct caller caller = enter();
	process.oom_bytes = bytes;
	if (ready() == CONNECTED && ++process.ooms < CASE_WIRE_REPORTS)
		report(&frame, sizeof frame);
	leave(caller, 0);
}

void case_report_fault(int code, const char *where)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now); /* before the lock can delay it */
	case_report_fault_since(code, where, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

void case_report_fault_since(int code, const char *where, uint64_t monotonic_ns)
{
	struct case_wire_fault frame = {
		.header = link_header(CASE_WIRE_FAULT, sizeof frame),
		.monotonic_ns = monotonic_ns,
		.code = code,
	};
	CLIENT_FORWARD(case_report_fault_since, code, where, monotonic_ns);
	link_text(frame.where, sizeof frame.where, where);
	struct caller caller = enter();
	if (!process.fault_sent && ready() == CONNECTED) {
		process.fault_sent = true;
		report(&frame, sizeof frame);
	}
	leave(caller, 0);
}
