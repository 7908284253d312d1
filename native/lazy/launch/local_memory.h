// local_memory.h: the local memory of kernels, and the stack (local_memory.cc).
#ifndef CASE_LAZY_LOCAL_MEMORY_H
#define CASE_LAZY_LOCAL_MEMORY_H

#include <stdint.h>

#include <functional>

#include "abi/abi.h"
#include "task/task.h"

namespace lazy {

// local_pool is how many bytes of a device the context keeps, beyond CUDA's default, so that each thread may have so many bytes.
uint64_t local_pool(uint64_t bytes_of_thread);

// is_shallow: the kernel, or function of the driver, is known to need no more than CUDA's default.
bool is_shallow(const void *kernel);

// await_local_memory makes room for the local memory of a kernel that is about to be launched, or to be a graph's.
// await_task is called where the process's task is needed: the driver can be asked only with a context.
cudaError_t await_deep(const char *call, const void *kernel, const std::function<cudaError_t()> &await_task);
template <typename Bind> cudaError_t await_local_memory(const char *call, const void *kernel, Bind await_task)
{
	return is_shallow(kernel) ? cudaSuccess : await_deep(call, kernel, await_task);
}

// await_local_memory_of is the same for a function of the driver. nullptr: there is nothing to do.
CUresult await_local_memory_of(const char *call, void *function);

} // namespace lazy
#endif
