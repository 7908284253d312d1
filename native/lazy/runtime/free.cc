// free.cc: device memory is freed.
#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/graph_memory.h"
#include "task/managed.h"
#include "task/pools.h"
#include "task/record.h"
#include "task/report.h"
#include "task/stop.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/task.h"

namespace lazy {
namespace {

// deallocate frees device memory; real frees what the CUDA runtime allocated. With an order it does not wait until
// the device is idle.
template <typename Real> cudaError_t deallocate(const char *call, void *memory, Real real, const Order *order = nullptr)
{
	if (memory == nullptr && await_or_defer())
		return cudaSuccess; // cudaFree(0), the idiom that makes a context
	if (await_or_defer()) { // it waits for the device, as a synchronization does
		Locked locked;
		if (promised()) {
			if (cudaError_t error = await_device(); error != cudaSuccess)
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
		error = await_context();
	else if (mode() == Mode::task)
		use_device();
	if (error != cudaSuccess)
		return error;
	const bool later = being_captured();
	if (later && holder == Holder::mapped) {
		postpone([memory] { drop_allocation(memory); });
		return cudaSuccess;
	}
	// Once CUDA has it back, another thread may be given the same address.
	Allocation was = {};
	GuardedFree guarded(memory);
	const bool withdrawn = holder == Holder::runtime && withdraw(memory, &was);
	const bool in_order = holder == Holder::mapped && order != nullptr && free_in_order(memory, *order);
	if (holder == Holder::mapped && !in_order) { // kernels may still use it, and cudaFree waits for them
		error = seen(await_rest([] { return REAL(cudaDeviceSynchronize)(); }), call);
		if (error != cudaSuccess && !stays(error)) // the program may not wait here
			return error;
	} else if (holder != Holder::mapped && holder != Holder::reserved) {
		error = seen(real(), call);
	}
	guarded.done(error == cudaSuccess);
	if (holder == Holder::unknown && error == cudaSuccess)
		graph_frees(memory);
	if ((holder == Holder::mapped && !in_order) || holder == Holder::reserved)
		drop_allocation(memory);
	else if (withdrawn && error == cudaSuccess && was.pool != nullptr)
		pool_has_back(was.pool);
	else if (withdrawn && error == cudaSuccess && later)
		postpone([was] { Task::on(was.charged_to)->uncharge(was.bytes); });
	else if (withdrawn && error == cudaSuccess)
		Task::on(was.charged_to)->uncharge(was.bytes);
	else if (withdrawn)
		readopt(was);
	await_postponed();
	drop_reached();
	if (order != nullptr && one_device())
		await_end(call);
	else if (Task::process().would_end() && !being_captured()) // another thread gave work, or freed, after the wait
		seen(await_rest([] { return REAL(cudaDeviceSynchronize)(); }), call);
	return error;
}

// await_free is a free that waits for the device. CUDA waits only where there is something to free.
template <typename Release> cudaError_t await_free(const char *call, void *memory, Release release)
{
	return deallocate(call, memory, [&] { return memory == nullptr ? release() : await_rest(release); });
}

// charged_to is the task that has the memory.
Task &charged_to(const void *memory)
{
	Locked locked;
	const Allocation *a = mode() == Mode::pinned ? find(memory) : nullptr;

	return a != nullptr && a->range == nullptr ? *Task::on(a->charged_to) : Task::here();
}

// await_all waits for the task's device, which is not the calling thread's where a process that
// chooses devices itself has chosen another.
cudaError_t await_all(const Task &task)
{
	const Task &here = Task::here();
	CUcontext own = nullptr;

	if (&task == &here)
		return REAL(cudaDeviceSynchronize)();
	if (driver() != nullptr)
		driver()->get_current(&own);
	cudaError_t error = REAL(cudaSetDevice)(task.device());
	if (error == cudaSuccess)
		error = REAL(cudaDeviceSynchronize)();
	REAL(cudaSetDevice)(here.device());
	if (own != nullptr)
		driver()->set_current(own);
	return error;
}

// deallocate_ordered is cudaFreeAsync. In a capture it frees whenever the graph is launched.
// Memory that the graph did not allocate stays charged then. Memory that reserve made, which no
// graph can free, stays until the process ends.
template <typename Real>
cudaError_t deallocate_ordered(void *memory, cudaStream_t stream, IsCapturing ask, bool own, Real release)
{
	const char *const call = "cudaFreeAsync";

	await_kernel();
	if (memory != nullptr && capturing(stream, ask)) {
		if (holder_of(memory) == Holder::mapped)
			return cudaSuccess;
		cudaError_t error = seen(release(), call);
		if (error == cudaSuccess)
			graph_frees(memory);
		return error;
	}
	// A stream may wait for the thread that frees. So nobody waits here for long, and a task that would end goes on
	// until a later wait. In a process that chooses devices itself, a task ends with its last object, so work
	// in other streams with memory that was freed there must end first. A pool is one object.
	Task &task = charged_to(memory);
	const cudaMemPool_t pool = pool_behind(memory);
	const bool last_of_pool = pool == nullptr || allocations_of(pool) == 1;
	const Order order = {stream, own};
	return deallocate(call, memory, [&] {
		cudaError_t error = release();
		if (error != cudaSuccess || mode() != Mode::pinned || !last_of_pool || !task.last_object() || being_captured())
			return error;
		error = REAL(cudaStreamSynchronize)(real(stream)); // pinned, it may be another device's
		return error == cudaSuccess ? await_rest([&] { return await_all(task); }) : error;
	}, &order);
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaFree(void *memory)
{
	return await_free("cudaFree", memory, [&] { return REAL(cudaFree)(memory); });
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	EXISTS(stream);
	return deallocate_ordered(memory, stream, REAL(cudaStreamIsCapturing), false,
	                          [&] { return REAL(cudaFreeAsync)(memory, real(stream)); });
}

cudaError_t cudaFreeAsync_ptsz(void *memory, cudaStream_t stream)
{
	EXISTS(stream);
	return deallocate_ordered(memory, stream, REAL(cudaStreamIsCapturing_ptsz), true,
	                          [&] { return REAL(cudaFreeAsync_ptsz)(memory, real(stream)); });
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
	return await_free("cudaFreeArray", array, [&] { return REAL(cudaFreeArray)(array); });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	return await_free("cudaFreeMipmappedArray", array, [&] { return REAL(cudaFreeMipmappedArray)(array); });
}
