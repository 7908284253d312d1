// device.cc: devices, limits and errors.
//
// Under task binding the program sees one device, 0. Until the task is bound, questions about it
// are answered by the job's first device, which is like the others on a node of equal GPUs. On a
// node of different GPUs such a question binds (equal_devices). In a run with instances of MIG it asks for the device
// (await_confined), because the driver must not start before.
#include <stdio.h>
#include <string.h>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/handles.h"
#include "device/settings.h"
#include "launch/local_memory.h"
#include "launch/submit_window.h"
#include "launch/work.h"
#include "memory/by_handle.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "program/objects.h"
#include "task/burst.h"
#include "task/pools.h"
#include "task/graph_memory.h"
#include "task/managed.h"
#include "task/record.h"
#include "task/report.h"
#include "task/seems.h"
#include "task/stop.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/task.h"

namespace lazy {
namespace {

const int most_static_shared = 48 << 10; // bytes, on every device (CUDA C++ Programming Guide, appendix K)

// absent tells the run of a device that the program chose and does not see.
cudaError_t absent(cudaError_t error, int device, const char *call)
{
	char what[128];
	int count = 1;

	if (error != cudaErrorInvalidDevice || device <= 0)
		return error;
	if (!one_device() && REAL(cudaGetDeviceCount)(&count) != cudaSuccess)
		return error;
	snprintf(what, sizeof what, "%s(%d): no such device among the %d that the job was given", call, device, count);
	client_hint(what);
	return error;
}

// about answers a question about the device that the program calls `device`.
template <typename Ask> cudaError_t about(const char *call, int device, Ask ask)
{
	if (!one_device())
		return absent(seen(ask(device), call), device, call);
	if (device != 0)
		return absent(fail(cudaErrorInvalidDevice), device, call);
	use_device();
	if (cudaError_t error = await_confined(); error != cudaSuccess)
		return fail(error);
	if (home() < 0 && !equal_devices())
		if (cudaError_t error = await_device(); error != cudaSuccess)
			return error;
	return seen(ask(home() < 0 ? 0 : home()), call);
}

// setting is a property of the context or of a kernel: recorded until there is a context. The context of another device, on which the
// next task may be, does not have it. So a caller whose setting is more than a preference also calls tie.
template <typename Set> cudaError_t setting(const char *call, const Setting &what, Set run)
{
	const auto set = [=] { return make_setting(what, run); };

	if (await_or_defer() && home() < 0) {
		Locked locked;
		if (deferring() && home() < 0) {
			record_kept(call, set);
			return cudaSuccess;
		}
	}
	cudaError_t error = await_context();
	return error == cudaSuccess ? seen(set(), call) : error;
}

// set_context_memory is setting for what makes the context keep memory.
template <typename Set> cudaError_t set_context_memory(const Setting &limit, uint64_t ContextMemory::*part, uint64_t bytes, Set set)
{
	const char *const call = "cudaDeviceSetLimit";
	Task &task = Task::here();
	ContextMemory was;
	cudaError_t error = task.await_context_memory(call, part, bytes, &was);

	if (error == cudaSuccess && (error = setting(call, limit, set)) != cudaSuccess)
		task.restore_context_memory(part, was);
	return error;
}

// Since CUDA 12 choosing a device makes its context. That can wait where the
// program cannot look for it with the driver.
bool waits_for_launch()
{
	use_device();
	return deferring() && self_contained();
}

// reset_task ends the task of a device that is being reset. What does not end with the device's context is
// of the next task.
void reset_task()
{
	Task &task = Task::here();

	withdraw_all(nullptr, task.device());
	task.reset();
	for (const uint64_t bytes : outlasting(task.device()))
		task.count(1, static_cast<int64_t>(bytes));
	for (const Charge &c : charged_by_handle())
		if (c.charged_to == task.device())
			task.count(1, static_cast<int64_t>(c.bytes));
	renew_pools(task.device());
}

template <typename Reset> cudaError_t reset(const char *call, Reset run)
{
	cudaError_t error = cudaSuccess;

	await_kernel();
	// What still runs uses the memory, and may fail, which nobody would hear of.
	if (one_device() ? has_context() : at_work()) {
		use_device();
		if (seen(REAL(cudaDeviceSynchronize)(), call) != cudaSuccess)
			REAL(cudaGetLastError)(); // the program has seen none
	}
	const int device = Task::here().device();
	{
		Locked locked;
		await_forget_captures(); // their streams end in any mode
		if (one_device()) {
			forget_freed();
			forget_memory();
			forget_registrations();
			forget_graphs();
			clear_record();
			forget_handles();
			forget_settings();
			forget_windows();
			forget_looks();
			forget_stops();
		}
		if (one_device())
			reset_former_devices();
		if (!one_device() || home() >= 0)
			error = seen(run(), call);
		if (error == cudaSuccess)
			forget_error();
		idle();
		if (mode() != Mode::passive)
			reset_task();
		forget_device();
	}
	if (error == cudaSuccess)
		forget_guarded(device);
	return error;
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaGetDeviceCount(int *count)
{
	if (awaits_device() && count != nullptr) {
		*count = 1;
		return cudaSuccess;
	}
	use_device();
	cudaError_t error = await_confined();
	if (error != cudaSuccess)
		return fail(error);
	error = seen(REAL(cudaGetDeviceCount)(count), "cudaGetDeviceCount");
	if (error == cudaSuccess && one_device() && *count > 1)
		*count = 1;
	return error;
}

cudaError_t cudaSetDevice(int device)
{
	if (!one_device())
		return absent(seen(REAL(cudaSetDevice)(device), "cudaSetDevice"), device, "cudaSetDevice");
	if (device != 0)
		return absent(fail(cudaErrorInvalidDevice), device, "cudaSetDevice");
	if (waits_for_launch())
		return cudaSuccess;
	cudaError_t error = await_device();
	return error == cudaSuccess ? seen(choose_device(), "cudaSetDevice") : error;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
	if (!one_device())
		return absent(seen(REAL(cudaInitDevice)(device, device_flags, flags), "cudaInitDevice"), device, "cudaInitDevice");
	if (device != 0)
		return absent(fail(cudaErrorInvalidDevice), device, "cudaInitDevice");
	if (waits_for_launch())
		return flags & cudaInitDeviceFlagsAreValid ? cudaSetDeviceFlags(device_flags) : cudaSuccess;
	cudaError_t error = await_device();
	return error == cudaSuccess ? seen(REAL(cudaInitDevice)(home(), device_flags, flags), "cudaInitDevice") : error;
}

cudaError_t cudaGetDevice(int *device)
{
	if (!one_device())
		return seen(REAL(cudaGetDevice)(device), "cudaGetDevice");
	if (device == nullptr)
		return fail(cudaErrorInvalidValue);
	*device = 0;
	return cudaSuccess;
}

cudaError_t cudaSetValidDevices(int *devices, int count)
{
	return one_device() ? cudaSuccess : seen(REAL(cudaSetValidDevices)(devices, count), "cudaSetValidDevices");
}

cudaError_t cudaChooseDevice(int *device, const void *properties)
{
	if (!one_device())
		return seen(REAL(cudaChooseDevice)(device, properties), "cudaChooseDevice");
	return cudaGetDevice(device);
}

// seeming shows the memory that the device seems to have.
static cudaError_t seeming(cudaError_t error, void *properties)
{
	const size_t at = 288; // of totalGlobalMem in cudaDeviceProp, of CUDA 11 to 13 (driver_types.h)

	if (error == cudaSuccess && properties != nullptr) {
		auto *const total = reinterpret_cast<size_t *>(static_cast<char *>(properties) + at);
		*total = seems(*total);
	}
	return error;
}

cudaError_t cudaGetDeviceProperties(void *properties, int device)
{
	return about("cudaGetDeviceProperties", device,
	             [=](int real) { return seeming(REAL(cudaGetDeviceProperties)(properties, real), properties); });
}

cudaError_t cudaGetDeviceProperties_v2(void *properties, int device)
{
	return about("cudaGetDeviceProperties", device,
	             [=](int real) { return seeming(REAL(cudaGetDeviceProperties_v2)(properties, real), properties); });
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	return about("cudaDeviceGetAttribute", device,
	             [=](int real) { return REAL(cudaDeviceGetAttribute)(value, attribute, real); });
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	if (one_device() && peer != 0)
		return absent(fail(cudaErrorInvalidDevice), peer, "cudaDeviceCanAccessPeer");
	return about("cudaDeviceCanAccessPeer", device,
	             [=](int real) { return REAL(cudaDeviceCanAccessPeer)(can, real, one_device() ? real : peer); });
}

// The PCI address names one physical device, so the answer needs the granted device.
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	cudaError_t error = await_device();
	if (error != cudaSuccess)
		return error;
	return about("cudaDeviceGetPCIBusId", device,
	             [=](int real) { return REAL(cudaDeviceGetPCIBusId)(id, size, real); });
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	cudaError_t error = await_device();
	if (error == cudaSuccess)
		error = seen(REAL(cudaDeviceGetByPCIBusId)(device, id), "cudaDeviceGetByPCIBusId");
	if (error != cudaSuccess || !one_device())
		return error;
	if (*device != home())
		return fail(cudaErrorInvalidDevice);
	*device = 0;
	return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	if (await_or_defer() && home() < 0) {
		Locked locked;
		if (deferring() && home() < 0) { // still: another thread may have bound the task
			keep_flags(flags);
			return cudaSuccess;
		}
	}
	use_device();
	const cudaError_t error = seen(REAL(cudaSetDeviceFlags)(flags), "cudaSetDeviceFlags");
	if (error == cudaSuccess && one_device()) { // the context of another device begins with them
		Locked locked;
		keep_flags(flags);
	}
	return error;
}

cudaError_t cudaDeviceSetLimit(int limit, size_t value)
{
	auto set = [=] { return REAL(cudaDeviceSetLimit)(limit, value); };
	const Setting what = {Setting::limit, nullptr, limit};

	tie(Tie::limit, "cudaDeviceSetLimit");
	if (limit == cudaLimitMallocHeapSize)
		return set_context_memory(what, &ContextMemory::heap, value, set);
	if (limit == cudaLimitStackSize) {
		if (awaits_device()) // which says how many threads it has
			if (cudaError_t error = await_confined(); error != cudaSuccess)
				return fail(error);
		return set_context_memory(what, &ContextMemory::local, local_pool(value), set);
	}
	if (limit == cudaLimitPrintfFifoSize) // which takes no memory of the device
		return setting("cudaDeviceSetLimit", what, set);
	cudaError_t error = await_device(); // not every device has the others, and programs ask by setting them
	return error == cudaSuccess ? seen(make_setting(what, set), "cudaDeviceSetLimit") : error;
}

cudaError_t cudaThreadSetLimit(int limit, size_t value) { return cudaDeviceSetLimit(limit, value); }

cudaError_t cudaDeviceSetCacheConfig(int config)
{
	return setting("cudaDeviceSetCacheConfig", {Setting::cache, nullptr, 0}, [=] { return REAL(cudaDeviceSetCacheConfig)(config); });
}

cudaError_t cudaThreadSetCacheConfig(int config) { return cudaDeviceSetCacheConfig(config); }

cudaError_t cudaFuncSetCacheConfig(const void *kernel, int config)
{
	return setting("cudaFuncSetCacheConfig", {Setting::kernel_cache, kernel, 0}, [=] { return REAL(cudaFuncSetCacheConfig)(kernel, config); });
}

cudaError_t cudaDeviceSetSharedMemConfig(int config)
{
	return setting("cudaDeviceSetSharedMemConfig", {Setting::banks, nullptr, 0}, [=] { return REAL(cudaDeviceSetSharedMemConfig)(config); });
}

cudaError_t cudaFuncSetSharedMemConfig(const void *kernel, int config)
{
	return setting("cudaFuncSetSharedMemConfig", {Setting::kernel_banks, kernel, 0}, [=] { return REAL(cudaFuncSetSharedMemConfig)(kernel, config); });
}

// Recorded only where the call cannot fail: its answer is how a program finds out what
// the device allows.
cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value)
{
	auto set = [=] { return REAL(cudaFuncSetAttribute)(kernel, attribute, value); };
	const Setting what = {Setting::kernel_attribute, kernel, attribute};
	int most = 0;

	if (attribute != cudaFuncAttributePreferredSharedMemoryCarveout)
		tie(Tie::limit, "cudaFuncSetAttribute");
	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && await_or_defer() && value >= 0 &&
	    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess &&
	    value <= most - most_static_shared)
		return setting("cudaFuncSetAttribute", what, set);
	if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout && value >= -1 && value <= 100)
		return setting("cudaFuncSetAttribute", what, set);
	cudaError_t error = await_device();
	return error == cudaSuccess ? seen(make_setting(what, set), "cudaFuncSetAttribute") : error;
}

