// schedgpu.cc: the client API of schedGPU (../schedgpu.h) in a program whose allocations are
// accounted here. What the program pre-allocates is its task. Its allocations draw from the task,
// so nothing is charged twice.
#include "device/device.h"
#include "launch/work.h"
#include "probe/client.h"
#include "probe/schedgpu.h"
#include "program/mode.h"
#include "task/task.h"

extern "C" cudaError_t cudaDeviceSynchronize(void);

using namespace lazy;

bool lazy_accounts() { return mode() != Mode::passive; }

int lazy_await_pre_allocate(uint64_t bytes, int device, uint32_t wait_ms)
{
	Task *const task = Task::on(device);

	if (task == nullptr)
		return SCHEDGPU_INVALID_DEVICE;
	const cudaError_t error = task->await_reserve(bytes, wait_ms);
	return error == cudaSuccess || error == cudaErrorNotReady ? error : SCHEDGPU_OUT_OF_MEMORY;
}

int lazy_await_post_free(uint64_t bytes, int device)
{
	Task *const task = Task::on(device);

	if (task == nullptr)
		return SCHEDGPU_INVALID_DEVICE;
	if (has_context() && at_work()) // kernels may run yet, and the task may end
		cudaDeviceSynchronize();
	return task->unreserve(bytes) ? SCHEDGPU_SUCCESS : SCHEDGPU_INVALID_VALUE;
}
