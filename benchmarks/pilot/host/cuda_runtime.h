/* cuda_runtime.h: CUDA's header for programs that g++ builds for the fake runtime (../../../native/fake). A kernel is executed
 * on the host, thread by thread. */
#ifndef PILOT_HOST_CUDA_RUNTIME_H
#define PILOT_HOST_CUDA_RUNTIME_H

#include "cuda_calls.h"

#include <tuple>

enum { cudaMemAttachGlobal = 1 };

#undef LAUNCH // of a kernel that is called once

#define __global__ static
#define __host__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static thread_local

inline const char *cudaGetErrorString(cudaError_t) { return "of the fake runtime"; }

/* What a kernel knows of the thread that it is executed for. */
inline thread_local dim3 blockIdx, threadIdx, gridDim, blockDim;

/* __syncthreads lets the block's other threads come as far. */
void __syncthreads();

/* execute runs `thread` for each thread of a grid, block by block. It says whether the kernel has no end. */
bool execute(dim3 grid, dim3 block, void (*thread)(void *), void *arguments);

/* goes_on counts how often a thread of a kernel without end asks. A thread that has asked often returns, and such a kernel begins
 * again (on_host::stoppable), so that the fake device does other work in between. */
bool goes_on();

#define CASE_STOP_POINT() ((void)0)
#define CASE_STOP_POINT_BLOCK() ((void)0)
#define ENDLESS(condition) \
	do { \
		if ((condition) && !goes_on()) \
			return; \
	} while (0)

template <class T> T atomicAdd(T *at, T by)
{
	const T before = *at;
	*at += by;
	return before;
}

template <class T> void atomicMin(T *at, T value) { *at = value < *at ? value : *at; }
template <class T> void atomicMax(T *at, T value) { *at = value > *at ? value : *at; }

template <auto kernel> struct on_host;
template <class... A, void (*kernel)(A...)> struct on_host<kernel> {
	static bool executed(A... a)
	{
		struct bound {
			std::tuple<A...> all;
			static void thread(void *b) { std::apply(kernel, static_cast<bound *>(b)->all); }
		} b{{a...}};
		return execute(kernels::launch().grid, kernels::launch().block, bound::thread, &b);
	}
	static void run(A... a) { executed(a...); }

	static void stoppable(A... a)
	{
		if (executed(a...) && !kernels::Kernel<stoppable>::stops())
			kernels::again();
	}
};

#define KERNEL(kernel) \
	static const kernels::Module module_of_##kernel(kernels::Kernel<on_host<kernel>::run>::stub(), \
	                                                kernels::Kernel<on_host<kernel>::run>::describe(#kernel))
#define RESTARTABLE(kernel) \
	static const kernels::Module module_of_##kernel(kernels::Kernel<on_host<kernel>::run>::stub(), \
	                                                kernels::Kernel<on_host<kernel>::stoppable>::stoppable(#kernel, 1))
#define LAUNCH_ON(kernel, grid, threads, ...) \
	gpu_check(kernels::Kernel<on_host<kernel>::run>::launch(dim3{grid, 1, 1}, dim3{threads, 1, 1}, 0, nullptr, __VA_ARGS__), #kernel, __FILE__, __LINE__)

#endif
