// calls_memory.cc: device memory.
#include "api.h"
#include "runtime.h"

extern "C" {
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, int *status);
}

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
		take_back(slot, bytes);
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

using IsCapturing = decltype(&cudaStreamIsCapturing);

// capturing: what is asked of the stream becomes a node of a graph. It is no
// stream of an unbound process: to begin a capture binds.
bool capturing(cudaStream_t stream, IsCapturing ask)
{
	int status = cudaStreamCaptureStatusNone;

	if (mode() == Mode::passive || deferring())
		return false;
	use_device(); // or this thread's first call of the runtime would be about another
	return ask(real(stream), &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

// allocate_in_graph makes an allocation node.
template <typename Real> cudaError_t allocate_in_graph(const char *call, void **memory, size_t bytes, Real make)
{
	cudaError_t error = charge_graph(call, bytes);
	if (error == cudaSuccess)
		error = seen(make(), call);
	if (error == cudaSuccess)
		graph_has(*memory, bytes);
	return error;
}

// deallocate frees device memory; real frees what the CUDA runtime allocated.
template <typename Real> cudaError_t deallocate(const char *call, void *memory, Real real)
{
	if (memory == nullptr && deferring())
		return cudaSuccess; // cudaFree(0), the idiom that makes a context
	if (deferring()) { // it waits for the device, as a synchronization does
		Locked locked;
		if (promised()) {
			if (cudaError_t error = enter(); error != cudaSuccess)
				return error;
		} else if (deferring()) {
			record_wait();
		}
	}
	Holder holder = mode() == Mode::passive ? Holder::unknown : holder_of(memory);
	cudaError_t error = cudaSuccess;
	if (holder == Holder::unknown && deferring() && home() < 0)
		return fail(cudaErrorInvalidValue); // nothing else has been allocated
	if (holder == Holder::unknown)
		error = enter_context();
	else if (mode() == Mode::task)
		use_device();
	if (error != cudaSuccess)
		return error;
	const bool later = being_captured();
	if (later && holder == Holder::mapped) {
		postpone([memory] { drop(memory); });
		return cudaSuccess;
	}
	// Once CUDA has it back, another thread may be given the same address.
	Allocation was = {};
	const bool withdrawn = holder == Holder::runtime && withdraw(memory, &was);
	if (holder == Holder::mapped) // kernels may still use it, and cudaFree waits for them
		error = seen(REAL(cudaDeviceSynchronize)(), call);
	else if (holder != Holder::reserved)
		error = seen(real(), call);
	if (holder == Holder::unknown && error == cudaSuccess)
		graph_frees(memory);
	if (holder == Holder::mapped || holder == Holder::reserved)
		drop(memory);
	else if (withdrawn && error == cudaSuccess && later)
		postpone([was] { uncharge(was.slot, was.bytes); });
	else if (withdrawn && error == cudaSuccess)
		uncharge(was.slot, was.bytes);
	else if (withdrawn)
		adopt(memory, was.bytes, was.slot);
	release_postponed();
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
	const size_t row = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
	bool reserved = true;
	cudaError_t error = allocate("cudaMallocPitch", memory, row * height, [&] {
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
	const size_t row = (extent.width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
	void *made = nullptr;
	bool reserved = true;
	cudaError_t error = allocate("cudaMalloc3D", &made, row * extent.height * extent.depth, [&] {
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

#define MALLOC_ASYNC(name, IsCapturing)                                                                                \
	cudaError_t name(void **memory, size_t bytes, cudaStream_t stream)                                             \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		auto make = [&] { return REAL(name)(memory, bytes, real(stream)); };                                   \
		if (memory != nullptr && bytes > 0 && capturing(stream, REAL(IsCapturing)))                            \
			return allocate_in_graph("cudaMallocAsync", memory, bytes, make);                              \
		return allocate("cudaMallocAsync", memory, bytes, make);                                               \
	}
MALLOC_ASYNC(cudaMallocAsync, cudaStreamIsCapturing)
MALLOC_ASYNC(cudaMallocAsync_ptsz, cudaStreamIsCapturing_ptsz)

#define MALLOC_FROM_POOL(name, IsCapturing)                                                                            \
	cudaError_t name(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)                         \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		auto make = [&] { return REAL(name)(memory, bytes, pool, real(stream)); };                             \
		if (memory != nullptr && bytes > 0 && capturing(stream, REAL(IsCapturing)))                            \
			return allocate_in_graph("cudaMallocFromPoolAsync", memory, bytes, make);                      \
		return allocate_object("cudaMallocFromPoolAsync", memory, bytes, false, make);                         \
	}
MALLOC_FROM_POOL(cudaMallocFromPoolAsync, cudaStreamIsCapturing)
MALLOC_FROM_POOL(cudaMallocFromPoolAsync_ptsz, cudaStreamIsCapturing_ptsz)

cudaError_t cudaFree(void *memory)
{
	return deallocate("cudaFree", memory, [&] { return REAL(cudaFree)(memory); });
}

namespace {

// charged_in is the slot whose task has the memory.
int charged_in(const void *memory)
{
	Locked locked;
	const Allocation *a = mode() == Mode::pinned ? find(memory) : nullptr;

	return a != nullptr ? a->slot : account_device();
}

// wait_for waits for the device of the slot, which a pinned process has perhaps left.
cudaError_t wait_for(int slot)
{
	const int here = account_device();
	CUcontext own = nullptr;

	if (slot == here)
		return REAL(cudaDeviceSynchronize)();
	if (driver() != nullptr)
		driver()->get_current(&own);
	cudaError_t error = REAL(cudaSetDevice)(slot);
	if (error == cudaSuccess)
		error = REAL(cudaDeviceSynchronize)();
	REAL(cudaSetDevice)(here);
	if (own != nullptr)
		driver()->set_current(own);
	return error;
}

// deallocate_ordered is cudaFreeAsync. In a capture it frees whenever the graph is
// launched. What the graph did not allocate stays charged then; and memory of
// ours, which no graph can free, stays until the process ends.
template <typename Real>
cudaError_t deallocate_ordered(void *memory, cudaStream_t stream, IsCapturing ask, Real release)
{
	const char *const call = "cudaFreeAsync";

	if (memory != nullptr && capturing(stream, ask)) {
		if (holder_of(memory) == Holder::mapped)
			return cudaSuccess;
		cudaError_t error = seen(release(), call);
		if (error == cudaSuccess)
			graph_frees(memory);
		return error;
	}
	// Memory of ours is freed at once, when the device is idle; the stream's order
	// is kept by waiting for all of it. The task ends with its last object, and what
	// other streams do with what was freed in them has to end before it.
	const int slot = charged_in(memory);
	return deallocate(call, memory, [&] {
		cudaError_t error = release();
		if (error != cudaSuccess || mode() == Mode::passive || !last_object(slot) || being_captured())
			return error;
		error = REAL(cudaStreamSynchronize)(real(stream)); // pinned, it may be another device's
		return error == cudaSuccess ? wait_for(slot) : error;
	});
}

} // namespace

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	EXISTS(stream);
	return deallocate_ordered(memory, stream, REAL(cudaStreamIsCapturing),
	                          [&] { return REAL(cudaFreeAsync)(memory, real(stream)); });
}

cudaError_t cudaFreeAsync_ptsz(void *memory, cudaStream_t stream)
{
	EXISTS(stream);
	return deallocate_ordered(memory, stream, REAL(cudaStreamIsCapturing_ptsz),
	                          [&] { return REAL(cudaFreeAsync_ptsz)(memory, real(stream)); });
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
	return deallocate("cudaFreeArray", array, [&] { return REAL(cudaFreeArray)(array); });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	return deallocate("cudaFreeMipmappedArray", array, [&] { return REAL(cudaFreeMipmappedArray)(array); });
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
	cudaError_t error = enter_context();
	if (error == cudaSuccess)
		error = seen(REAL(cudaPointerGetAttributes)(attributes, memory), "cudaPointerGetAttributes");
	if (error == cudaSuccess)
		attributes->device = real_to_visible(attributes->device);
	return error;
}
