// calls_free.cc: device memory is freed.
#include "api.h"
#include "runtime.h"

namespace lazy {
namespace {

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
} // namespace lazy

using namespace lazy;

cudaError_t cudaFree(void *memory)
{
	return deallocate("cudaFree", memory, [&] { return REAL(cudaFree)(memory); });
}

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
