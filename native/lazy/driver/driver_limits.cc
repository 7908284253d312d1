// driver_limits.cc: the driver's limits, which make the context keep memory, and modules whose functions go.
#include "abi/symbols.h"
#include "launch/local_memory.h"
#include "program/kernels.h"
#include "task/report.h"
#include "task/task.h"
#include "driver_api.h"

using namespace lazy;

// The driver's numbers of limits are those of the CUDA runtime.
CUresult cuCtxSetLimit(int limit, size_t value)
{
	const char *const call = "cuCtxSetLimit";
	const auto real = REAL_DRIVER(cuCtxSetLimit);
	Task *const task = Task::of_context();
	const bool heap = limit == cudaLimitMallocHeapSize;
	ContextMemory was;

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	if (task == nullptr || (!heap && limit != cudaLimitStackSize))
		return lasting(real(limit, value), call);
	const OwnErrors of_the_driver;
	const auto part = heap ? &ContextMemory::heap : &ContextMemory::local;
	tie(Tie::call, call);
	if (cudaError_t error = task->await_context_memory(call, part, heap ? value : local_pool(value), &was); error != cudaSuccess)
		return result_of(error);
	const CUresult result = seen(real(limit, value), call);
	if (result != CUDA_SUCCESS)
		task->restore_context_memory(part, was);
	return result;
}

// Another function may get the handle of a function that is gone.
CUresult cuModuleUnload(void *module)
{
	const auto real = REAL_DRIVER(cuModuleUnload);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	forget_functions();
	return lasting(real(module), "cuModuleUnload");
}

CUresult cuLibraryUnload(void *library)
{
	const auto real = REAL_DRIVER(cuLibraryUnload);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	forget_functions();
	return lasting(real(library), "cuLibraryUnload");
}
