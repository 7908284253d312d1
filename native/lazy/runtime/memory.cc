// memory.cc: device memory.
#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/graph_memory.h"
#include "task/managed.h"
#include "task/pools.h"
#include "task/report.h"
#include "task/seems.h"
#include "task/shortage.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/task.h"
#include "pool.h"

namespace lazy {
namespace {

// What an allocation is: linear memory, which only its address names, or an object of the CUDA
// runtime, which is made once the process is bound, and keeps it on its device.
enum class Kind { linear, unified, object };

// allocate is cudaMalloc and its like. real makes the allocation on the bound
// device and returns its address in *memory. It is not called for memory that is ours: what is
// recorded, and all linear memory where it can move, but for what a capture allocates. Memory with an order that is
// not ours is of `pool`, or else of the device's pool.
template <typename Real>
cudaError_t allocate(const char *call, void **memory, size_t bytes, Real real, Kind kind = Kind::linear,
                     const Order *order = nullptr, cudaMemPool_t pool = nullptr)
{
	if (memory == nullptr)
		return fail(cudaErrorInvalidValue);
	drop_reached();
	if (await_or_defer()) {
		Locked locked;
		if (kind != Kind::linear) {
			cudaError_t error = Task::process().await_bound({}, bytes, kind == Kind::unified);
			if (error != cudaSuccess)
				return error;
		} else if (bytes == 0) {
			*memory = nullptr;
			return cudaSuccess;
		} else if (deferring() && reserve(bytes, memory)) {
			return cudaSuccess;
		}
	}
	cudaError_t error = await_device();
	if (error != cudaSuccess)
		return error;
	Task &task = Task::here();
	if (bytes > 0 && kind == Kind::linear && movable() && !being_captured()) {
		void *const again = order != nullptr ? reuse_freed(bytes, *order) : nullptr;
		if (again != nullptr)
			*memory = again;
		if (again != nullptr || allocate_beside(bytes, memory))
			return cudaSuccess;
		if ((error = task.await_range(call, backing_of(bytes))) != cudaSuccess)
			return error;
		Shortage shortage(&task, call, backing_of(bytes));
		CUresult made;
		do {
			const Submitting submitting; // it brings memory to the device, and no longer waits for the scheduler
			if ((error = await_device()) != cudaSuccess) { // until it was charged, the task could end
				task.made(backing_of(bytes)); // and never will be
				task.take_back(backing_of(bytes));
				return error;
			}
			made = allocate_backed(bytes, home(), memory);
			if (made == CUDA_SUCCESS)
				return cudaSuccess;
		} while (shortage.await_again(made));
		if (shortage.refused() != cudaSuccess)
			return shortage.refused();
		task.take_back(backing_of(bytes));
		return made == CUDA_ERROR_OUT_OF_MEMORY ? failed_allocation(call, bytes) : fail(seen(made, "cuMemMap"));
	}
	if (order != nullptr && pool == nullptr && mode() != Mode::passive)
		pool = pool_of(one_device() ? home() : task.device());
	if (bytes > 0 && pool != nullptr)
		error = await_pool_charge(call, task, pool, bytes);
	else if (bytes > 0)
		error = task.await_charge(call, bytes, kind == Kind::unified);
	if (error != cudaSuccess)
		return error;
	GuardedAllocation guarded(call, bytes, kind == Kind::unified);
	if (guarded.refused() != cudaSuccess) {
		task.take_back(bytes);
		return guarded.refused();
	}
	Shortage shortage(&task, call, bytes, pool);
	do {
		const Submitting submitting; // as above
		use_device();             // until it was charged, the task could end and another begin elsewhere
		error = real();
		if (error == cudaSuccess) {
			if (bytes > 0 && pool != nullptr)
				pool_was_asked(pool, bytes, error);
			if (bytes > 0)
				adopt(*memory, bytes, task.device(), pool);
			guarded.made(*memory);
			return error;
		}
		if (error == cudaErrorMemoryAllocation)
			REAL(cudaGetLastError)(); // the program is not to find it after the next try
	} while (shortage.await_again(error));
	if (bytes > 0 && pool != nullptr)
		pool_was_asked(pool, bytes, error);
	if (shortage.refused() != cudaSuccess)
		return shortage.refused();
	if (bytes > 0 && pool == nullptr)
		task.take_back(bytes);
	return error == cudaErrorMemoryAllocation ? failed_allocation(call, bytes) : seen(error, call);
}

uint64_t array_bytes(const cudaChannelFormatDesc *format, cudaExtent extent)
{
	if (format == nullptr)
		return 0;
	const uint64_t element = static_cast<uint64_t>(format->x + format->y + format->z + format->w) / 8;
	const uint64_t height = extent.height > 0 ? extent.height : 1, depth = extent.depth > 0 ? extent.depth : 1;
	return element * extent.width * height * depth;
}

// allocate_in_graph makes an allocation node.
template <typename Real> cudaError_t allocate_in_graph(const char *call, void **memory, size_t bytes, Real make)
{
	cudaError_t error = await_graph_charge(call, bytes, Task::here());
	if (error != cudaSuccess)
		return error;
	error = seen(make(), call);
	if (error == cudaSuccess)
		graph_has(*memory, bytes);
	else
		graph_lacks(bytes);
	return error;
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	return allocate("cudaMalloc", memory, bytes, [&] { return REAL(cudaMalloc)(memory, bytes); });
}

cudaError_t cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height)
{
	if (pitch == nullptr)
		return fail(cudaErrorInvalidValue);
	const size_t row = row_of(width);
	bool reserved = true;
	cudaError_t error = allocate("cudaMallocPitch", memory, product(row, height), [&] {
		reserved = false;
		return REAL(cudaMallocPitch)(memory, pitch, width, height);
	});
	if (error == cudaSuccess && reserved)
		*pitch = row;
	return error;
}

cudaError_t cudaMalloc3D(cudaPitchedPtr *memory, cudaExtent extent)
{
	if (memory == nullptr)
		return fail(cudaErrorInvalidValue);
	const size_t row = row_of(extent.width);
	void *made = nullptr;
	bool reserved = true;
	cudaError_t error = allocate("cudaMalloc3D", &made, product(product(row, extent.height), extent.depth), [&] {
		reserved = false;
		cudaError_t result = REAL(cudaMalloc3D)(memory, extent);
		if (result == cudaSuccess)
			made = memory->ptr;
		return result;
	});
	if (error == cudaSuccess && reserved)
		*memory = {made, row, extent.width, extent.height};
	return error;
}

cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags)
{
	return allocate("cudaMallocManaged", memory, bytes,
	                [&] { return REAL(cudaMallocManaged)(memory, bytes, flags); }, Kind::unified);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *format, size_t width, size_t height,
                            unsigned flags)
{
	return allocate("cudaMallocArray", reinterpret_cast<void **>(array), array_bytes(format, {width, height, 0}),
	                [&] { return REAL(cudaMallocArray)(array, format, width, height, flags); }, Kind::object);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *format, cudaExtent extent,
                              unsigned flags)
{
	return allocate("cudaMalloc3DArray", reinterpret_cast<void **>(array), array_bytes(format, extent),
	                [&] { return REAL(cudaMalloc3DArray)(array, format, extent, flags); }, Kind::object);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *format,
                                     cudaExtent extent, unsigned levels, unsigned flags)
{
	// Each level has at most half the elements of the level before.
	return allocate("cudaMallocMipmappedArray", reinterpret_cast<void **>(array), 2 * array_bytes(format, extent),
	                [&] { return REAL(cudaMallocMipmappedArray)(array, format, extent, levels, flags); },
	                Kind::object);
}

