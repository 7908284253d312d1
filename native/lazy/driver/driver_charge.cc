// driver_charge.cc: see driver_charge.h.
//
// Libraries with a CUDA runtime of their own, and programs that call the driver, allocate past the shared runtime. A
// caller may hold locks of its own runtime while it waits here. Nobody who holds a lock of this library takes one of
// those: this library calls the shared runtime, which is given the driver's own functions, and the driver.
//
// Without the shared runtime nobody knows when the device has no work of the process. So its task, which it has got with
// its context, keeps what it was granted.
#include "abi/capture_mode.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "memory/by_handle.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/graph_memory.h"
#include "task/pools.h"
#include "task/report.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/submit_gate.h"
#include "driver_api.h"
#include "driver_charge.h"
#include "overrides.h"

extern "C" CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);

namespace lazy {

namespace {

Task *task_for(const DriverAllocation &wanted)
{
	if (wanted.prop == nullptr)
		return Task::of_context();
	return wanted.prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? Task::paying_for(wanted.prop->location.id) : nullptr;
}

void discharge(const Charge &charge)
{
	Task &task = *Task::on(charge.charged_to);

	if (Task::lasts_with_process() || being_captured()) // no task ends in a capture
		task.take_back(charge.bytes);
	else
		task.uncharge(charge.bytes);
}

void discharge(const std::vector<Charge> &gone)
{
	for (const Charge &charge : gone)
		discharge(charge);
}

// waiting does a free that waits for the device. The task may end with it.
CUresult waiting(const std::function<CUresult()> &run)
{
	if (has_runtime())
		return await_rest(run);
	const Waits waits;
	const CUresult result = run();
	settle_pools();
	return result;
}

} // namespace

DriverCharge::DriverCharge(const char *call, const DriverAllocation &wanted, uint64_t bytes, bool own)
    : wanted_(wanted), bytes_(bytes), task_(bytes > 0 && wanted.memory != nullptr ? task_for(wanted) : nullptr)
{
	if (task_ == nullptr) {
		guard(call);
		return;
	}
	const OwnErrors of_the_driver;
	graph_ = wanted.in_capture(own);
	if (wanted.ordered && !graph_)
		pool_ = wanted.pool != nullptr ? wanted.pool : pool_of(one_device() ? home() : task_->device());
	refused_ = result_of(graph_ ? await_graph_charge(call, bytes, *task_)
	                     : pool_ != nullptr ? await_pool_charge(call, *task_, pool_, bytes)
	                                        : task_->await_charge(call, bytes, wanted.managed));
	if (!graph_) // whose memory is made when it runs
		shortage_.emplace(task_, call, bytes, pool_);
	if (wanted.managed && refused_ == CUDA_SUCCESS)
		guard(call);
}

// guard asks the run about managed memory, and in a process that is not charged about all memory of the device.
void DriverCharge::guard(const char *call)
{
	if (wanted_.memory == nullptr || (wanted_.prop != nullptr && wanted_.prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE))
		return;
	const OwnErrors of_the_driver;
	guarded_.emplace(call, bytes_, wanted_.managed);
	refused_ = result_of(guarded_->refused());
	if (refused_ != CUDA_SUCCESS && task_ != nullptr)
		task_->take_back(bytes_);
}

bool DriverCharge::await_again(CUresult result)
{
	if (!shortage_)
		return false;
	const OwnErrors of_the_driver;
	if (shortage_->await_again(result))
		return true;
	refused_ = result_of(shortage_->refused());
	if (refused_ != CUDA_SUCCESS && pool_ != nullptr)
		pool_was_asked(pool_, bytes_, result);
	return refused_ != CUDA_SUCCESS;
}

CUresult DriverCharge::made(CUresult result)
{
	void *const at = reinterpret_cast<void *>(result == CUDA_SUCCESS ? *wanted_.memory : 0);
	if (guarded_ && result == CUDA_SUCCESS)
		guarded_->made(at);
	if (task_ == nullptr)
		return result;
	if (pool_ != nullptr)
		pool_was_asked(pool_, bytes_, result);
	if (graph_)
		result == CUDA_SUCCESS ? graph_has(at, bytes_) : graph_lacks(bytes_);
	else if (result != CUDA_SUCCESS && pool_ == nullptr)
		task_->take_back(bytes_);
	else if (result != CUDA_SUCCESS)
		return result;
	else if (wanted_.prop != nullptr)
		created(*wanted_.memory, {task_->device(), bytes_});
	else
		adopt(at, bytes_, task_->device(), pool_);
	return result;
}

CUresult driver_released(const char *call, const DriverFree &free, bool own, const std::function<CUresult()> &run)
{
	void *const at = reinterpret_cast<void *>(free.memory);
	Allocation was = {};
	const bool node = mode() != Mode::passive && free.in_capture(own);

	GuardedFree guarded(at);
	if (node || mode() == Mode::passive || !withdraw(at, &was)) {
		const CUresult result = run();
		guarded.done(result == CUDA_SUCCESS);
		if (result == CUDA_SUCCESS && mode() != Mode::passive)
			graph_frees(at);
		return result;
	}
	const CUresult result = free.ordered || being_captured() ? run() : waiting(run);
	guarded.done(result == CUDA_SUCCESS);
	if (result != CUDA_SUCCESS)
		readopt(was);
	else if (was.pool != nullptr)
		pool_has_back(was.pool);
	else
		discharge({was.charged_to, was.bytes});
	if (free.ordered && has_runtime())
		await_end(call);
	return result;
}

// ---- arrays (cuda.h: CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR)

namespace {

struct Description {
	size_t width, height;
	int format;
	unsigned channels;
};

struct Description3D {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};

const unsigned without_memory = 0x40 | 0x80; // CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING

// channel_bytes is the most that a channel of the format takes.
uint64_t channel_bytes(int format)
{
	switch (format) {
	case 0x01: // CU_AD_FORMAT_UNSIGNED_INT8
	case 0x08: // CU_AD_FORMAT_SIGNED_INT8
		return 1;
	case 0x02: // CU_AD_FORMAT_UNSIGNED_INT16
	case 0x09: // CU_AD_FORMAT_SIGNED_INT16
	case 0x10: // CU_AD_FORMAT_HALF
		return 2;
	}
	return 4;
}

size_t count(size_t extent) { return extent > 0 ? extent : 1; }

} // namespace

uint64_t array_bytes(const void *description)
{
	const auto *const d = static_cast<const Description *>(description);

	return d == nullptr ? 0 : product(product(d->width, count(d->height)), channel_bytes(d->format) * d->channels);
}

uint64_t array3d_bytes(const void *description)
{
	const auto *const d = static_cast<const Description3D *>(description);

	if (d == nullptr || (d->flags & without_memory) != 0)
		return 0;
	return product(product(product(d->width, count(d->height)), count(d->depth)), channel_bytes(d->format) * d->channels);
}

} // namespace lazy

