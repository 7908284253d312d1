/* schedgpu.h: schedGPU's published client API (Reaño et al., TPDS 2018, section 4), for
 * programs that say themselves what they need.
 *
 *     if (schedGPUInit() != 0 || preCudaMalloc(bytes, device, SCHEDGPU_WAIT_DEFAULT) != 0)
 *         exit(1);                      // the reason is on stderr
 *     ... cudaMalloc, cudaMemcpy, kernel<<<>>>, cudaFree ...
 *     postCudaFree(bytes, device);
 *
 * Under a run the scheduler, or the state file, is the run's (docs/design/schedgpu.md). Elsewhere
 * the clients of a user share /dev/shm/schedgpu-UID. The first one makes it, with the
 * machine's GPUs and the policy of SCHEDGPU_QUEUE. `device` is as cudaSetDevice takes it
 * under a run, and the number in PCI bus order elsewhere.
 *
 * The paper gives the names and not the arguments. The results are of cudaError_t. Shutdown
 * is implicit: the end of the process gives everything back. The functions may be called
 * from several threads; a child made by fork has pre-allocated nothing. */
#ifndef SCHEDGPU_H
#define SCHEDGPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHEDGPU_WAIT_DEFAULT 0u /* as long as the scheduler allows, or CASE_WAIT says */
#define SCHEDGPU_NO_WAIT 0xffffffffu

enum schedgpu_result {
	SCHEDGPU_SUCCESS = 0,           /* cudaSuccess */
	SCHEDGPU_INVALID_VALUE = 1,     /* cudaErrorInvalidValue: not so much is pre-allocated there */
	SCHEDGPU_OUT_OF_MEMORY = 2,     /* cudaErrorMemoryAllocation: it can never be granted, or
	                                 * every client waits for another */
	SCHEDGPU_NOT_INITIALIZED = 3,   /* cudaErrorInitializationError: nobody schedules */
	SCHEDGPU_INVALID_DEVICE = 101,  /* cudaErrorInvalidDevice */
	SCHEDGPU_NOT_READY = 600        /* cudaErrorNotReady: the memory did not come free in time */
};

/* schedGPUInit makes this process a client. */
int schedGPUInit(void);

/* preCudaMalloc waits until the device has room for `bytes` more, at most for `wait_ms`
 * milliseconds; with SCHEDGPU_NO_WAIT it does not wait. */
int preCudaMalloc(size_t bytes, int device, unsigned wait_ms);

/* postCudaFree gives back `bytes` of what was pre-allocated on the device. Clients that wait
 * are served. */
int postCudaFree(size_t bytes, int device);

#ifdef __cplusplus
}
#endif
#endif
