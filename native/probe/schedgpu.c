/* schedgpu.c: see schedgpu.h. Each pre-allocation is a separate task, so that it has its place in the
 * queue. What is given back is taken from the latest pre-allocations. */
#define _GNU_SOURCE
#pragma GCC visibility push(default)
#include "schedgpu.h"
#pragma GCC visibility pop

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "case.h"
#include "client.h"

struct reservation {
	struct case_task task;
	int device; /* the program's */
	uint64_t bytes;
	struct reservation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t forks = PTHREAD_ONCE_INIT;
static struct reservation *reserved;

/* A child made by fork holds none of its parent's tasks. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }
static void after_fork_in_child(void)
{
	reserved = NULL;
	pthread_mutex_init(&lock, NULL);
}

/* Called after case.c has registered its fork handlers, so that a fork takes the locks in the same
 * order as a call. */
static void handle_forks(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int schedGPUInit(void)
{
	char file[64];

	CLIENT_FORWARD(schedGPUInit);
	snprintf(file, sizeof file, "/dev/shm/schedgpu-%u", (unsigned)geteuid());
	return case_client(file) ? SCHEDGPU_SUCCESS : SCHEDGPU_NOT_INITIALIZED;
}

static int result_of(int answer)
{
	switch (answer) {
	case CASE_OK: return SCHEDGPU_SUCCESS;
	case CASE_TIMED_OUT: return SCHEDGPU_NOT_READY;
	case CASE_NO_DEVICE: return SCHEDGPU_INVALID_DEVICE;
	case CASE_DISCONNECTED: return SCHEDGPU_NOT_INITIALIZED;
	}
	return SCHEDGPU_OUT_OF_MEMORY;
}

int preCudaMalloc(size_t bytes, int device, unsigned wait_ms)
{
	const struct case_need need = {.bytes = bytes, .flags = CASE_FLAG_DEVICE, .device = device, .wait_ms = wait_ms};

	CLIENT_FORWARD(preCudaMalloc, bytes, device, wait_ms);
	if (device < 0)
		return SCHEDGPU_INVALID_DEVICE;
	if (schedGPUInit() != SCHEDGPU_SUCCESS)
		return SCHEDGPU_NOT_INITIALIZED;
	if (lazy_accounts && lazy_accounts())
		return lazy_await_pre_allocate(bytes, device, wait_ms);
	struct reservation *r = calloc(1, sizeof *r);
	if (r == NULL)
		return SCHEDGPU_OUT_OF_MEMORY;
	const int answer = client_await_grant(&need, &r->task);
	if (answer != CASE_OK) {
		free(r);
		return result_of(answer);
	}
	r->device = device;
	r->bytes = bytes;
	pthread_once(&forks, handle_forks);
	pthread_mutex_lock(&lock);
	r->next = reserved;
	reserved = r;
	pthread_mutex_unlock(&lock);
	return SCHEDGPU_SUCCESS;
}

static uint64_t reserved_on(int device)
{
	uint64_t bytes = 0;

	for (const struct reservation *r = reserved; r != NULL; r = r->next)
		bytes += r->device == device ? r->bytes : 0;
	return bytes;
}

/* give_back takes the bytes from the reservations on the device, which have as many. */
static int give_back(uint64_t bytes, int device)
{
	int answer = CASE_OK;

	for (struct reservation **at = &reserved; *at != NULL && answer == CASE_OK;) {
		struct reservation *r = *at;
		if (r->device != device || r->bytes > bytes) {
			if (r->device == device && bytes > 0) {
				r->bytes -= bytes;
				return result_of(client_shrink(&r->task, bytes));
			}
			at = &r->next;
			continue;
		}
		*at = r->next;
		bytes -= r->bytes;
		answer = client_free(&r->task);
		free(r);
	}
	return result_of(answer);
}

int postCudaFree(size_t bytes, int device)
{
	int result = SCHEDGPU_INVALID_VALUE;

	CLIENT_FORWARD(postCudaFree, bytes, device);
	if (device < 0)
		return SCHEDGPU_INVALID_DEVICE;
	if (lazy_accounts && lazy_accounts())
		return lazy_await_post_free(bytes, device);
	pthread_mutex_lock(&lock);
	if (bytes <= reserved_on(device))
		result = give_back(bytes, device);
	pthread_mutex_unlock(&lock);
	return result;
}
