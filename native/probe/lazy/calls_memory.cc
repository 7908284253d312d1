// calls_memory.cc: allocations.
#include <string.h>
#include <sys/mman.h>

#include "api.h"
#include "runtime.h"

extern "C" cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *capturing);

namespace lazy {
namespace {

const size_t pitch_alignment = 512; // bytes: what cudaMallocPitch rounds rows to on every device since 2010

// allocate is cudaMalloc and its like. real makes the allocation on the bound
// device and returns its address in *memory.
template <typename Real> cudaError_t allocate(const char *call, void **memory, size_t bytes, Real real)
{
	if (memory == nullptr)
		return fail(cudaErrorInvalidValue);
	if (deferring()) {
		Locked locked;
		if (bytes == 0) {
			*memory = nullptr;
			return cudaSuccess;
		}
		if (!bound && reserve(bytes, memory))
			return cudaSuccess;
	}
	cudaError_t error = enter();
	if (error != cudaSuccess)
		return error;
	const int slot = account_device();
	if (bytes > 0 && (error = charge(call, bytes)) != cudaSuccess)
		return error;
	use_device(); // until it was charged, the task could end and another begin elsewhere
	error = real();
	if (error == cudaSuccess) {
		if (bytes > 0)
			adopt(*memory, bytes, slot);
		return error;
	}
	if (bytes > 0)
		uncharge(slot, bytes);
	return error == cudaErrorMemoryAllocation ? failed_allocation(call, bytes) : seen(error, call);
}

// An object of the CUDA runtime that only its handle names, such as an array.
// It is made once the process is bound, and keeps it on its device.
template <typename Real>
cudaError_t allocate_object(const char *call, void **handle, uint64_t bytes, bool managed, Real real)
{
	if (handle == nullptr)
		return fail(cudaErrorInvalidValue);
	if (deferring()) {
		Locked locked;
		cudaError_t error = bind({}, bytes, managed);
		if (error != cudaSuccess)
			return error;
	}
	return allocate(call, handle, bytes, real);
}

uint64_t array_bytes(const cudaChannelFormatDesc *format, cudaExtent extent)
{
	if (format == nullptr)
		return 0;
	const uint64_t element = static_cast<uint64_t>(format->x + format->y + format->z + format->w) / 8;
	const uint64_t height = extent.height > 0 ? extent.height : 1, depth = extent.depth > 0 ? extent.depth : 1;
	return element * extent.width * height * depth;
}

// deallocate frees device memory; real frees what the CUDA runtime allocated.
template <typename Real> cudaError_t deallocate(const char *call, void *memory, Real real)
{
	if (memory == nullptr && deferring())
		return cudaSuccess; // cudaFree(0), the idiom that makes a context
	if (deferring()) {
		Locked locked;
		if (promised()) // it waits for the device, as a synchronization does
			if (cudaError_t error = enter(); error != cudaSuccess)
				return error;
	}
	Holder holder = mode() == Mode::passive ? Holder::unknown : holder_of(memory);
	cudaError_t error = cudaSuccess;
	if (holder == Holder::unknown)
		error = enter();
	else if (mode() == Mode::task)
		use_device();
	if (error != cudaSuccess)
		return error;
	// Once CUDA has it back, another thread may be given the same address.
	Allocation was = {};
	const bool withdrawn = holder == Holder::runtime && withdraw(memory, &was);
	if (holder == Holder::mapped) // kernels may still use it, and cudaFree waits for them
		error = seen(REAL(cudaDeviceSynchronize)(), call);
	else if (holder != Holder::reserved)
		error = seen(real(), call);
	if (holder == Holder::mapped || holder == Holder::reserved)
		drop(memory);
	else if (withdrawn && error == cudaSuccess)
		uncharge(was.slot, was.bytes);
	else if (withdrawn)
		adopt(memory, was.bytes, was.slot);
	return error;
}

// Host memory that the program asked to be page-locked before there was a
// context: ordinary memory until the process binds.
struct Pinned {
	size_t bytes;
	unsigned flags;
	bool ours, registered, gone;
};

std::map<uintptr_t, std::shared_ptr<Pinned>> &pinned()
{
	static auto *const all = new std::map<uintptr_t, std::shared_ptr<Pinned>>;
	return *all;
}

void pin(void *memory, size_t bytes, unsigned flags, bool ours)
{
	auto block = std::make_shared<Pinned>(Pinned{bytes, flags, ours, false, false});

	pinned()[reinterpret_cast<uintptr_t>(memory)] = block;
	record_kept("cudaHostRegister", [memory, block] {
		if (block->gone)
			return cudaSuccess;
		unsigned flags = block->flags | (block->ours ? cudaHostRegisterPortable | cudaHostRegisterMapped : 0u);
		cudaError_t error = REAL(cudaHostRegister)(memory, block->bytes, flags);
		block->registered = error == cudaSuccess;
		if (error != cudaSuccess)
			REAL(cudaGetLastError)(); // it stays ordinary memory, which only costs speed
		return cudaSuccess;
	});
}

// before_context: nothing in this process has a context yet.
bool before_context() { return deferring() && home() < 0; }

cudaError_t allocate_host(void **memory, size_t bytes, unsigned flags)
{
	Locked locked;
	void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		return fail(cudaErrorMemoryAllocation);
	pin(made, bytes, flags, true);
	*memory = made;
	return cudaSuccess;
}

} // namespace

bool page_locked(const void *memory, size_t bytes)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(memory);
	auto after = pinned().upper_bound(at);

