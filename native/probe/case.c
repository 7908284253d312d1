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
 * A process that can give memory back (client_can_evict) must hear the server at any time. Each of its
 * connections has a thread that reads it: `reading` stays true. The thread calls the hooks. Meanwhile
 * it does not read: a thread that waits for swap space or room, which a hook may wait for, then reads the
 * connection itself (read_or_wait). A reader whose connection is not the current one ends. It may still be in a hook then: `serving` lets one thread call hooks at a time.
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
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
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

/* What other threads have asked for a task that has a request outstanding. */
struct later {
	bool freed, shaped;
	uint64_t shrunk;
	struct case_wire_task_shape shape; /* the latest */
};

/* A live task, on the heap from begin to free. */
struct entry {
	uint64_t id;
	enum standing standing;
	union link_frame reply; /* valid when ANSWERED */
	uint64_t bytes;         /* by this process's own decision, which it holds; */
	uint32_t device;        /* on this device of the state file */
	sem_t wake;
	uint64_t charged, resident; /* bytes that the server counts: for the task, and of these on the device */
	uint64_t given;             /* of the second, given back while a hook was at it */
	uint64_t wants;             /* of both, with the answer to its request; a resumption has no more of the first */
	uint64_t wants_away;        /* of the first alone, with that answer */
	uint64_t most;              /* of `wants`: what a resumption references */
	uint64_t stay;              /* of `wants`: what may stay on the host */
	enum client_advice advice;
	struct client_move moved[2]; /* in and out, which the server has not been told */
	struct later later;
	bool holds;    /* a device */
	bool resuming; /* when WAITING: for permission to submit work; */
	bool grows;    /* or for more */
	bool revoked;  /* it has to resume */
	bool asked;    /* a revocation, which no hook has seen yet; */
	struct case_wire_revoke revoke;
	uint64_t over;    /* it came over this connection */
	uint64_t revocations; /* that have come */
	uint64_t serving; /* a hook is at it, and it came over this connection; 0: none is */
	struct entry *next;
};

/* A thread that waits for a change, on its stack. */
struct waiter {
	sem_t wake;
	struct waiter *next;
};

/* A request for host memory, on the stack of the thread that waits. */
struct swap {
	struct client_space *space;
	bool answered;
};

/* A question that ROOM_IS answers, on the stack of the thread that waits. */
struct room {
	pthread_t asks;
	uint64_t bytes;
	bool answered;
};

struct caller;

