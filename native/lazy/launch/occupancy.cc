// occupancy.cc: how many blocks of a kernel one SM holds at once.
//
// Before there is a context the CUDA runtime cannot be asked. So the kernel's registers and shared
// memory are read from the program's own machine code (program/cubin.h). A kernel that is compressed, or
// compiled when it is loaded, stays unknown until it has been launched.
#pragma GCC visibility push(default)
#include "probe/static.h"
#pragma GCC visibility pop
#include "abi/api.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "program/cubin.h"
#include "program/kernels.h"
#include "program/mode.h"
#include "task/task.h"
#include "occupancy.h"
#include "work.h"

extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                                     size_t shared);

namespace lazy {
namespace {

int attribute(int which)
{
	int value = 0;
	return REAL(cudaDeviceGetAttribute)(&value, which, home() < 0 ? 0 : home()) == cudaSuccess ? value : 0;
}

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The rules of NVIDIA's occupancy calculator (cuda_occupancy.h), which hold
// since compute capability 3.0: registers go to a warp in units of 256, to warps
// in fours; shared memory in units of 128 bytes.
uint32_t fitting_blocks(const Resources &r, uint32_t threads, size_t dynamic_shared)
{
	const uint64_t warp = 32, warps = (threads + warp - 1) / warp;
	const int most_blocks = attribute(cudaDevAttrMaxBlocksPerMultiprocessor),
	          most_threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
	          registers = attribute(cudaDevAttrMaxRegistersPerMultiprocessor),
	          shared = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);

	if (warps == 0 || most_blocks <= 0 || most_threads <= 0 || registers <= 0 || shared <= 0)
		return 0;
	const int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
	const uint64_t per_warp = round_up(uint64_t{r.registers} * warp, 256),
	               per_block = round_up(r.shared + dynamic_shared + static_cast<uint64_t>(reserved), 128);
	uint64_t blocks = static_cast<uint64_t>(most_blocks);
	auto limit = [&](uint64_t other) { blocks = other < blocks ? other : blocks; };
	limit(static_cast<uint64_t>(most_threads) / warp / warps);
	limit(static_cast<uint64_t>(registers) / 4 / per_warp * 4 / warps);
	if (per_block > 0)
		limit(static_cast<uint64_t>(shared) / per_block);
	return static_cast<uint32_t>(blocks);
}

// from_code is the occupancy as the program's machine code gives it; 0: unknown.
uint32_t from_code(const void *kernel, uint32_t threads, size_t shared)
{
	Kernel named;
	if (awaits_device() || !kernel_at(kernel, &named)) // the occupancy depends on the device
		return 0;
	const int major = attribute(cudaDevAttrComputeCapabilityMajor);
	const int capability = major * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
	const Resources r = resources_in(named.fat, named.name, static_cast<uint32_t>(capability));
	return r.registers == 0 ? 0 : fitting_blocks(r, threads, shared);
}

// from_cuda is the same as CUDA gives it.
uint32_t from_cuda(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	int blocks = 0;

	if (REAL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, kernel, static_cast<int>(threads_per_block),
	                                                        shared_bytes) != cudaSuccess)
		return 0;
	return blocks > 0 ? static_cast<uint32_t>(blocks) : 0;
}

} // namespace

uint32_t blocks_per_sm(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	if (home() < 0)
		return from_code(kernel, threads_per_block, shared_bytes);
	use_device(); // or the CUDA runtime would make a context for this thread's device
	return from_cuda(kernel, threads_per_block, shared_bytes);
}

void launched(const void *kernel, uint64_t blocks, uint32_t threads_per_block, size_t shared_bytes)
{
	working_in_order();
	if (mode() == Mode::passive)
		return;
	if (Task &task = Task::here(); task.shape_is_new(blocks, threads_per_block))
		task.reshape({blocks, threads_per_block, from_cuda(kernel, threads_per_block, shared_bytes)});
}

} // namespace lazy

using namespace lazy;

uint32_t case_blocks_per_sm(const void *kernel, uint32_t threads_per_block, uint64_t shared_bytes)
{
	return has_runtime() ? from_code(kernel, threads_per_block, shared_bytes) : 0;
}
