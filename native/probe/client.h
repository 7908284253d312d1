/* client.h: the library's parts to each other. case.c has one client of the scheduler for
 * the process; explicit.c, schedgpu.c and the lazy runtime ask through it. */
#ifndef CASE_CLIENT_H
#define CASE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "case.h"
#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* case_client makes this process a client of whoever decides which task has which device. The
 * environment says who decides. If it does not, the clients of the state file `file` decide; the
 * file is made if it does not exist. false: nobody decides; the reason is on stderr. */
bool case_client(const char *file);

/* client_variable is a variable of the environment whose name begins with CASE_: its value now, or, in a
 * program that has removed it, the value when the library was loaded. NULL: neither. */
const char *client_variable(const char *name);

/* The calls of case.h about tasks, for tasks of the program and of the lazy runtime alike. While a thread
 * waits for more of a task, or to resume it, another may shape, shrink or free it, which takes effect when the
 * first is answered. If it was freed, the call of the first returns CASE_REFUSED. */
int client_await_grant(const struct case_need *need, struct case_task *task);
/* client_await_part is client_await_grant for a process that can evict: host_bytes of the memory are on the host
 * at first, and up to stay_bytes more may be (client_counted). */
int client_await_part(const struct case_need *need, uint64_t host_bytes, uint64_t stay_bytes, struct case_task *task);
int client_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block, uint32_t blocks_per_sm);
int client_await_growth(struct case_task *task, uint64_t bytes, uint32_t wait_ms);
int client_shrink(struct case_task *task, uint64_t bytes);
int client_free(struct case_task *task);

/* client_await_room asks how much more memory of a device this process's tasks could have now, without waiting for others.
 * false: nobody can say. */
bool client_await_room(int device, uint64_t *bytes);

/* client_await_managed tells the run how much managed memory this process is about to have on a device, or has left, and how
 * much memory beside it (wire.h, MANAGED). *bytes is how much both together may be: if it is less, nothing has changed. false:
 * no run can be asked. */
struct client_managed {
	uint64_t bytes, beside, free;
	int device;
};
bool client_await_managed(const struct client_managed *memory, uint64_t *bytes);

/* client_hint tells the run what may explain how the program ends. Only the first hint of a process counts. */
void client_hint(const char *what);

/* What follows is for a process that can give device memory back (wire.h, REVOKE).
 *
 * Such a process has a thread that reads the connection for as long as it lasts, and calls the hooks
 * below, one at a time. All signals are blocked in this thread, it is never cancelled, and it waits
 * for nobody's exit: a hook may be running when the process ends, and is not waited for. A child made
 * by fork has the hooks, and a thread and a connection of its own once it needs them. */

struct client_welcome {
	uint64_t chunk_bytes; /* unit in which memory moves; 0: this run takes nothing back */
	uint32_t window_us;   /* at most so much work is to be submitted at a time */
	bool bursts;          /* client_end_burst is wanted */
};

struct client_revocation {
	uint64_t task; /* its id */
	enum case_wire_action action; /* or another number: the answer is unable, as with flags */
	uint32_t flags;
	uint64_t bytes; /* to leave the device, at least */
	uint32_t deadline_ms; /* from now, for work that is running to end */
	const uint8_t *uuid;  /* of a move: of the device to which the task goes, 16 bytes, */
	int device;           /* and its ordinal as in GRANT */
};

/* Bytes and times are below 2^63. Every answer has an outcome. Unless it is done, nothing has changed, but kernels may have been
 * stopped. */
struct client_revoked {
	enum case_wire_outcome outcome;
	uint64_t freed_bytes;    /* of a move: that went to the other device, and are the task's there */
	uint64_t given_bytes;   /* of the task that count as on the device and were not there: it gives them back */
	uint64_t movable_bytes; /* of the task that are on the device still, and could leave it */
	uint64_t drain_ns, copy_ns, bookkeeping_ns;
	uint64_t lost_ns; /* as in case_wire_revoked */
	char why[CASE_WIRE_WHY]; /* of CASE_REVOKED_UNABLE, NUL-terminated */
};

struct client_space {
	uint64_t bytes;  /* 0: the server has no more to give */
	uint64_t offset; /* of an offer: in all that was offered */
	int file_count;  /* each has an equal part of the bytes */
	int files[CASE_WIRE_FILES]; /* close-on-exec, the caller's */
};

/* Hooks are called without any lock of the client's. They may take long, and may call any function of
 * this file but client_await_resume. What other threads wait for is not read meanwhile: a thread that
 * waits in a client_await_ function must hold no lock that a hook takes.
 *
 * welcome comes before the first grant has returned to anybody, and again after each reconnection, with
 * the same contents.
 *
 * revoke fills in *answer, which is all zero. The permission of the task is gone already
 * (activity_permitted). It comes back with the answer, but after a yield or a stop that is done with
 * client_await_resume. The task may be one whose client_await_grant has not returned yet, or one that
 * another thread is freeing. The task's client_free, or the connection's end, withdraws the
 * revocation: then nobody hears the answer.
 *
 * offer brings host memory for which nobody has asked, with files, which are the hook's to close. recall gives back what
 * was offered and is not used: it returns how much stays in use, from the beginning of all that was offered. Offers may be
 * lost on their way, so that their offsets have gaps, but they come in order. */
struct client_hooks {
	void (*welcome)(const struct client_welcome *welcome);
	void (*revoke)(const struct client_revocation *revocation, struct client_revoked *answer);
	void (*offer)(const struct client_space *space);
	uint64_t (*recall)(void);
	uint32_t can; /* CASE_CAN_* beyond CASE_CAN_EVICT and CASE_CAN_PREPARE */
};