using namespace lazy;

static CUresult array_freed(const char *call, void *array, CUresult (*real)(void *))
{
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	return driver_released(call, DriverFree(reinterpret_cast<CUdeviceptr>(array)), false, [=] { return real(array); });
}

CUresult cuArrayDestroy(void *array) { return array_freed("cuArrayDestroy", array, REAL_DRIVER(cuArrayDestroy)); }

CUresult cuMipmappedArrayDestroy(void *array)
{
	return array_freed("cuMipmappedArrayDestroy", array, REAL_DRIVER(cuMipmappedArrayDestroy));
}

// What somebody has made elsewhere is not known here: it is taken for a device's.
CUresult cuMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props)
{
	const auto real = REAL_DRIVER(cuMemPoolCreate);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(pool, props);
	if (result == CUDA_SUCCESS && props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		pool_is_elsewhere(*pool);
	return result;
}

CUresult cuMemPoolDestroy(cudaMemPool_t pool)
{
	const auto real = REAL_DRIVER(cuMemPoolDestroy);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	return destroy_pool(pool, [=] { return real(pool); });
}

CUresult cuMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	const auto real = REAL_DRIVER(cuMemPoolTrimTo);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(pool, keep);
	settle_pools();
	return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	const auto real = REAL_DRIVER(cuMemRelease);
	std::vector<Charge> gone;

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	GuardedFree guarded(reinterpret_cast<const void *>(handle));
	const CUresult result = release_handle(handle, [=] { return real(handle); }, &gone);
	guarded.done(result == CUDA_SUCCESS);
	discharge(gone);
	return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const auto real = REAL_DRIVER(cuMemMap);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	return map_handle(address, bytes, handle, [=] { return real(address, bytes, offset, handle, flags); });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	const auto real = REAL_DRIVER(cuMemUnmap);
	std::vector<Charge> gone;

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = unmap_handles(address, bytes, [=] { return real(address, bytes); }, &gone);
	discharge(gone);
	return result;
}

// Memory of cudaMalloc has no handle. What this library puts behind an allocation is not the program's to name.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	const auto real = REAL_DRIVER(cuMemRetainAllocationHandle);
	uintptr_t base = 0;
	size_t bytes = 0;

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	if (handle == nullptr || allocation_at(address, &base, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return retain_handle(handle, reinterpret_cast<CUdeviceptr>(address), [=] { return real(handle, address); });
}

static void discharge_all(const std::vector<Allocation> &gone)
{
	for (const Allocation &was : gone)
		if (was.pool != nullptr) {
			pool_has_back(was.pool);
		} else {
			GuardedFree(reinterpret_cast<void *>(was.base)).done(true);
			discharge(Charge{was.charged_to, was.bytes});
		}
}

static void discharge_device(Task &task)
{
	discharge_all(withdraw_all(nullptr, task.device()));
	task.restore_context_memory(&ContextMemory::heap, {});
	task.restore_context_memory(&ContextMemory::local, {});
}

// What is in a context goes with it. An address may be another thread's as soon as the driver has it back.
CUresult cuCtxDestroy_v2(CUcontext context)
{
	const auto real = REAL_DRIVER(cuCtxDestroy_v2);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const std::vector<Allocation> in_it = context == nullptr ? std::vector<Allocation>{} : withdraw_all(context, 0);
	const CUresult result = real(context);
	if (result != CUDA_SUCCESS) {
		for (const Allocation &was : in_it)
			readopt(was);
		return result;
	}
	ended_by_program(context);
	discharge_all(in_it);
	return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	const auto real = REAL_DRIVER(cuDevicePrimaryCtxReset_v2);
	Task *const task = Task::paying_for(device);

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(device);
	if (result == CUDA_SUCCESS && task != nullptr)
		discharge_device(*task);
	return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	const auto real = REAL_DRIVER(cuDevicePrimaryCtxRelease_v2);
	const auto state = REAL_DRIVER(cuDevicePrimaryCtxGetState);
	Task *const task = Task::paying_for(device);
	unsigned flags = 0;
	int active = 1;

	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(device);
	if (result == CUDA_SUCCESS && task != nullptr && state != nullptr && state(device, &flags, &active) == CUDA_SUCCESS && active == 0)
		discharge_device(*task);
	return result;
}