cudaError_t cudaDeviceReset() { return reset("cudaDeviceReset", [] { return REAL(cudaDeviceReset)(); }); }

cudaError_t cudaThreadExit() { return reset("cudaThreadExit", [] { return REAL(cudaThreadExit)(); }); }

// of_cuda is CUDA's own last error. Asking for it starts the driver (seen with runtime 13.0). Before that there is none.
static cudaError_t of_cuda(cudaError_t (*ask)()) { return awaits_device() ? cudaSuccess : ask(); }

cudaError_t cudaGetLastError()
{
	use_device();
	return last_error(of_cuda(REAL(cudaGetLastError)), "cudaGetLastError", true);
}

cudaError_t cudaPeekAtLastError()
{
	use_device();
	return last_error(of_cuda(REAL(cudaPeekAtLastError)), "cudaPeekAtLastError", false);
}

// Switching a profiler on or off is of no use before there is a context.
cudaError_t cudaProfilerStart()
{
	if (await_or_defer())
		return cudaSuccess;
	use_device();
	return seen(REAL(cudaProfilerStart)(), "cudaProfilerStart");
}

cudaError_t cudaProfilerStop()
{
	if (await_or_defer())
		return cudaSuccess;
	use_device();
	return seen(REAL(cudaProfilerStop)(), "cudaProfilerStop");
}