	if (after == pinned().begin())
		return false;
	auto &block = *std::prev(after);
	return at - block.first < block.second->bytes && bytes <= block.second->bytes - (at - block.first);
}

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
	const size_t row = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
	if (deferring())
		*pitch = row;
	return allocate("cudaMallocPitch", memory, row * height,
	                [&] { return REAL(cudaMallocPitch)(memory, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr *memory, cudaExtent extent)
{
	if (memory == nullptr)
		return fail(cudaErrorInvalidValue);
	const size_t row = (extent.width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
	void *made = nullptr;
	cudaError_t error = allocate("cudaMalloc3D", &made, row * extent.height * extent.depth, [&] {
		cudaError_t result = REAL(cudaMalloc3D)(memory, extent);
		made = memory->ptr;
		return result;
	});
	if (error == cudaSuccess && memory->ptr != made)
		*memory = {made, row, extent.width, extent.height};
	return error;
}

cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags)
{
	return allocate_object("cudaMallocManaged", memory, bytes, true,
	                       [&] { return REAL(cudaMallocManaged)(memory, bytes, flags); });
}

cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *format, size_t width, size_t height,
                            unsigned flags)
{
	return allocate_object("cudaMallocArray", reinterpret_cast<void **>(array),
	                       array_bytes(format, {width, height, 0}), false,
	                       [&] { return REAL(cudaMallocArray)(array, format, width, height, flags); });
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *format, cudaExtent extent,
                              unsigned flags)
{
	return allocate_object("cudaMalloc3DArray", reinterpret_cast<void **>(array), array_bytes(format, extent), false,
	                       [&] { return REAL(cudaMalloc3DArray)(array, format, extent, flags); });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *format,
                                     cudaExtent extent, unsigned levels, unsigned flags)
{
	// Each level has at most half the elements of the one before.
	return allocate_object("cudaMallocMipmappedArray", reinterpret_cast<void **>(array),
	                       2 * array_bytes(format, extent), false,
	                       [&] { return REAL(cudaMallocMipmappedArray)(array, format, extent, levels, flags); });
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
	return allocate("cudaMallocAsync", memory, bytes,
	                [&] { return REAL(cudaMallocAsync)(memory, bytes, real(stream)); });
}

cudaError_t cudaMallocAsync_ptsz(void **memory, size_t bytes, cudaStream_t stream)
{
	return allocate("cudaMallocAsync", memory, bytes,
	                [&] { return REAL(cudaMallocAsync_ptsz)(memory, bytes, real(stream)); });
}

cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
	return allocate_object("cudaMallocFromPoolAsync", memory, bytes, false,
	                       [&] { return REAL(cudaMallocFromPoolAsync)(memory, bytes, pool, real(stream)); });
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
	return allocate_object("cudaMallocFromPoolAsync", memory, bytes, false,
	                       [&] { return REAL(cudaMallocFromPoolAsync_ptsz)(memory, bytes, pool, real(stream)); });
}