/* A request for a device or for more of one. */
union request {
	struct case_wire_header header;
	struct case_wire_task_begin begin;
	struct case_wire_task_grow grow;
	struct case_wire_task_resume resume;
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
	uint64_t connection; /* number of the last one */
	const struct client_hooks *hooks; /* NULL: this process gives nothing back */
	bool evicts;      /* said so over this connection, which has a thread that reads: */
	pthread_t reader;
	enum { NO_WELCOME, DUE, CAME, WELCOMED } welcome;
	struct case_wire_welcome welcome_frame; /* when CAME */
	bool serving;     /* a thread calls hooks: */
	pthread_t server;
	struct swap *swap; /* the request that waits for an answer */
	struct room *room; /* the question that does */
	struct link_files offer; /* that nobody has asked for, */
	uint64_t offer_at; /* from here in all that was offered */
	bool recalled; /* what was offered is to go back */
	struct waiter *waiters;
	bool granted; /* a task has had a device of the server's */
	bool reading; /* a thread is in link_receive, or will be */
	uint64_t receiving; /* the connection with a thread in link_receive now; 0: none */
	bool fault_sent;
	bool hinted;
	char lost_why[512]; /* why the scheduler was lost, until unheard has told it */
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

/* sleep_until gives the lock up and waits. It may take hours, so the caller's signals are let in. */
static void sleep_until(sem_t *wake, const struct caller *caller)
{
	begin_wait((void *)caller);
	while (sem_wait(wake) != 0 && errno == EINTR)
		;
	end_wait((void *)caller);
}

/* sleep_until_changed waits for the next call of changed. */
static void sleep_until_changed(const struct caller *caller)
{
	struct waiter self = {.next = process.waiters};

	sem_init(&self.wake, 0, 0);
	process.waiters = &self;
	sleep_until(&self.wake, caller);
}

static void changed(void)
{
	while (process.waiters != NULL) {
		struct waiter *first = process.waiters;
		process.waiters = first->next;
		sem_post(&first->wake);
	}
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
	process.receiving = 0;
	process.evicts = false;
	link_close(&process.offer);
	process.recalled = false;
	process.serving = false;
	process.swap = NULL;
	process.room = NULL;
	process.waiters = NULL;
	process.granted = false;
	process.fault_sent = false;
	process.hinted = false;
	process.lost_why[0] = '\0';
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

/* lock_at_exit takes the lock if nobody has it. A reader has it for moments, and nothing tells the
 * reader from a thread in the middle of a call: so, with a reader, the exit is delayed a little. */
static bool lock_at_exit(void)
{
	const long most_ns = 20000000;
	struct timespec until;

	if (pthread_mutex_trylock(&process.lock) == 0)
		return true;
	if (process.hooks == NULL)
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += most_ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return pthread_mutex_timedlock(&process.lock, &until) == 0;
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
	if (!lock_at_exit())
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

/* The caller's variables as they are before the program, which may clear its environment. Plain strings,
 * because they are read in constructors too. */
static char *at_load[32]; /* NAME=value */

__attribute__((constructor(101))) static void keep_environment(void)
{
	size_t kept = 0;

	for (char **e = environ; e != NULL && *e != NULL && kept < sizeof at_load / sizeof *at_load; e++)
		if (strncmp(*e, "CASE_", strlen("CASE_")) == 0)
			at_load[kept++] = strdup(*e); /* the program may write over it */
}

const char *client_variable(const char *name)
{
	const char *text = getenv(name);
	const size_t length = strlen(name);

	for (size_t i = 0; text == NULL && i < sizeof at_load / sizeof *at_load; i++)
		if (at_load[i] != NULL && strncmp(at_load[i], name, length) == 0 && at_load[i][length] == '=')
			text = at_load[i] + length + 1;
	return text;
}

/* variable is client_variable where an empty value is none. */
static const char *variable(const char *name)
{
	const char *text = client_variable(name);

	return text != NULL && *text != '\0' ? text : NULL;
}

static void *read_connection(void *number);

/* start_reader starts the thread that reads the connection to come. */
static bool start_reader(void)
{
	pthread_attr_t detached;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	const bool started = pthread_create(&process.reader, &detached, read_connection, (void *)(uintptr_t)process.connection) == 0;
	pthread_attr_destroy(&detached);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

/* permitted: the task may submit work. */
static bool permitted(const struct entry *e) { return !e->revoked && !e->asked && e->serving == 0; }

/* show_permit tells whether all tasks may submit work. */
static void show_permit(void)
{
	bool all = process.granted;

	if (process.hooks == NULL)
		return;
	for (const struct entry *e = process.tasks; e != NULL; e = e->next)
		all = all && permitted(e);
	activity_permit(all);
}

/* settle forgets what came over earlier connections and was not begun. */
static void settle(void)
{
	for (struct entry *e = process.tasks; e != NULL; e = e->next)
		e->asked = false;
	link_close(&process.offer);
	process.recalled = false;
	process.swap = NULL;
	process.room = NULL;
	show_permit();
	changed();
}

/* dial connects, and shows the server what this process has running from now on. A process that can
 * evict says so if a thread will hear the server. */
static bool dial(const char *path, const char *token, char *why, size_t why_size)
{
	const int page = activity_share();

	process.connection++;
	process.evicts = process.hooks != NULL && variable("CASE_SHARED") == NULL && start_reader();
	process.reading = process.evicts;
	process.welcome = process.evicts ? DUE : NO_WELCOME;
	process.link = link_open(path, token, instance(), process.evicts ? CASE_CAN_EVICT | CASE_CAN_PREPARE | process.hooks->can : 0, page, why, why_size);
	if (page >= 0)
		close(page);
	settle();
	return process.link.fd >= 0;
}

/* read_wait reads CASE_WAIT. */
static uint32_t read_wait(void)
{
	const char *text = client_variable("CASE_WAIT");

	if (text == NULL)
		return CASE_WAIT_DEFAULT;
	return strcmp(text, "none") == 0 ? CASE_WAIT_NONE : (uint32_t)strtoul(text, NULL, 10);
}

/* read_priority reads CASE_PRIORITY, which the clients that decide go by. */
static int32_t read_priority(void)
{
	const char *text = client_variable("CASE_PRIORITY");

	return text == NULL ? 0 : (int32_t)strtol(text, NULL, 10);
}

static uint32_t wait_of(uint32_t wait_ms) { return wait_ms == CASE_WAIT_DEFAULT ? process.wait_ms : wait_ms; }

/* open_connection runs once per process. Tasks found in the list are those of
 * the parent that forked this process; they are not ours. `file` is the state file of
 * clients that decide where the environment names nobody who does; NULL: none. */
static void open_connection(const char *file)
{
	const char *path = variable("CASE_SOCKET"), *token = client_variable("CASE_TOKEN"), *required = variable("CASE_REQUIRED");
	const bool must = required != NULL && strcmp(required, "0") != 0;
	bool opened = false, others = false; /* others schedule by the file */
	char why[512] = "CASE_SOCKET is not set";

	while (process.tasks != NULL) {
		struct entry *inherited = process.tasks;
		process.tasks = inherited->next;
		free(inherited);
	}
	process.wait_ms = read_wait();
	process.priority = read_priority();
	process.arbiter = &server;
	if (path != NULL)
		opened = dial(path, token, why, sizeof why);
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
		others = access(file, F_OK) == 0;
	}
	if (opened) {
		process.phase = CONNECTED;
	} else if (others || must) {
		process.phase = LOST;
		snprintf(process.lost_why, sizeof process.lost_why, "%s", why);
		link_say(others ? "no task is scheduled: %s" : "no scheduler, and CASE_REQUIRED is set: %s", why);
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
	show_permit();
	changed();
}

static void lose(const char *why)
{
	process.phase = LOST;
	if (link_intact(&process.link))
		shutdown(process.link.fd, SHUT_RDWR);
	snprintf(process.lost_why, sizeof process.lost_why, "lost the scheduler: %s", why);
	link_say("%s", process.lost_why);
	for (struct entry *e = process.tasks; e != NULL; e = e->next)
		if (e->standing == WAITING)
			sem_post(&e->wake);
	changed();
}

/* unheard tells the run of the first thing that the scheduler did not hear. */
static void unheard(const char *what)
{
	const char *name = variable("CASE_REPORT");
	char text[sizeof process.lost_why + 160];

	snprintf(text, sizeof text, "%s: %s", what, process.lost_why);
	if (name != NULL && process.lost_why[0] != '\0')
		link_report(name, client_variable("CASE_TOKEN"), "unreached", text);
	process.lost_why[0] = '\0';
}

/* disconnected is the result of a call that nobody decides. */
static int disconnected(void)
{
	unheard("its CUDA calls were refused");
	return CASE_DISCONNECTED;
}

void client_hint(const char *what)
{
	const char *name = variable("CASE_REPORT");
	struct caller caller = enter();
	const bool first = !process.hinted;

	process.hinted = true;
	leave(caller, CASE_OK);
	if (name != NULL && first)
		link_report(name, client_variable("CASE_TOKEN"), "hint", what);
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* take_answer takes GRANT or REFUSE, which both have the task first. false: it breaks the protocol, as
 * with the functions that follow. */
static bool take_answer(const union link_frame *frame)
{
	struct entry *e = find(frame->grant.task);

	if (e == NULL || e->standing != WAITING)
		return false;
	if (frame->header.type == CASE_WIRE_GRANT) {
		if (frame->grant.host_bytes > e->stay || (e->resuming && (e->asked || e->serving == process.connection)))
			return false;
		e->holds = process.granted = true;
		e->charged += e->resuming ? 0 : e->wants + e->wants_away;
		e->resident = least(e->charged, e->resident + e->wants - frame->grant.host_bytes);
		if (!e->grows)
			e->advice = frame->grant.host_bytes > 0 ? CLIENT_ADVISED : CLIENT_FREE;
		e->revoked = e->revoked && !e->resuming;
		show_permit();
	}
	e->reply = *frame;
	e->standing = ANSWERED;
	sem_post(&e->wake);
	return true;
}

static bool take_welcome(const struct case_wire_welcome *frame)
{
	if (process.welcome != DUE)
		return false;
	process.welcome = CAME;
	process.welcome_frame = *frame;
	return true;
}

static bool take_revoke(const struct case_wire_revoke *frame)
{
	struct entry *e = find(frame->task);

	if (!process.evicts || process.welcome_frame.chunk_bytes == 0)
		return false;
	if (e == NULL) /* it crossed TASK_FREE */
		return true;
	if (!e->holds || e->asked || e->serving == process.connection)
		return false;
	e->asked = true;
	e->revocations++;
	e->revoke = *frame;
	e->over = process.connection;
	show_permit();
	return true;
}

/* take_offer adds to what is offered, if it is whole and follows what is there. Else the caller closes its files. */
static bool take_offer(const struct case_wire_swap_space *frame, struct link_files *files)
{
	const uint64_t chunk = process.welcome_frame.chunk_bytes, whole = chunk * frame->files;
	const int before = process.offer.count;

	if (!process.evicts || chunk == 0 || process.recalled || frame->bytes != whole)
		return false;
	if ((uint32_t)files->count != frame->files || before + files->count > CASE_WIRE_FILES)
		return true;
	if (before == 0)
		process.offer_at = frame->offset;
	if (frame->offset != process.offer_at + chunk * (uint64_t)before)
		return true;
	memcpy(process.offer.fd + before, files->fd, (size_t)files->count * sizeof *files->fd);
	process.offer.count += files->count;
	files->count = 0;
	return true;
}

static bool take_recall(void)
{
	if (!process.evicts || process.welcome_frame.chunk_bytes == 0 || process.recalled)
		return false;
	process.recalled = true;
	return true;
}

static bool take_space(const struct case_wire_swap_space *frame, struct link_files *files)
{
	if (frame->offered != 0)
		return take_offer(frame, files);
	if (process.swap == NULL)
		return false;
	*process.swap->space = (struct client_space){.bytes = frame->bytes, .offset = frame->offset, .file_count = files->count};
	memcpy(process.swap->space->files, files->fd, (size_t)files->count * sizeof *files->fd);
	files->count = 0;
	process.swap->answered = true;
	process.swap = NULL;
	changed();
	return true;
}

static bool take_room(const struct case_wire_room_is *frame)
{
	if (process.room == NULL)
		return false;
	process.room->bytes = frame->bytes;
	process.room->answered = true;
	process.room = NULL;
	changed();
	return true;
}

/* deliver files what was received. It leaves the files that nobody takes. */
static void deliver(enum link_event event, const union link_frame *frame, struct link_files *files)
{
	bool allowed = false;

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
	if (event == LINK_FRAME && (process.welcome != DUE || frame->header.type == CASE_WIRE_WELCOME))
		switch (frame->header.type) {
		case CASE_WIRE_WELCOME: allowed = take_welcome(&frame->welcome); break;
		case CASE_WIRE_REVOKE: allowed = take_revoke(&frame->revoke); break;
		case CASE_WIRE_SWAP_SPACE: allowed = take_space(&frame->space, files); break;
		case CASE_WIRE_SWAP_RECALL: allowed = take_recall(); break;
		case CASE_WIRE_ROOM_IS: allowed = take_room(&frame->room); break;
		default: allowed = take_answer(frame);
		}
	if (!allowed) {
		char why[128];
		snprintf(why, sizeof why, "it sent a frame of type %u that answers no request, or none that is allowed now", (unsigned)frame->header.type);
		lose(why);
	}
}

/* receive takes the next frame, without the lock while it waits. What comes after the program has
 * closed the descriptor may not be the connection's, unless it is a frame. */
static void receive(const struct caller *caller)
{
	const uint64_t over = process.connection;
	const int fd = process.link.fd;
	union link_frame frame;
	struct link_files files;

	process.receiving = over;
	begin_wait((void *)caller);
	const enum link_event event = link_receive(fd, &frame, &files);
	end_wait((void *)caller);
	if (over == process.connection) {
		process.receiving = 0;
		if (event == LINK_FRAME || link_intact(&process.link))
			deliver(event, &frame, &files);
	}
	link_close(&files);
	changed();
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
	if (dial(process.path, process.token, why, sizeof why))
		return true;
	lose(why);
	return false;
}

static bool current(uint64_t connection) { return process.phase == CONNECTED && process.connection == connection; }

/* wait_for_reason waits until the reader has said why the connection has ended. A hook, which may wait
 * for a lock of this thread's, is not waited for. */
static void wait_for_reason(void)
{
	const uint64_t over = process.connection;
	struct caller caller;

	pthread_sigmask(SIG_BLOCK, NULL, &caller.signals);
	while (process.evicts && current(over) && !process.serving)
		sleep_until_changed(&caller);
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
		struct link_files files;
		const enum link_event event = link_receive(process.link.fd, &last, &files);
		deliver(event, &last, &files);
		link_close(&files);
	}
	wait_for_reason();
	return false;
}

/* reads_here: this thread is the connection's reader, so nobody else reads for it. */
static bool reads_here(void) { return process.evicts && pthread_equal(process.reader, pthread_self()); }

/* read_or_wait waits for something to come, in a process that can evict. While the reader calls hooks, a thread that waits receives.
 * Its signals stay blocked then: a handler that waits for an answer would wait for the thread that it interrupts. */
static void read_or_wait(const struct caller *caller)
{
	struct caller blocked = *caller;

	if (process.receiving == process.connection || !(reads_here() || process.serving)) {
		sleep_until_changed(caller);
		return;
	}
	pthread_sigmask(SIG_BLOCK, NULL, &blocked.signals);
	receive(&blocked);
}

/* read_on has another thread that waits for an answer read the connection, after this one. */
static void read_on(void)
{
	for (struct entry *next = process.tasks; next != NULL && !process.reading; next = next->next)
		if (next->standing == WAITING) {
			sem_post(&next->wake);
			break;
		}
	changed();
}

/* await blocks until e is answered (true) or the scheduler is lost. */
static bool await(struct entry *e, const struct caller *caller)
{
	while (e->standing == WAITING && process.phase == CONNECTED) {
		if (process.reading && !reads_here()) {
			sleep_until(&e->wake, caller);
			continue;
		}
		if (!link_intact(&process.link)) {
			lose(closed_here);
			break;
		}
		process.reading = true;
		if (process.evicts)
			read_or_wait(caller);
		else
			receive(caller);
		process.reading = process.evicts;
	}
	read_on();
	return e->standing == ANSWERED;
}

/* stay_of is how much of that may stay on the host. */
static uint64_t stay_of(const union request *request)
{
	switch (request->header.type) {
	case CASE_WIRE_TASK_BEGIN: return request->begin.stay_bytes;
	case CASE_WIRE_TASK_RESUME: return request->resume.stay_bytes;
	default: return 0;
	}
}

/* bytes_of is how much more the server counts on the device once it has granted the request. */
static uint64_t bytes_of(const union request *request)
{
	switch (request->header.type) {
	case CASE_WIRE_TASK_BEGIN: return request->begin.bytes + request->begin.heap_bytes - request->begin.host_bytes;
	case CASE_WIRE_TASK_GROW: return request->grow.bytes;
	default: return request->resume.bytes;
	}
}

static bool server_ask(struct entry *e, union request *request, const struct caller *caller)
{
	bool answered = false;

	if (connected()) { /* while e waits for nothing yet */
		e->standing = WAITING;
		e->resuming = request->header.type == CASE_WIRE_TASK_RESUME;
		e->wants = bytes_of(request);
		e->wants_away = request->header.type == CASE_WIRE_TASK_BEGIN ? request->begin.host_bytes : 0;
		e->grows = request->header.type == CASE_WIRE_TASK_GROW;
		e->stay = stay_of(request);
		e->most = e->resuming ? request->resume.referenced_bytes : 0;
		answered = transmit(request, request->header.size) && await(e, caller);
		e->standing = HELD;
		changed();
	}
	return answered;
}

static bool server_give(struct entry *e, uint64_t bytes, bool end, const void *frame, size_t size)
{
	(void)end;
	e->charged -= least(bytes, e->charged);
	if (e->resident > e->charged) {
		e->given += e->resident - e->charged;
		e->resident = e->charged;
	}
	return transmit(frame, size);
}

static const struct arbiter server = {server_ask, server_give};

static void greet(const struct caller *caller)
{
	struct client_welcome welcome = {
		.chunk_bytes = process.welcome_frame.chunk_bytes,
		.window_us = process.welcome_frame.window_us,
		.bursts = process.welcome_frame.bursts != 0,
	};

	process.welcome = WELCOMED;
	begin_wait((void *)caller);
	process.hooks->welcome(&welcome);
	end_wait((void *)caller);
}

static void pass_offer(const struct caller *caller)
{
	struct client_space space = {
		.bytes = process.welcome_frame.chunk_bytes * (uint64_t)process.offer.count,
		.offset = process.offer_at,
		.file_count = process.offer.count,
	};

	memcpy(space.files, process.offer.fd, sizeof space.files);
	process.offer.count = 0;
	begin_wait((void *)caller);
	process.hooks->offer(&space);
	end_wait((void *)caller);
}

/* pass_recall comes after what was offered before: nothing is offered until the answer is sent. */
static void pass_recall(const struct caller *caller)
{
	const uint64_t over = process.connection;
	struct case_wire_swap_kept frame = {.header = link_header(CASE_WIRE_SWAP_KEPT, sizeof frame)};

	begin_wait((void *)caller);
	frame.bytes = process.hooks->recall();
	end_wait((void *)caller);
	if (!current(over))
		return;
	process.recalled = false;
	if (link_intact(&process.link))
		link_send(process.link.fd, &frame, sizeof frame, 0); /* if it fails, the reader hears why */
}

static void report_revoked(const struct entry *e, const struct case_wire_revoke *revoke, const struct client_revoked *answer)
{
	const bool done = answer->outcome == CASE_REVOKED_DONE;
	struct case_wire_revoked frame = {
		.header = link_header(CASE_WIRE_REVOKED, sizeof frame),
		.task = revoke->task,
		.ticket = revoke->ticket,
		.freed_bytes = done ? answer->freed_bytes : 0,
		.resident_bytes = e->resident,
		.fixed_bytes = e->resident - least(e->resident, answer->movable_bytes),
		.drain_ns = answer->drain_ns,
		.copy_ns = answer->copy_ns,
		.bookkeeping_ns = answer->bookkeeping_ns,
		.lost_ns = answer->lost_ns,
		.outcome = answer->outcome,
	};

	if (answer->outcome == CASE_REVOKED_UNABLE)
		link_text(frame.why, sizeof frame.why, answer->why);
	if (link_intact(&process.link)) /* else the reader connects again, which withdraws the ticket */
		link_send(process.link.fd, &frame, sizeof frame, 0); /* if it fails, the reader hears why */
}

static void take_back(struct entry *e, const struct caller *caller)
{
	const struct case_wire_revoke revoke = e->revoke;
	const uint64_t over = e->over;
	const bool yields = revoke.action == CASE_REVOKE_YIELD || revoke.action == CASE_REVOKE_STOP;
	const struct client_revocation revocation = {
		.task = revoke.task,
		.action = (enum case_wire_action)revoke.action,
		.flags = revoke.flags,
		.bytes = revoke.bytes,
		.deadline_ms = revoke.deadline_ms,
		.uuid = revoke.uuid,
		.device = revoke.ordinal,
	};
	struct client_revoked answer = {0};

	e->asked = false;
	e->serving = over;
	e->given = 0;
	begin_wait((void *)caller);
	process.hooks->revoke(&revocation, &answer);
	end_wait((void *)caller);
	e = find(revoke.task);
	if (e == NULL) /* freed meanwhile, which answers the ticket */
		return;
	e->serving = 0;
	if (answer.outcome == CASE_REVOKED_DONE) {
		const uint64_t gone = revoke.action == CASE_REVOKE_MOVE ? 0 : answer.freed_bytes + answer.given_bytes;

		e->resident -= least(e->resident, gone - least(gone, e->given));
		if (e->standing == WAITING && e->resuming && yields) { /* as the scheduler counts (engine, Resume) */
			const uint64_t more = least(gone, e->most - least(e->most, e->wants));
			e->wants += more;
			e->stay += least(more, answer.freed_bytes);
		}
		if (yields)
			e->advice = CLIENT_FREE;
		else if (revoke.action == CASE_REVOKE_ADVISE)
			e->advice = revoke.bytes > 0 ? CLIENT_ADVISED : CLIENT_RELEASED;
	}
	e->revoked = e->revoked || (answer.outcome == CASE_REVOKED_DONE && yields);
	show_permit();
	if (current(over))
		report_revoked(e, &revoke, &answer);
	changed();
}

/* serve calls the hooks for what has come, unless another thread does. */
static void serve(const struct caller *caller)
{
	struct entry *e;

	if (process.serving)
		return;
	process.serving = true;
	process.server = pthread_self();
	changed();
	while (process.phase == CONNECTED) {
		for (e = process.tasks; e != NULL && !e->asked; e = e->next)
			;
		if (process.welcome == CAME)
			greet(caller);
		else if (e != NULL)
			take_back(e, caller);
		else if (process.offer.count > 0)
			pass_offer(caller);
		else if (process.recalled)
			pass_recall(caller);
		else
			break;
	}
	process.serving = false;
}

/* read_connection is the thread that reads the connection of this number. The program may have closed
 * its descriptor while the thread was in link_receive, which kept the socket. */
static void *read_connection(void *number)
{
	struct caller caller = enter();

	while (current((uintptr_t)number)) {
		if (link_intact(&process.link))
			read_or_wait(&caller);
		if (current((uintptr_t)number) && !link_intact(&process.link))
			connected(); /* over a connection that has a reader of its own, and withdraws what came */
		serve(&caller);
	}
	leave(caller, 0);
	return NULL;
}

bool client_can_evict(const struct client_hooks *hooks)
{
	struct caller caller = enter();
	const bool early = process.phase == UNOPENED && process.hooks == NULL;

	if (early)
		process.hooks = hooks;
	leave(caller, 0);
	return early;
}

/* await_swap waits until the request `own` is answered; NULL: until no other is open. It ends with the
 * connection. */
static void await_swap(const struct swap *own, uint64_t over, const struct caller *caller)
{
	while (process.swap != NULL && (own == NULL || process.swap == own) && current(over) && link_intact(&process.link))
		read_or_wait(caller);
}

static bool more_swap(uint64_t bytes, struct client_space *space, const struct caller *caller)
{
	const struct case_wire_swap_more frame = {link_header(CASE_WIRE_SWAP_MORE, sizeof frame), bytes};
	struct swap self = {.space = space};

	if (bytes == 0 || bytes > CASE_WIRE_MAX_BYTES) {
		link_say("%" PRIu64 " bytes is not an amount of swap space", bytes);
		return false;
	}
	const uint64_t over = process.connection;
	await_swap(NULL, over, caller); /* another thread's comes first */
	if (!process.evicts || !current(over) || !link_intact(&process.link) || !transmit(&frame, sizeof frame))
		return false;
	process.swap = &self;
	await_swap(&self, over, caller);
	if (process.swap == &self)
		process.swap = NULL;
	return self.answered;
}

bool client_await_swap(uint64_t bytes, struct client_space *space)
{
	struct caller caller = enter();
	return leave(caller, more_swap(bytes, space, &caller));
}

/* await_room waits until the question `own` is answered; NULL: until no other is open. It ends with the connection. */
static void await_room(const struct room *own, const struct caller *caller)
{
	const uint64_t over = process.connection;

	while (process.room != NULL && (own == NULL || process.room == own) && current(over) && link_intact(&process.link)) {
		if (process.evicts) {
			read_or_wait(caller);
		} else if (process.reading) {
			sleep_until_changed(caller);
		} else {
			process.reading = true;
			receive(caller);
			process.reading = false;
		}
	}
	read_on();
}

/* A handler's question that interrupts another of the same thread has no answer. */
static bool ask_room(const void *frame, size_t size, uint64_t *bytes, const struct caller *caller)
{
	struct room self = {.asks = pthread_self()};

	if (process.phase != CONNECTED || (process.room != NULL && pthread_equal(process.room->asks, self.asks)))
		return false;
	await_room(NULL, caller); /* another thread's comes first */
	if (process.room != NULL || !transmit(frame, size))
		return false;
	process.room = &self;
	await_room(&self, caller);
	if (process.room == &self)
		process.room = NULL;
	*bytes = self.bytes;
	return self.answered;
}

bool client_await_room(int device, uint64_t *bytes)
{
	const struct case_wire_room frame = {link_header(CASE_WIRE_ROOM, sizeof frame), device, 0};
	struct caller caller = enter();
	return leave(caller, process.arbiter == &server && ask_room(&frame, sizeof frame, bytes, &caller));
}

bool client_await_managed(const struct client_managed *memory, uint64_t *bytes)
{
	const struct case_wire_managed frame = {link_header(CASE_WIRE_MANAGED, sizeof frame), memory->bytes, memory->beside,
	                                        memory->free, memory->device, 0};
	struct caller caller = enter();
	return leave(caller, ready() == CONNECTED && process.arbiter == &server && ask_room(&frame, sizeof frame, bytes, &caller));
}

/* report tells the run, where there is one, what this process decides. */
static bool report(const void *frame, size_t size)
{
	return process.path[0] == '\0' ? process.phase == CONNECTED : transmit(frame, size);
}

/* answer_with makes the frame that a server would have sent for this decision. */
static void answer_with(struct entry *e, const struct shared_answer *answer)
{
	struct case_wire_grant *grant = &e->reply.grant;
	struct case_wire_refuse *refuse = &e->reply.refuse;

	memset(&e->reply, 0, sizeof e->reply);
	if (answer->cause == 0) {
		grant->header = link_header(CASE_WIRE_GRANT, sizeof *grant);
		grant->task = e->id;
		grant->ordinal = answer->ordinal;
		memcpy(grant->uuid, answer->uuid, sizeof grant->uuid);
		return;
	}
	refuse->header = link_header(CASE_WIRE_REFUSE, sizeof *refuse);
	refuse->task = e->id;
	refuse->cause = answer->cause;
	refuse->need = answer->need;
	refuse->capacity = answer->capacity;
	link_text(refuse->text, sizeof refuse->text, answer->text);
}

/* report_decided tells the run how the request of e ended. */
static bool report_decided(const struct entry *e, const struct shared_answer *answer)
{
	const bool granted = answer->cause == 0;
	const struct case_wire_task_decided frame = {
		.header = link_header(CASE_WIRE_TASK_DECIDED, sizeof frame),
		.task = e->id,
		.need = granted ? 0 : answer->need,
		.capacity = granted ? 0 : answer->capacity,
		.cause = answer->cause,
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
	if (answer.cause == 0) {
		e->holds = true;
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
		return disconnected();
	if (e->reply.header.type == CASE_WIRE_GRANT)
		return CASE_OK;
	const struct case_wire_refuse *r = &e->reply.refuse;
	link_say("task %" PRIu64 " refused: %s (needs %" PRIu64 " bytes, %.2f GiB; capacity %" PRIu64
	         " bytes, %.2f GiB)",
	         r->task, r->text, r->need, (double)r->need / (1 << 30), r->capacity,
	         (double)r->capacity / (1 << 30));
	if (r->cause == CASE_CAUSE_TIMED_OUT)
		return CASE_TIMED_OUT;
	/* What would fit is too large only where it may not go. */
	return r->cause == CASE_CAUSE_TOO_LARGE && r->need <= r->capacity ? CASE_NO_DEVICE : CASE_REFUSED;
}

static bool possible(const struct case_need *need)
{
	bool pinned = (need->flags & CASE_FLAG_DEVICE) != 0;

	return need->bytes <= CASE_WIRE_MAX_BYTES &&
	       need->heap_bytes <= CASE_WIRE_MAX_BYTES - need->bytes && need->blocks <= INT64_MAX &&
	       (need->flags & ~(CASE_FLAG_MANAGED | CASE_FLAG_DEVICE | CASE_FLAG_EARLY)) == 0 && !(pinned && need->device < 0);
}

/* advises: kernels of this process can use memory on the host. */
static bool advises(void) { return process.evicts && (process.hooks->can & CASE_CAN_ADVISE) != 0; }

static int ask_for(const struct case_need *need, uint64_t host_bytes, uint64_t stay_bytes, struct case_task *task, const struct caller *caller)
{
	if (ready() == LOST)
		return disconnected();
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
	sem_init(&e->wake, 0, 0);
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
		.host_bytes = process.evicts ? least(host_bytes, need->bytes) : 0,
		.stay_bytes = advises() ? least(stay_bytes, need->bytes - least(host_bytes, need->bytes)) : 0,
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

int client_await_part(const struct case_need *need, uint64_t host_bytes, uint64_t stay_bytes, struct case_task *task)
{
	*task = (struct case_task){.device = -1};
	struct caller caller = enter();
	return leave(caller, ask_for(need, host_bytes, stay_bytes, task, &caller));
}

int client_await_grant(const struct case_need *need, struct case_task *task) { return client_await_part(need, 0, 0, task); }

/* held finds the task on which a call may act. A call that asks may not while another thread waits for the task.
 * NULL: it says why the call may not. */
static struct entry *held(const struct case_task *task, const char *call, bool asks)
{
	struct entry *e = find(task->id);

	if (e != NULL && e->holds && !(asks && e->standing != HELD))
		return e;
	if (process.phase == UNOPENED || process.phase == CONNECTED)
		link_say("%s of task %" PRIu64 ": %s", call, task->id,
		         e != NULL ? "another thread waits for it" : "this process does not hold it");
	return NULL;
}

/* give_back gives bytes back, of a task that has no request outstanding. */
static bool give_back(struct entry *e, uint64_t bytes)
{
	const struct case_wire_task_shrink frame = {
		.header = link_header(CASE_WIRE_TASK_SHRINK, sizeof frame),
		.task = e->id,
		.bytes = bytes,
	};

	return process.arbiter->give(e, bytes, false, &frame, sizeof frame);
}

static int release(const struct case_task *task)
{
	struct entry *e = held(task, "free", false);

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (e->standing != HELD) {
		e->later.freed = true;
		return CASE_OK;
	}
	const struct case_wire_task_free frame = {
		.header = link_header(CASE_WIRE_TASK_FREE, sizeof frame),
		.task = task->id,
	};
	const bool told = process.arbiter->give(e, 0, true, &frame, sizeof frame);
	discard(e);
	return told ? CASE_OK : CASE_DISCONNECTED;
}

/* tell_moved tells the server what has moved since it was told, if the task has no request outstanding. */
static void tell_moved(struct entry *e)
{
	for (int way = CASE_MOVED_IN; way <= CASE_MOVED_OUT && e->standing == HELD; way++) {
		struct client_move *const m = &e->moved[way - 1];
		const struct case_wire_task_moved frame = {
			.header = link_header(CASE_WIRE_TASK_MOVED, sizeof frame),
			.task = e->id,
			.bytes = m->bytes,
			.copy_ns = m->copy_ns,
			.bookkeeping_ns = m->bookkeeping_ns,
			.direction = (uint32_t)way,
		};
		if (m->bytes + m->copy_ns + m->bookkeeping_ns == 0)
			continue;
		*m = (struct client_move){0};
		report(&frame, sizeof frame);
	}
}

/* tell_later tells the server what other threads have asked during a request. */
static void tell_later(struct entry *e)
{
	const struct later later = e->later;

	e->later = (struct later){0};
	tell_moved(e);
	if (later.shrunk > 0)
		give_back(e, later.shrunk);
	if (later.shaped)
		report(&later.shape, sizeof later.shape);
}

/* ask_again is ask for a task that is held. Another thread may free the task meanwhile. */
static int ask_again(struct entry *e, union request *request, const struct caller *caller)
{
	const int result = ask(e, request, caller);
	const struct case_task gone = {.id = e->id};
	const bool freed = e->later.freed;

	tell_later(e);
	if (!freed)
		return result;
	release(&gone);
	return CASE_REFUSED;
}

static int grow(struct case_task *task, uint64_t bytes, uint32_t wait_ms, const struct caller *caller)
{
	struct entry *e = held(task, "grow", true);

	if (process.phase == LOST)
		return disconnected();
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
	return ask_again(e, &request, caller);
}

int client_await_growth(struct case_task *task, uint64_t bytes, uint32_t wait_ms)
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, grow(task, bytes, wait_ms, &caller));
}

bool client_permitted(const struct case_task *task)
{
	if (task->device < 0)
		return true;
	struct caller caller = enter();
	const struct entry *e = find(task->id);
	return leave(caller, e != NULL && permitted(e));
}

enum client_advice client_advice(const struct case_task *task)
{
	struct caller caller = enter();
	const struct entry *e = find(task->id);
	const enum client_advice advice = e == NULL ? CLIENT_FREE : e->advice;

	leave(caller, CASE_OK);
	return advice;
}

struct client_count client_counted(const struct case_task *task)
{
	struct caller caller = enter();
	const struct entry *e = find(task->id);
	const struct client_count count = {e == NULL ? 0 : e->charged, e == NULL ? 0 : e->resident};

	leave(caller, 0);
	return count;
}

/* await_settled waits until task `id` waits for nothing, and no revocation of it is under way. NULL: there is
 * no such task, or a hook asks, which may not wait for its own end. */
static struct entry *await_settled(uint64_t id, const struct caller *caller)
{
	struct entry *e;

	while ((e = find(id)) != NULL && process.phase == CONNECTED && (e->standing != HELD || e->asked || e->serving != 0)) {
		if (process.serving && pthread_equal(process.server, pthread_self())) {
			link_say("resume of task %" PRIu64 ": a hook may not wait for its own end", id);
			return NULL;
		}
		sleep_until_changed(caller);
	}
	return e;
}

static int resume(struct case_task *task, struct client_need (*need)(void), const struct caller *caller)
{
	struct client_need now;
	struct entry *e;
	uint64_t before; /* revocations, when `now` was said */

	do {
		e = await_settled(task->id, caller);
		if (process.phase == LOST)
			return disconnected();
		if (e == NULL)
			return CASE_REFUSED;
		if (permitted(e)) /* the revocation has changed nothing, or another thread has resumed the task */
			return CASE_OK;
		before = e->revocations;
		begin_wait((void *)caller);
		now = need();
		end_wait((void *)caller);
		e = find(task->id);
	} while (e == NULL || e->standing != HELD || e->revocations != before);
	if (now.bytes > CASE_WIRE_MAX_BYTES || now.referenced > CASE_WIRE_MAX_BYTES) {
		link_say("resume of task %" PRIu64 ": %" PRIu64 " bytes, %" PRIu64 " referenced, are more than any task holds", task->id,
		         now.bytes, now.referenced);
		return CASE_REFUSED;
	}
	union request request = {.resume = {
		.header = link_header(CASE_WIRE_TASK_RESUME, sizeof request.resume),
		.task = task->id,
		.bytes = now.bytes,
		.referenced_bytes = now.referenced,
		.stay_bytes = advises() ? least(now.stay, now.bytes) : 0,
	}};
	const int result = ask_again(e, &request, caller);
	if (result == CASE_OK) {
		task->device = e->reply.grant.ordinal;
		memcpy(task->uuid, e->reply.grant.uuid, sizeof task->uuid);
	}
	return result;
}

int client_await_resume(struct case_task *task, struct client_need (*need)(void))
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, resume(task, need, &caller));
}

void client_yield(const struct case_task *task)
{
	struct caller caller = enter();
	struct entry *const e = find(task->id);

	if (e != NULL && process.evicts)
		e->revoked = true;
	show_permit();
	leave(caller, 0);
}

bool client_end_burst(const struct case_task *task)
{
	const struct case_wire_task_yielded frame = {link_header(CASE_WIRE_TASK_YIELDED, sizeof frame), task->id};
	struct caller caller = enter();
	struct entry *const e = find(task->id);
	const bool welcomed = process.evicts && process.welcome == WELCOMED;
	const bool ends = e != NULL && welcomed && process.welcome_frame.bursts != 0 && e->holds && e->standing == HELD && permitted(e);

	if (ends) {
		e->revoked = true;
		show_permit();
		report(&frame, sizeof frame);
	}
	return leave(caller, ends);
}

int client_moved(const struct case_task *task, enum case_wire_direction way, const struct client_move *move)
{
	struct caller caller = enter();
	struct entry *const e = find(task->id);
	int result = CASE_REFUSED;

	if (e != NULL && process.evicts) {
		struct client_move *const m = &e->moved[way - 1];
		m->bytes += move->bytes;
		m->copy_ns += move->copy_ns;
		m->bookkeeping_ns += move->bookkeeping_ns;
		tell_moved(e);
		result = process.phase == LOST ? CASE_DISCONNECTED : CASE_OK;
	}
	return leave(caller, result);
}

static int shrink(struct case_task *task, uint64_t bytes)
{
	struct entry *e = held(task, "shrink", false);

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (bytes > CASE_WIRE_MAX_BYTES) {
		link_say("shrink of task %" PRIu64 ": %" PRIu64 " bytes are more than any task holds", task->id, bytes);
		return CASE_REFUSED;
	}
	if (e->standing != HELD) {
		e->later.shrunk += bytes;
		return CASE_OK;
	}
	return give_back(e, bytes) ? CASE_OK : CASE_DISCONNECTED;
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
	struct entry *e = held(task, "shape", false);

	if (process.phase == LOST)
		return CASE_DISCONNECTED;
	if (e == NULL)
		return CASE_REFUSED;
	if (blocks > INT64_MAX) {
		link_say("shape of task %" PRIu64 ": %" PRIu64 " blocks are more than any kernel has",
		         task->id, blocks);
		return CASE_REFUSED;
	}
	const struct case_wire_task_shape frame = {
		.header = link_header(CASE_WIRE_TASK_SHAPE, sizeof frame),
		.task = task->id,
		.blocks = blocks,
		.threads_per_block = threads_per_block,
		.blocks_per_sm = blocks_per_sm,
	};
	if (e->standing != HELD) {
		e->later.shaped = true;
		e->later.shape = frame;
		return CASE_OK;
	}
	return report(&frame, sizeof frame) ? CASE_OK : CASE_DISCONNECTED;
}

int client_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block, uint32_t blocks_per_sm)
{
	if (task->device < 0)
		return CASE_OK;
	struct caller caller = enter();
	return leave(caller, shape(task, blocks, threads_per_block, blocks_per_sm));
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
	unheard("an allocation failed");
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
	char what[160];

	CLIENT_FORWARD(case_report_fault_since, code, where, monotonic_ns);
	link_text(frame.where, sizeof frame.where, where);
	struct caller caller = enter();
	if (!process.fault_sent && ready() == CONNECTED) {
		process.fault_sent = true;
		report(&frame, sizeof frame);
	}
	snprintf(what, sizeof what, "CUDA error %d in %s", code, frame.where);
	unheard(what);
	leave(caller, 0);
}