/* client_can_evict says that this process can give memory back. It is called once, before any other
 * call of the client; false: it came too late, and nothing will be asked. If the thread cannot be
 * started, the process connects as one that cannot give memory back. *hooks stays. */
bool client_can_evict(const struct client_hooks *hooks);

/* client_counted is what the server counts for the task, its heap included: what it has granted, less what
 * the process has given back, and how much of that it believes on the device. */
struct client_count {
	uint64_t charged, resident; /* bytes */
};
struct client_count client_counted(const struct case_task *task);

/* client_need is how many bytes of a task must come onto the device, how many the work that waits is known
 * to touch, and how many of the first may stay on the host. */
struct client_need {
	uint64_t bytes, referenced, stay;
};

/* client_await_resume waits until the task may submit work again. `need` is called without any lock of the
 * client's, and called again if another revocation has come before the scheduler is asked. It returns at once if the task
 * has its permission, and first waits for a revocation or a request of the task that is under way. The
 * task may have got another device. CASE_OK does not outlast the next revocation, so the caller
 * passes its gate again. CASE_REFUSED: the task keeps what it has, and has no permission. */
int client_await_resume(struct case_task *task, struct client_need (*need)(void));

/* client_yield gives up the task's permission by itself, as a revocation takes it. client_await_resume asks for it
 * again, and for as much memory as `need` says then. */
void client_yield(const struct case_task *task);

/* client_end_burst is client_yield of which the scheduler hears at once, because the device has no work of the task and no call
 * that submits any is under way. false: the task keeps the permission that it has, because the run does not want it back, the task
 * has a request outstanding, or a revocation has come. */
bool client_end_burst(const struct case_task *task);

/* client_moved says what came back onto the device after client_await_resume, or what changed places within
 * what the task has there. While the task has a request outstanding, the server is told later. Bytes and times are
 * below 2^63. */
struct client_move {
	uint64_t bytes, copy_ns, bookkeeping_ns;
};
int client_moved(const struct case_task *task, enum case_wire_direction way, const struct client_move *move);

/* client_advice is what the scheduler wants of a task whose kernels need memory that is on the host. */
enum client_advice {
	CLIENT_FREE,    /* nothing */
	CLIENT_ADVISED, /* that they use it there */
	CLIENT_RELEASED /* that the task resumes for it, as there is room now */
};
enum client_advice client_advice(const struct case_task *task);

/* client_permitted: the task is not revoked, nor being revoked. activity_permitted is the same for all
 * tasks of the process, and takes no lock. */
bool client_permitted(const struct case_task *task);

/* client_await_swap asks for `bytes` more of host memory, which are neither 0 nor 2^63 or more. A thread other
 * than a hook's may hold a lock that a hook waits for until its deadline. false: the connection has ended, so
 * nobody hears the answer to a revocation either. */
bool client_await_swap(uint64_t bytes, struct client_space *space);

/* A process has one copy of the library that does the work: the copy that casecc has linked into
 * the program together with the lazy runtime, else the preloaded libcase.so, else its own.
 * client_working finds a function of that copy. NULL: this is the copy, or the copy lacks it. */
void *client_working(const char *function);

/* case_linked is in a program with a lazy runtime of its own, which exports it. */
#define CASE_EXPORTED __attribute__((weak, visibility("default")))
extern CASE_EXPORTED const char case_linked[];

/* CLIENT_FORWARD is what a function of the API begins with: where another copy does the work, it
 * calls the other's function of the same name, so that a process has one client. */
#define CLIENT_FORWARD(function, ...)                                                           \
	do {                                                                                    \
		const __typeof__(&function) forward_ = (__typeof__(&function))client_working(#function); \
		if (forward_ != NULL)                                                           \
			return forward_(__VA_ARGS__);                                           \
	} while (0)

/* Functions of the lazy runtime. A copy of the library without the lazy runtime lacks them. A name
 * with await_ may wait for the scheduler or for a GPU.
 *
 * lazy_is_linked: casecc has linked the lazy runtime into the program. lazy_accounts: the lazy
 * runtime accounts for what this process allocates. Allocations draw from what was
 * pre-allocated. */
#define CASE_WEAK __attribute__((weak, visibility("hidden")))
CASE_WEAK bool lazy_is_linked(void);
CASE_WEAK bool lazy_accounts(void);
CASE_WEAK int lazy_await_pre_allocate(uint64_t bytes, int device, uint32_t wait_ms);
CASE_WEAK int lazy_await_post_free(uint64_t bytes, int device);

/* What the lazy runtime must know of explicit tasks (lazy/task/explicit.cc). lazy_await_before_ask comes
 * before a request, and answers as case_task_ask does. It may change the request, or make the
 * request itself: then the task has an id. lazy_await_after_ask comes when the request is
 * answered, unless lazy_await_before_ask has failed. */
CASE_WEAK int lazy_await_before_ask(struct case_need *need, struct case_task *task);
CASE_WEAK void lazy_await_after_ask(const struct case_need *need, struct case_task *task, int answer);
CASE_WEAK void lazy_task_grew(const struct case_task *task, uint64_t bytes);
CASE_WEAK void lazy_task_shrank(const struct case_task *task, uint64_t bytes);
CASE_WEAK void lazy_task_ends(const struct case_task *task);

/* A part of the program that casecc compiled uses devices outside of static tasks (static.h). asks:
 * it asks for tasks itself. */
CASE_WEAK void lazy_static_elsewhere(bool asks);

#ifdef __cplusplus
}
#endif
#endif
