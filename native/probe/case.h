/* case.h: the task API a CUDA program uses to ask for a device.
 *
 * A task is a group of allocations, copies and kernels that must share one
 * device (CASE, PPoPP'22, section 3.1). The program says what the task needs
 * before its first allocation, waits for a device, selects it, and gives it
 * back after its last free:
 *
 *     struct case_task task;
 *     if (case_task_begin(bytes, blocks, threads_per_block, 0, 0, &task))
 *         exit(1);                      // refused; the reason is on stderr
 *     if (task.device >= 0)
 *         cudaSetDevice(task.device);
 *     ... cudaMalloc, cudaMemcpy, kernel<<<>>>, cudaFree ...
 *     case_task_free(&task);
 *
 * A process may have several tasks at once, in several threads, on one device or on
 * several. Its devices are the run's, in the run's order, so task.device is the ordinal
 * that cudaSetDevice, cudaGetDevice and the driver use. If some are instances of MIG, the process has one
 * device, that of its first task, and the ordinal is 0.
 *
 * Under a run libcase.so is preloaded, and makes tasks of programs that use the shared
 * CUDA runtime (docs/design/lazy-runtime.md). In a program that uses this API it makes tasks
 * only of what no task here covers:
 *
 *   - An open task covers the calls of all threads on its device, and its bytes, those
 *     of case_task_grow included, cover what the process allocates there. The bytes of
 *     several open tasks of a device add up.
 *   - Memory beyond these bytes, by more than rounding (16 MiB), is a task of the lazy
 *     runtime's on that device. An allocation may wait for that task, or fail.
 *   - case_task_free ends the cover at once. What the program still has allocated there
 *     is charged to a task of the lazy runtime's at its next allocation or launch on the
 *     device.
 *   - Without an open task on the thread's device, allocations and launches are a task of
 *     the lazy runtime's on that device. It ends when the last object there is freed.
 *
 * The library depends on nothing but libc and is safe to call from several
 * threads. A program with a copy of its own (libcase.a) uses the preloaded one where
 * there is one. It talks to the scheduler over the socket named by CASE_SOCKET
 * (wire.h), or decides with other clients over the state file named by CASE_SHARED
 * (shared/state.h). The process's end releases every task. A program that closes the
 * socket keeps its tasks, and the library connects again when it next needs to. Without
 * either it says so once on stderr and every call succeeds with device = -1, except
 * when CASE_REQUIRED is set (to neither nothing nor 0): then begin fails, because a run
 * that believes it schedules must schedule.
 */
#ifndef CASE_H
#define CASE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct case_task {
	uint64_t id;            /* unique within the process, never 0 once begun */
	int device;             /* ordinal for cudaSetDevice; -1: unscheduled */
	unsigned char uuid[16]; /* the device's UUID, zero when unscheduled */
};

/* Results of the calls below. */
enum case_result {
	CASE_OK = 0,
	CASE_REFUSED = 1,     /* the scheduler said no; the reason is on stderr */
	CASE_DISCONNECTED = 2, /* no scheduler, or it went away */
	CASE_TIMED_OUT = 3,    /* refused because the wait ended: the program may ask again */
	CASE_NO_DEVICE = 4     /* refused because the scheduler does not use the device that was named */
};

/* What a task asks for. Zero is "none" or "unknown" everywhere. */
struct case_need {
	uint64_t bytes;             /* device memory of all its objects */
	uint64_t blocks;            /* thread blocks of its largest kernel; 0: unknown
	                             * until case_task_shape tells it */
	uint64_t heap_bytes;        /* device heap, cudaLimitMallocHeapSize */
	uint32_t threads_per_block; /* of that kernel */
	uint32_t blocks_per_sm;     /* blocks of that kernel that one SM holds at once; its
	                             * registers and shared memory limit the number */
	uint32_t flags;             /* CASE_FLAG_* */
	int32_t device;             /* ordinal, read with CASE_FLAG_DEVICE */
	uint32_t wait_ms;           /* longest wait in milliseconds, or CASE_WAIT_* */
};

#define CASE_FLAG_MANAGED 1u /* some of the bytes are unified memory */
#define CASE_FLAG_DEVICE 2u  /* only `device` will do */
#define CASE_FLAG_EARLY 8u   /* before the first launch, because the process must know its device */

#define CASE_WAIT_DEFAULT 0u        /* what CASE_WAIT says: milliseconds, or `none` for
                                     * CASE_WAIT_NONE; without it the scheduler's limit */
#define CASE_WAIT_NONE UINT32_MAX   /* refused at once if it cannot be granted now */

/* A task's calls are made one at a time; different tasks may be in different
 * threads. A child made by fork holds none of its parent's tasks: it makes a
 * connection of its own when it first needs one. None of the calls is
 * async-signal-safe, a cancellation point, or a source of SIGPIPE.
 *
 * case_task_ask asks for a device with room for `need` and blocks until the
 * task is granted or refused. */
int case_task_ask(const struct case_need *need, struct case_task *task);

/* case_task_begin is case_task_ask without its rarer fields. */
int case_task_begin(uint64_t bytes, uint64_t blocks, uint32_t threads_per_block,
                    uint64_t heap_bytes, uint32_t flags, struct case_task *task);

/* case_task_shape tells the scheduler of a kernel larger than the kernel in the request, or of the
 * first kernel if the request had none. The task keeps its device. The call waits for nobody. */
int case_task_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block,
                    uint32_t blocks_per_sm);

/* case_task_grow asks for `bytes` more on the task's device and blocks until
 * they are granted or refused, at most for `wait_ms` as in case_need. A refusal leaves the
 * task as it was. */
int case_task_grow(struct case_task *task, uint64_t bytes, uint32_t wait_ms);

/* case_task_shrink gives back `bytes` of what the task holds and waits for nobody. A task that gives
 * back more than it holds breaks the protocol, and the process loses its scheduler.
 *
 * While another thread waits in case_task_grow for the task, case_task_shape, case_task_shrink and case_task_free
 * return CASE_OK at once, and take effect when that thread is answered. If the task was freed, its call is refused. */
int case_task_shrink(struct case_task *task, uint64_t bytes);

/* case_task_free gives everything that the task holds back, and waits for nobody. Whatever it returns,
 * *task holds nothing afterwards. Freeing such a task does nothing. */
int case_task_free(struct case_task *task);

/* case_report_oom tells the scheduler that an allocation of `bytes` failed in
 * the call or phase `where` (its first 119 bytes are kept); the job's outcome
 * becomes `oom` whatever its exit status. After the first few of a process it only
 * counts them, and says how many at exit. */
void case_report_oom(uint64_t bytes, const char *where);

/* case_report_fault tells the scheduler of a CUDA error that stays: `code` as in cudaError_t, `where`
 * the call that returned the error. Only the first fault of a process counts. */
void case_report_fault(int code, const char *where);

/* case_report_fault_since is the same for an error that the process has had for some time: since
 * CLOCK_MONOTONIC read `monotonic_ns`. */
void case_report_fault_since(int code, const char *where, uint64_t monotonic_ns);

#ifdef __cplusplus
}
#endif
#endif
