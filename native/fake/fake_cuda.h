/* fake_cuda.h: what a test may ask of the fake CUDA driver (libcuda.so.1 of this
 * directory), and how a program's "kernels" reach it.
 *
 * The environment describes the node:
 *   FAKE_CUDA_DEVICES   number of devices (2)
 *   FAKE_MIG            how many of the first devices are instances of MIG (0). A process sees one of them
 *   FAKE_CUDA_MEMORY    bytes of each (1 GiB)
 *   FAKE_CUDA_CONTEXT   bytes that a context costs (8 MiB)
 *   FAKE_CUDA_FAIL      CALL:N=ERROR,...  the N-th call of that name returns ERROR; N+: so does each later one
 *   FAKE_CUDA_KILL      CALL:N,...        the process is killed in that call
 *   FAKE_CUDA_KERNEL_US T,NAME=T,...      streams execute by themselves, and a kernel takes T
 *                       microseconds (stream.cc)
 *   FAKE_CUDA_DELAY_US  CALL=T,...        a call of that name takes T microseconds longer
 *   FAKE_CUDA_PEERS     0: no device reaches memory of another (yes)
 *   FAKE_CUDA_INIT_MS   how long the first cuInit takes before it reads
 *                       CUDA_VISIBLE_DEVICES
 *   FAKE_CUDA_TRACE     file to append each call to, in order
 *   FAKE_NVML_PROCESSES if it is a directory, each process keeps a file there, named by its PID, of what it has on
 *                       each device, for the fake NVML
 *   FAKE_CUDA_CHECKPOINT if it is set, cuCheckpointProcess* can be called on the process (checkpoint.cc)
 *   FAKE_CUDA_MPS       if it is set, they answer as they do to a client of MPS
 * and CUDA_VISIBLE_DEVICES, by index or UUID, as the driver reads it in cuInit.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "../lazy/abi/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_CUDA_MAX_DEVICES 16

/* Devices are by their numbers on the node, whatever the process sees. */
struct fake_cuda_state {
	int contexts;                         /* made so far */
	int order[FAKE_CUDA_MAX_DEVICES];     /* devices, in the order of their first contexts */
	int live[FAKE_CUDA_MAX_DEVICES];      /* whether the device has a context now */
	uint64_t used[FAKE_CUDA_MAX_DEVICES]; /* bytes, contexts included */
	unsigned allocations, handles, mappings, reservations, pinned, managed, streams, events;
	unsigned submitted; /* kernels in streams that are not done; only those that take time */
	unsigned host_touches; /* kernels that touched host memory mapped by cuMemMap, once for each mapping */
	unsigned violations; /* uses of a wrong or dead handle, and the like; said on stderr */
};

/* fake_cuda_read fills *state. Exported by the driver: find it with dlsym. */
void fake_cuda_read(struct fake_cuda_state *state);

/* fake_cuda_mapped says what cuMemMap has mapped at the address: 'd' memory of a device, 'h' memory of the host,
 * '-' nothing. Exported by the driver. */
char fake_cuda_mapped(const void *address);

/* fake_cuda_meanwhile has `what` done in the next call of that name, by the calling thread: before the
 * call does anything, or after it has done all. Exported by the driver, as fake_cuda_read is. */
enum fake_cuda_moment { FAKE_CUDA_BEFORE, FAKE_CUDA_AFTER };
void fake_cuda_meanwhile(const char *call, enum fake_cuda_moment moment, void (*what)(void));

/* fake_cuda_skip_launches has launches succeed from now on without anything being done, so that what is measured
 * of them is what comes before. Exported by the driver. */
void fake_cuda_skip_launches(void);

/* fake_cuda_take has the driver take bytes of the device of the calling thread's context for itself, which no call shows.
 * It returns a CUresult. Exported by the driver. */
int fake_cuda_take(size_t bytes);

/* What a kernel knows of its launch. */
struct fake_launch {
	dim3 grid, block;
	size_t shared_bytes;
	int device;
	void *(*symbol)(const void *host_variable); /* this device's instance */
	void (*fail)(int error);                    /* ends the kernel with a lasting error; does not return */
	unsigned round; /* calls of this launch before this one, which have asked for another: */
	void (*again)(void); /* the kernel goes on, and its function is called once more, after as long as a kernel takes */
};

/* A kernel in a fake fat binary: a function of the host. */
struct fake_kernel {
	const char *name;
	void (*run)(const struct fake_launch *launch, void **arguments);
	const size_t *sizes, *offsets; /* bytes of each argument, and where it is among them */
	unsigned count;
	int registers, max_threads;
	size_t shared_bytes;
	int silent; /* its machine code tells neither its parameters nor its local memory: the driver does */
	size_t local_bytes; /* of a thread */
	const unsigned *stop_words; /* of its module, if it has any: the host's variable (native/stop/case_stop.h) */
	int restartable;            /* its module says so */
};

/* What __cudaRegisterFatBinary is given: nvcc's __fatBinC_Wrapper_t. Its last
 * field, which is empty for code that was not linked separately, is the host's
 * code here. */
struct fake_fat_binary {
	int magic, version;
	const void *data; /* fake_cubin.h */
	const struct fake_kernel *kernel;
};
#define FAKE_FAT_BINARY_MAGIC 0x466243b1

#ifdef __cplusplus
}
#endif
#endif
