/* static.h: the calls that CASE's compiler pass (native/pass) inserts around a task that it has
 * found when the program was compiled. Programs do not call them.
 *
 * The calls need no CUDA: the functions of the CUDA runtime that they use are passed to them. So
 * they serve programs with a static runtime too. A task is of one thread, from its beginning to
 * its end.
 */
#ifndef CASE_STATIC_H
#define CASE_STATIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case.h"

#ifdef __cplusplus
extern "C" {
#endif

enum case_static_phase {
	CASE_STATIC_CLOSED = 0, /* what a zeroed variable is */
	CASE_STATIC_OPEN,
	CASE_STATIC_REFUSED
};

/* case_static is a task's variable on the stack of its function. The pass makes it 64 bytes, all
 * zero when the function begins. */
struct case_static {
	struct case_task task;
	uint64_t warps;  /* of the largest kernel that the scheduler was told of */
	uint32_t phase;  /* enum case_static_phase */
	int32_t former;  /* the thread's device before; -1: the thread does not get it back */
};

enum case_static_flag {
	CASE_STATIC_MANAGED = 1, /* CASE_FLAG_MANAGED */
	/* The pass does not see all that the task may touch. The task stays on the thread's device
	 * where the program uses devices outside of such tasks. */
	CASE_STATIC_TRUSTING = 2
};

typedef int case_get_device(int *device); /* cudaGetDevice */
typedef int case_set_device(int device);  /* cudaSetDevice */
typedef int case_malloc(void **pointer, size_t bytes);                   /* cudaMalloc */
typedef int case_malloc_managed(void **pointer, size_t bytes, unsigned); /* cudaMallocManaged */

/* case_static_begin asks for the task and waits until it is granted or refused. It selects the
 * granted device. Outside of a run nothing changes. A task that is open keeps what it holds
 * until the process ends: its memory is still allocated.
 *
 * `kernel` is the largest kernel, as cudaLaunchKernel is given it, and shared_bytes its dynamic
 * shared memory; NULL: its occupancy is not known. */
void case_static_begin(struct case_static *task, uint64_t bytes, uint64_t blocks, uint64_t heap_bytes,
                       uint32_t threads_per_block, uint32_t flags, case_get_device *get, case_set_device *set,
                       const void *kernel, uint64_t shared_bytes);

/* The task's allocations. Those of a task that was refused fail with
 * cudaErrorMemoryAllocation. */
int case_static_malloc(struct case_static *task, case_malloc *allocate, void **pointer, size_t bytes);
int case_static_managed(struct case_static *task, case_malloc_managed *allocate, void **pointer, size_t bytes, unsigned flags);

/* case_static_shape tells the scheduler of a kernel whose dimensions were not known when the
 * task began, if it is the largest so far. */
void case_static_shape(struct case_static *task, uint64_t blocks, uint32_t threads_per_block, const void *kernel,
                       uint64_t shared_bytes);

/* case_blocks_per_sm is how many blocks of a kernel one SM holds at once, from the registers and the
 * shared memory in the program's machine code. It makes no context. 0: unknown. It is a function
 * of the lazy runtime, which the program's kernels are registered with. */
uint32_t case_blocks_per_sm(const void *kernel, uint32_t threads_per_block, uint64_t shared_bytes);

/* case_device_is_used: something in the process has made a context on the device. It is a function of
 * the lazy runtime too. */
bool case_device_is_used(int device);

/* case_static_end gives back all that the task holds, and the thread its former device if something
 * may be there. A task that is not open stays as it is. */
void case_static_end(struct case_static *task, case_set_device *set);

/* case_static_leave gives the thread its former device, as case_static_end does. The task keeps what it holds until the
 * process ends: its function is left, and some of its memory may still be allocated. */
void case_static_leave(struct case_static *task, case_set_device *set);

/* case_static_elsewhere says that the program uses devices outside of such tasks. Modules say it
 * at their start. */
enum case_static_use {
	CASE_STATIC_CONFIGURES = 1, /* it also chooses a device, or configures one for later launches */
	CASE_STATIC_ASKS = 2,       /* it asks for tasks itself (case.h) */
	/* It only makes a context, by cudaMallocHost for example. With the lazy runtime there is none
	 * before the first task, which chooses its device. */
	CASE_STATIC_CONTEXT = 4
};
void case_static_elsewhere(uint32_t uses);

#ifdef __cplusplus
}
#endif
#endif
