// driver_memory.cc: the driver's memory calls, where they meet memory of this library.
//
// Programs that call the driver, and libraries with a CUDA runtime of their own, allocate and free
// here. What the shared runtime calls is not looked at.
#include "abi/capture_mode.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/record.h"
#include "task/report.h"
#include "task/seems.h"
#include "task/shortage.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/submit_gate.h"
#include "task/task.h"
#include "driver_api.h"
#include "driver_memory.h"
#include "overrides.h"

extern "C" {
CUresult cuCtxSynchronize(void);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
}

namespace lazy {

// is_primary: the context is the device's primary context. No context is made here.
static bool is_primary(CUcontext context, CUdevice device)
{
	const auto state = REAL_DRIVER(cuDevicePrimaryCtxGetState);
	const auto retain = REAL_DRIVER(cuDevicePrimaryCtxRetain);
	const auto release = REAL_DRIVER(cuDevicePrimaryCtxRelease_v2);
	CUcontext primary = nullptr;
	unsigned flags = 0;
	int active = 0;

	if (state == nullptr || retain == nullptr || release == nullptr || state(device, &flags, &active) != CUDA_SUCCESS ||
	    active == 0 || retain(&primary, device) != CUDA_SUCCESS)
		return false;
	release(device);
	return context == primary;
}

// serves_here: the calling thread's context is the primary context of the granted device, and what is
// allocated there can move. Memory in a context of the program's own has to end with that context.
static bool serves_here()
{
	CUcontext context = nullptr;
	CUdevice on = -1;

	return movable() && has_runtime() && !being_captured() && driver() != nullptr &&
	       driver()->get_current(&context) == CUDA_SUCCESS && context != nullptr &&
	       driver()->current_device(&on) == CUDA_SUCCESS && on == home() && is_primary(context, on);
}

// is_making_graph: the stream makes a graph. The part of the program may have begun that past this library.
static bool is_making_graph(cudaStream_t stream, bool own)
{
	return is_captured(stream == nullptr && own ? per_thread_stream : stream);
}

bool DriverAllocation::in_capture(bool own) const { return ordered && is_making_graph(stream, own); }
bool DriverFree::in_capture(bool own) const { return ordered && is_making_graph(stream, own); }

bool driver_allocates(const char *call, const DriverAllocation &wanted, size_t bytes, bool own, CUresult *result)
{
	if (wanted.memory == nullptr || bytes == 0 || !serves_here() || wanted.in_capture(own))
		return false;
	const OwnErrors of_the_driver;
	Task &task = Task::process();
	*result = CUDA_SUCCESS;
	drop_reached();
	void *made = wanted.ordered ? reuse_freed(bytes, {wanted.stream, own}) : nullptr;
	if (made == nullptr && !allocate_beside(bytes, &made)) {
		*result = result_of(task.await_range(call, backing_of(bytes)));
		if (*result != CUDA_SUCCESS) // and reported
			return true;
		Shortage shortage(&task, call, backing_of(bytes));
		do {
			const Submitting submitting; // it brings memory to the device
			*result = allocate_backed(bytes, home(), &made);
		} while (shortage.await_again(*result));
		if (shortage.refused() != cudaSuccess) {
			*result = result_of(shortage.refused());
			return true;
		}
		if (*result != CUDA_SUCCESS) {
			task.take_back(backing_of(bytes));
			seen(*result, call);
			return true;
		}
	}
	*wanted.memory = reinterpret_cast<CUdeviceptr>(made);
	return true;
}

size_t driver_pitch(size_t *pitch, size_t width)
{
	const size_t row = row_of(width);

	if (pitch != nullptr)
		*pitch = row;
	return row;
}

bool driver_frees(const DriverFree &free, bool own, CUresult *result)
{
	void *const at = reinterpret_cast<void *>(free.memory);

	if (!one_device() || at == nullptr || holder_of(at) != Holder::mapped)
		return false;
	*result = CUDA_SUCCESS;
	if (being_captured()) {
		postpone([at] { drop_allocation(at); });
		return true;
	}
	if (free.in_capture(own)) // the memory is not a graph's, so the driver refuses to free it
		return false;
	if (free.ordered && free_in_order(at, {free.stream, own})) {
		drop_reached();
		await_end("cuMemFreeAsync");
		return true;
	}
	*result = await_rest([] { return REAL_DRIVER(cuCtxSynchronize)(); }); // kernels may still use it, and cuMemFree waits
	if (*result == CUDA_SUCCESS || stays(*result))
		drop_allocation(at);
	return true;
}

} // namespace lazy

using namespace lazy;

enum { // of CUpointer_attribute
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
};
static const unsigned CU_MEMORYTYPE_DEVICE = 2;

// answers tells an attribute of this library's memory. The driver knows mappings, which may be of the
// host's memory for a time, and the program knows allocations. false: the driver is to answer.
static bool answers(int attribute, void *value, CUdeviceptr address)
{
	uintptr_t base = 0;
	size_t bytes = 0;

	if (value == nullptr || !allocation_at(reinterpret_cast<void *>(address), &base, &bytes))
		return false;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*static_cast<CUcontext *>(value) = context_of_task();
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*static_cast<unsigned *>(value) = CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*static_cast<CUdeviceptr *>(value) = address;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*static_cast<int *>(value) = home();
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*static_cast<CUdeviceptr *>(value) = base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*static_cast<size_t *>(value) = bytes;
		return true;
	}
	return false;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	const auto real = REAL_DRIVER(cuMemGetInfo_v2);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(free, total);
	if (result == CUDA_SUCCESS && free != nullptr && total != nullptr)
		if (const Task *const task = Task::of_context(); task != nullptr)
			await_seems(*task, free, total);
	return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	const auto real = REAL_DRIVER(cuDeviceTotalMem_v2);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(bytes, device);
	if (result == CUDA_SUCCESS)
		*bytes = seems(*bytes);
	return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuMemGetAddressRange_v2);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	uintptr_t start = 0;
	size_t size = 0;
	if (!allocation_at(reinterpret_cast<void *>(address), &start, &size))
		return real(base, bytes, address);
	if (base != nullptr)
		*base = start;
	if (bytes != nullptr)
		*bytes = size;
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuPointerGetAttribute);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	if (answers(attribute, value, address))
		return CUDA_SUCCESS;
	const Inspecting inspecting;
	return real(value, attribute, address);
}

CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuPointerGetAttributes);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = [=] {
		const Inspecting inspecting;
		return real(count, attributes, values, address);
	}();
	if (attributes == nullptr || values == nullptr)
		return result;
	unsigned answered = 0;
	for (unsigned i = 0; i < count; i++)
		answered += answers(attributes[i], values[i], address);
	return count > 0 && answered == count ? CUDA_SUCCESS : result;
}