#define MALLOC_ASYNC(name, IsCapturing, own)                                                                           \
	cudaError_t name(void **memory, size_t bytes, cudaStream_t stream)                                             \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		auto make = [&] { return REAL(name)(memory, bytes, real(stream)); };                                   \
		if (memory != nullptr && bytes > 0 && capturing(stream, REAL(IsCapturing)))                            \
			return allocate_in_graph("cudaMallocAsync", memory, bytes, make);                              \
		const Order order = {stream, own};                                                                     \
		const Kind kind = has_own_pool() ? Kind::object : Kind::linear;                                        \
		return allocate("cudaMallocAsync", memory, bytes, make, kind, &order);                                 \
	}
MALLOC_ASYNC(cudaMallocAsync, cudaStreamIsCapturing, false)
MALLOC_ASYNC(cudaMallocAsync_ptsz, cudaStreamIsCapturing_ptsz, true)

#define MALLOC_FROM_POOL(name, IsCapturing)                                                                            \
	cudaError_t name(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)                         \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		auto make = [&] { return REAL(name)(memory, bytes, pool, real(stream)); };                             \
		if (memory != nullptr && bytes > 0 && capturing(stream, REAL(IsCapturing)))                            \
			return allocate_in_graph("cudaMallocFromPoolAsync", memory, bytes, make);                      \
		const Order order = {stream, false};                                                                   \
		return allocate("cudaMallocFromPoolAsync", memory, bytes, make, Kind::object, &order,                  \
		                mode() == Mode::passive ? nullptr : pool);                                             \
	}
MALLOC_FROM_POOL(cudaMallocFromPoolAsync, cudaStreamIsCapturing)
MALLOC_FROM_POOL(cudaMallocFromPoolAsync_ptsz, cudaStreamIsCapturing_ptsz)

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	cudaError_t error = await_device();
	if (error == cudaSuccess)
		error = seen(REAL(cudaMemGetInfo)(free, total), "cudaMemGetInfo");
	if (error == cudaSuccess && free != nullptr && total != nullptr)
		await_seems(Task::here(), free, total);
	return error;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
	if (await_or_defer() && attributes != nullptr) {
		Locked locked;
		if (pending(memory, 1) != nullptr) {
			*attributes = {cudaMemoryTypeDevice, 0, const_cast<void *>(memory), nullptr};
			return cudaSuccess;
		}
	}
	uintptr_t base = 0;
	size_t bytes = 0;
	if (movable() && attributes != nullptr && allocation_at(memory, &base, &bytes)) { // where its chunk is does not count
		*attributes = {cudaMemoryTypeDevice, 0, const_cast<void *>(memory), nullptr};
		return cudaSuccess;
	}
	cudaError_t error = await_context();
	if (error == cudaSuccess)
		error = seen(REAL(cudaPointerGetAttributes)(attributes, memory), "cudaPointerGetAttributes");
	if (error == cudaSuccess)
		attributes->device = real_to_visible(attributes->device);
	return error;
}
