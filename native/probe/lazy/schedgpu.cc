// schedgpu.cc: the client API of schedGPU (../schedgpu.h) in a program whose allocations are
// accounted for here. What it pre-allocates is its task, and its allocations draw from it,
// so that nothing is charged twice.
#include "../client.h"
#include "../schedgpu.h"
#include "runtime.h"

extern "C" cudaError_t cudaDeviceSynchronize(void);

using namespace lazy;

bool lazy_accounts() { return mode() != Mode::passive; }

int lazy_pre_allocate(uint64_t bytes, int device, uint32_t wait_ms)
{
	if (!has_slot(device))
		return SCHEDGPU_INVALID_DEVICE;
	const cudaError_t error = reserve_ahead(device, bytes, wait_ms);
	return error == cudaSuccess || error == cudaErrorNotReady ? error : SCHEDGPU_OUT_OF_MEMORY;
}

int lazy_post_free(uint64_t bytes, int device)
{
	if (!has_slot(device))
		return SCHEDGPU_INVALID_DEVICE;
	if (has_context() && at_work()) // kernels may run yet, and the task may end
		cudaDeviceSynchronize();
	return give_ahead(device, bytes) ? SCHEDGPU_SUCCESS : SCHEDGPU_INVALID_VALUE;
}
