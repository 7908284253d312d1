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
#define __launch_bounds__(threads)
#define __shared__ static thread_local

inline const char *cudaGetErrorString(cudaError_t) { return "of the fake runtime"; }

/* What a kernel knows of the thread that it is executed for. */
inline thread_local dim3 blockIdx, threadIdx, gridDim, blockDim;

/* __syncthreads lets the block's other threads come as far. */
void __syncthreads();

/* execute runs `thread` for each thread of a grid, block by block. */
void execute(dim3 grid, dim3 block, void (*thread)(void *), void *arguments);

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
	static void run(A... a)
	{
		struct bound {
			std::tuple<A...> all;
			static void thread(void *b) { std::apply(kernel, static_cast<bound *>(b)->all); }
		} b{{a...}};
		execute(kernels::launch().grid, kernels::launch().block, bound::thread, &b);
	}
};

#define KERNEL(kernel) \
	static const kernels::Module module_of_##kernel(kernels::Kernel<on_host<kernel>::run>::stub(), \
	                                                kernels::Kernel<on_host<kernel>::run>::describe(#kernel))
#define LAUNCH_ON(kernel, grid, threads, ...) \
	gpu_check(kernels::Kernel<on_host<kernel>::run>::launch(dim3{grid, 1, 1}, dim3{threads, 1, 1}, 0, nullptr, __VA_ARGS__), #kernel, __FILE__, __LINE__)

#endif