cudaError_t cudaFree(void *memory)
{
	return deallocate("cudaFree", memory, [&] { return REAL(cudaFree)(memory); });
}

namespace {

// The task ends with its last object, so that one is freed before it ends.
cudaError_t finish_last(cudaError_t result, cudaStream_t stream)
{
	int capturing = 0;

	if (result == cudaSuccess && mode() != Mode::passive && last_object() &&
	    REAL(cudaStreamIsCapturing)(stream, &capturing) == cudaSuccess && capturing == 0)
		return REAL(cudaStreamSynchronize)(stream);
	return result;
}

} // namespace

// Memory of ours is freed at once, when the device is idle; the stream's order
// is kept by waiting for all of it.
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	return deallocate("cudaFreeAsync", memory, [&] {
		return finish_last(REAL(cudaFreeAsync)(memory, real(stream)), real(stream));
	});
}

cudaError_t cudaFreeAsync_ptsz(void *memory, cudaStream_t stream)
{
	return deallocate("cudaFreeAsync", memory,
	                  [&] { return finish_last(REAL(cudaFreeAsync_ptsz)(memory, real(stream)), real(stream)); });
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
	return deallocate("cudaFreeArray", array, [&] { return REAL(cudaFreeArray)(array); });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	return deallocate("cudaFreeMipmappedArray", array, [&] { return REAL(cudaFreeMipmappedArray)(array); });
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
	if (memory != nullptr && bytes > 0 && before_context())
		return allocate_host(memory, bytes, 0);
	use_device();
	return seen(REAL(cudaMallocHost)(memory, bytes), "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	if (memory != nullptr && bytes > 0 && before_context())
		return allocate_host(memory, bytes, 0);
	use_device();
	return seen(REAL(cudaHostAlloc)(memory, bytes, flags), "cudaHostAlloc");
}

cudaError_t cudaFreeHost(void *memory)
{
	{
		Locked locked;
		auto at = pinned().find(reinterpret_cast<uintptr_t>(memory));
		if (at != pinned().end() && at->second->ours) {
			if (promised()) // a recorded copy still reads it
				if (cudaError_t error = enter(); error != cudaSuccess)
					return error;
			cudaError_t error = cudaSuccess;
			if (at->second->registered) {
				use_device();
				error = REAL(cudaDeviceSynchronize)(); // cudaFreeHost waits for copies under way
				if (error == cudaSuccess)
					error = REAL(cudaHostUnregister)(memory);
			}
			at->second->gone = true;
			munmap(memory, at->second->bytes);
			pinned().erase(at);
			return seen(error, "cudaFreeHost");
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaFreeHost)(memory), "cudaFreeHost") : error;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	{
		Locked locked;
		if (before_context() && memory != nullptr && bytes > 0 && !page_locked(memory, bytes)) {
			pin(memory, bytes, flags, false);
			return cudaSuccess;
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaHostRegister)(memory, bytes, flags), "cudaHostRegister") : error;
}

cudaError_t cudaHostUnregister(void *memory)
{
	{
		Locked locked;
		auto at = pinned().find(reinterpret_cast<uintptr_t>(memory));
		if (at != pinned().end() && !at->second->ours) {
			if (promised())
				if (cudaError_t error = enter(); error != cudaSuccess)
					return error;
			use_device();
			cudaError_t error = at->second->registered ? REAL(cudaHostUnregister)(memory) : cudaSuccess;
			at->second->gone = true;
			pinned().erase(at);
			return seen(error, "cudaHostUnregister");
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaHostUnregister)(memory), "cudaHostUnregister") : error;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaMemGetInfo)(free, total), "cudaMemGetInfo") : error;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
	if (deferring() && attributes != nullptr) {
		Locked locked;
		if (pending(memory, 1) != nullptr) {
			*attributes = {cudaMemoryTypeDevice, 0, const_cast<void *>(memory), nullptr};
			return cudaSuccess;
		}
	}
	cudaError_t error = enter();
	if (error == cudaSuccess)
		error = seen(REAL(cudaPointerGetAttributes)(attributes, memory), "cudaPointerGetAttributes");
	if (error == cudaSuccess)
		attributes->device = real_to_visible(attributes->device);
	return error;
}
