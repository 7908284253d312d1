// calls_launch.cc: kernel launches, where the process binds.
#include "api.h"
#include "runtime.h"

namespace lazy {
namespace {

uint64_t product(dim3 d) { return static_cast<uint64_t>(d.x) * d.y * d.z; }

template <typename Run>
cudaError_t launch(const char *call, const void *kernel, dim3 grid, dim3 block, size_t shared, Run run)
{
	const uint64_t blocks = product(grid);
	const uint32_t threads = static_cast<uint32_t>(product(block));

	if (deferring()) {
		Locked locked;
		cudaError_t error = bind({blocks, threads, blocks_per_sm(kernel, threads, shared)});
		if (error != cudaSuccess)
			return error;
	}
	use_device();
	if (mode() == Mode::pinned)
		if (cudaError_t error = open_for_launch(); error != cudaSuccess)
			return fail(error);
	cudaError_t error = launch_result(run(), call);
	if (error == cudaSuccess)
		launched(kernel, blocks, threads, shared);
	return error;
}

} // namespace
} // namespace lazy

using namespace lazy;

#define LAUNCH(name, Kernel)                                                                                           \
	cudaError_t name(Kernel kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)   \
	{                                                                                                              \
		return launch(#name, kernel, grid, block, shared, [=] {                                                \
			return REAL(name)(kernel, grid, block, arguments, shared, real(stream));                       \
		});                                                                                                    \
	}
LAUNCH(cudaLaunchKernel, const void *)
LAUNCH(cudaLaunchKernel_ptsz, const void *)
LAUNCH(__cudaLaunchKernel, cudaKernel_t) // what programs built by nvcc 13 call
LAUNCH(__cudaLaunchKernel_ptsz, cudaKernel_t)
LAUNCH(cudaLaunchCooperativeKernel, const void *)
LAUNCH(cudaLaunchCooperativeKernel_ptsz, const void *)

#define LAUNCH_EX(name)                                                                                                \
	cudaError_t name(const cudaLaunchConfig_t *config, const void *kernel, void **arguments)                       \
	{                                                                                                              \
		if (config == nullptr)                                                                                 \
			return fail(cudaErrorInvalidValue);                                                            \
		cudaLaunchConfig_t c = *config;                                                                        \
		return launch(#name, kernel, c.gridDim, c.blockDim, c.dynamicSmemBytes, [&] {                          \
			c.stream = real(c.stream);                                                                     \
			return REAL(name)(&c, kernel, arguments);                                                      \
		});                                                                                                    \
	}
LAUNCH_EX(cudaLaunchKernelExC)
LAUNCH_EX(cudaLaunchKernelExC_ptsz)

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *params)
{
	cudaError_t error = enter();
	if (error == cudaSuccess)
		error = seen(REAL(cudaGraphAddKernelNode)(node, graph, after, count, params), "cudaGraphAddKernelNode");
	if (error == cudaSuccess)
		launched(params->func, product(params->gridDim), static_cast<uint32_t>(product(params->blockDim)),
		         params->sharedMemBytes);
	return error;
}
