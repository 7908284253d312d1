/* client.h: the library's parts to each other. case.c has one client of the scheduler for
 * the process; explicit.c, schedgpu.c and the lazy runtime ask through it. */
#ifndef CASE_CLIENT_H
#define CASE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "case.h"

#ifdef __cplusplus
extern "C" {
#endif

/* case_client makes this process a client of whoever decides which task has which device. The
 * environment says who decides. If it does not, the clients of the state file `file` decide; the
 * file is made if it does not exist. false: nobody decides; the reason is on stderr. */
bool case_client(const char *file);

/* The calls of case.h about tasks, for tasks of the program and of the lazy runtime alike. */
int client_await_grant(const struct case_need *need, struct case_task *task);
int client_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block, uint32_t blocks_per_sm);
int client_await_growth(struct case_task *task, uint64_t bytes, uint32_t wait_ms);
int client_shrink(struct case_task *task, uint64_t bytes);
int client_free(struct case_task *task);

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

/* What the lazy runtime must know of explicit tasks (lazy/explicit.cc). lazy_await_before_ask comes
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
