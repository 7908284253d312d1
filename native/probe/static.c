/* static.c: tasks that the compiler pass has found (static.h), as explicit tasks of case.h. */
#pragma GCC visibility push(default)
#include "static.h"
#pragma GCC visibility pop

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "client.h"

_Static_assert(sizeof(struct case_static) <= 64, "native/pass/insert.cc makes the variable 64 bytes");

enum { MEMORY_ALLOCATION = 2 }; /* cudaErrorMemoryAllocation */

static atomic_bool used, configured; /* outside of such tasks */

void case_static_elsewhere(uint32_t uses)
{
	const __typeof__(&case_static_elsewhere) working = (__typeof__(&case_static_elsewhere))client_working("case_static_elsewhere");

	if (uses != CASE_STATIC_CONTEXT)
		atomic_store(&used, true);
	if ((uses & CASE_STATIC_CONFIGURES) != 0)
		atomic_store(&configured, true);
	if (working != NULL)
		working(uses);
	else if (lazy_static_elsewhere)
		lazy_static_elsewhere((uses & CASE_STATIC_ASKS) != 0);
}

static uint64_t warps_of(uint64_t blocks, uint32_t threads_per_block)
{
	return blocks * ((threads_per_block + 31u) / 32u);
}

static __typeof__(case_blocks_per_sm) own_blocks_per_sm __attribute__((weakref("case_blocks_per_sm")));

static uint32_t occupancy(const void *kernel, uint32_t threads_per_block, uint64_t shared_bytes)
{
	__typeof__(&case_blocks_per_sm) of = own_blocks_per_sm;

	if (kernel == NULL || threads_per_block == 0)
		return 0;
	if (of == NULL)
		of = (__typeof__(&case_blocks_per_sm))client_working("case_blocks_per_sm");
	return of == NULL ? 0 : of(kernel, threads_per_block, shared_bytes);
}

static __typeof__(case_device_is_used) own_device_is_used __attribute__((weakref("case_device_is_used")));

/* must_restore: something may be on the thread's former device. Selecting a device makes its context,
 * since CUDA 12, which nobody has granted. So a device is not selected again where the program uses
 * none outside of static tasks, and nobody else has made a context there. */
static bool must_restore(int former)
{
	__typeof__(&case_device_is_used) is_used = own_device_is_used;

	if (is_used == NULL)
		is_used = (__typeof__(is_used))client_working("case_device_is_used");
	return atomic_load(&used) || atomic_load(&configured) || is_used == NULL || is_used(former);
}

static void restore(struct case_static *t, case_set_device *set)
{
	if (t->former >= 0)
		set(t->former);
	t->former = -1;
}

/* stays tells tasks that must be on the thread's device. */
static bool stays(uint32_t flags)
{
	return atomic_load(&configured) || ((flags & CASE_STATIC_TRUSTING) != 0 && atomic_load(&used));
}

/* expected: the environment names a scheduler. Outside of a run a program is silent: whoever runs it
 * need not know that it was compiled by casecc. */
static bool expected(void)
{
	return client_variable("CASE_SOCKET") != NULL || client_variable("CASE_SHARED") != NULL || client_variable("CASE_REQUIRED") != NULL;
}

void case_static_begin(struct case_static *t, uint64_t bytes, uint64_t blocks, uint64_t heap_bytes,
                       uint32_t threads_per_block, uint32_t flags, case_get_device *get, case_set_device *set,
                       const void *kernel, uint64_t shared_bytes)
{
	struct case_need need = {
		.bytes = bytes,
		.blocks = blocks,
		.heap_bytes = heap_bytes,
		.threads_per_block = threads_per_block,
		.blocks_per_sm = occupancy(kernel, threads_per_block, shared_bytes),
		.flags = (flags & CASE_STATIC_MANAGED) != 0 ? CASE_FLAG_MANAGED : 0,
	};
	int device;

	if (t->phase == CASE_STATIC_OPEN)
		restore(t, set);
	*t = (struct case_static){.warps = warps_of(blocks, threads_per_block), .phase = CASE_STATIC_REFUSED, .former = -1};
	if (!expected()) {
		t->task.device = -1;
		t->phase = CASE_STATIC_OPEN;
		return;
	}
	if (stays(flags)) {
		if (get(&need.device) != 0)
			return;
		need.flags |= CASE_FLAG_DEVICE;
	}
	if (case_task_ask(&need, &t->task) != CASE_OK)
		return;
	t->phase = CASE_STATIC_OPEN;
	if (t->task.device < 0 || (get(&device) == 0 && device == t->task.device))
		return;
	const bool back = must_restore(device);
	if (set(t->task.device) == 0) {
		t->former = back ? device : -1;
		return;
	}
	case_task_free(&t->task);
	t->phase = CASE_STATIC_REFUSED;
}

int case_static_malloc(struct case_static *t, case_malloc *allocate, void **pointer, size_t bytes)
{
	return t->phase == CASE_STATIC_REFUSED ? MEMORY_ALLOCATION : allocate(pointer, bytes);
}

int case_static_managed(struct case_static *t, case_malloc_managed *allocate, void **pointer, size_t bytes, unsigned flags)
{
	return t->phase == CASE_STATIC_REFUSED ? MEMORY_ALLOCATION : allocate(pointer, bytes, flags);
}

void case_static_shape(struct case_static *t, uint64_t blocks, uint32_t threads_per_block, const void *kernel,
                       uint64_t shared_bytes)
{
	if (t->phase != CASE_STATIC_OPEN || t->task.id == 0 || warps_of(blocks, threads_per_block) <= t->warps)
		return;
	t->warps = warps_of(blocks, threads_per_block);
	case_task_shape(&t->task, blocks, threads_per_block, occupancy(kernel, threads_per_block, shared_bytes));
}

void case_static_end(struct case_static *t, case_set_device *set)
{
	if (t->phase == CASE_STATIC_OPEN) {
		restore(t, set);
		if (t->task.id != 0)
			case_task_free(&t->task);
	}
	t->phase = CASE_STATIC_CLOSED;
}

void case_static_leave(struct case_static *t, case_set_device *set)
{
	if (t->phase == CASE_STATIC_OPEN)
		restore(t, set);
	t->phase = CASE_STATIC_CLOSED;
}
