/* case_stop.h: kernels that a run may stop before they are done, and start again from their beginning.
 *
 *	#include "case_stop.h"
 *
 *	CASE_RESTARTABLE(sweep)
 *	__global__ void sweep(const float *in, float *out, int n, int rounds)
 *	{
 *		for (int round = 0; round < rounds; round++) {
 *			for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
 *				out[i] = in[i] * round;
 *			CASE_STOP_POINT();
 *		}
 *	}
 *
 * CASE_STOP_POINT() stands at the end of the body of a kernel's outermost loop. It is a return where the kernel is asked to stop.
 * CASE_STOP_POINT_BLOCK() is for kernels with barriers (__syncthreads) or warp functions with masks (__shfl_sync): the
 * block votes, so that all of its threads return or none does. All threads of the block must reach it equally often.
 *
 * CASE_RESTARTABLE(kernel) says that the kernel, begun again after any part of it was done, gives the same result. A kernel
 * that reads and writes the same memory, or does atomic operations, mostly does not. It stands at file scope, outside
 * of namespaces, in a file that has the kernel, and means all kernels of that name in the file. A mix can say the same with
 * restart_kernels. What is neither is never stopped, whatever points it has.
 *
 * A point costs the read of a word in device memory. Outside of a run of caserun the word is always 0. The header
 * needs no library. It is for nvcc, clang and casecc; where there is no CUDA, all it defines is empty. With linked
 * device code (nvcc -rdc=true) the points are there, and nobody asks.
 * docs/design/movable-memory.md, "Kernels that stop", says how kernels are stopped.
 */
#ifndef CASE_STOP_H
#define CASE_STOP_H

#if defined(__CUDACC__) || defined(__CUDA__)

/* libcase.so knows these variables by their names. Where device code is linked they would clash, and no kernel is stopped. */
#if defined(__CUDACC_RDC__) || defined(__CLANG_RDC__)
#define CASE_STOP_VARIABLE static __device__
#define CASE_RESTARTABLE(kernel)
#else
#define CASE_STOP_VARIABLE __device__
#define CASE_RESTARTABLE(kernel) __device__ char case_restartable_##kernel;
#endif

CASE_STOP_VARIABLE volatile unsigned case_stop_words[2]; /* libcase.so asks with the first; the kernel answers with the second */

static __device__ __forceinline__ bool case_stop_now(void)
{
	if (case_stop_words[0] == 0)
		return false;
	case_stop_words[1] = 1;
	return true;
}

#define CASE_STOP_POINT()                                                                                              \
	do {                                                                                                           \
		if (case_stop_now())                                                                                   \
			return;                                                                                        \
	} while (0)
#define CASE_STOP_POINT_BLOCK()                                                                                        \
	do {                                                                                                           \
		if (__syncthreads_or(threadIdx.x + threadIdx.y + threadIdx.z == 0 && case_stop_now()))                 \
			return;                                                                                        \
	} while (0)

#else

#define CASE_STOP_POINT() ((void)0)
#define CASE_STOP_POINT_BLOCK() ((void)0)
#define CASE_RESTARTABLE(kernel)

#endif
#endif
