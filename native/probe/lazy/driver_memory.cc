// driver_memory.cc: the driver's memory calls, where they meet memory of this library.
//
// Programs that call the driver, and libraries with a CUDA runtime of their own, allocate and free
// here. What the shared runtime calls is not looked at.
#include "device.h"
#include "direct.h"
#include "driver_memory.h"
#include "freed.h"
#include "gate.h"
#include "graphs.h"
#include "lock.h"
#include "memory.h"
#include "mode.h"
#include "real.h"
#include "report.h"
#include "revoke.h"
#include "task.h"

extern "C" CUresult cuCtxSynchronize(void);

namespace lazy {

// serves_here: the calling thread's context is on the granted device, and what is allocated there
// can move.
static bool serves_here()
{
	CUcontext context = nullptr;
	CUdevice on = -1;

	return movable() && has_runtime() && !being_captured() && driver() != nullptr &&
	       driver()->get_current(&context) == CUDA_SUCCESS && context != nullptr &&
	       driver()->current_device(&on) == CUDA_SUCCESS && on == home();
}

bool driver_allocates(const char *call, CUdeviceptr *memory, size_t bytes, CUresult *result)
{
	if (memory == nullptr || bytes == 0 || !serves_here())
		return false;
	Task &task = Task::process();
	void *made = nullptr;
	*result = CUDA_SUCCESS;
	drop_reached();
	if (!allocate_beside(bytes, &made)) {
		*result = result_of(task.await_charge(call, backing_of(bytes)));
		if (*result != CUDA_SUCCESS) // and reported
			return true;
		*result = allocate_backed(bytes, home(), &made);
		if (*result != CUDA_SUCCESS) {
			task.take_back(backing_of(bytes));
			seen(*result, call);
			return true;
		}
	}
	*memory = reinterpret_cast<CUdeviceptr>(made);
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
		postpone([at] { drop(at); });
		return true;
	}
	if (free.ordered && free_in_order(at, free.stream, own)) {
		drop_reached();
		await_end("cuMemFreeAsync");
		return true;
	}
	*result = await_rest([] { return REAL_DRIVER(cuCtxSynchronize)(); }); // kernels may still use it, and cuMemFree waits
	drop(at);
	return true;
}

} // namespace lazy

using namespace lazy;

// The driver knows mappings, and the program knows allocations.
enum { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11, CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12 };

static void correct(int attribute, void *value, CUdeviceptr address)
{
	uintptr_t base = 0;
	size_t bytes = 0;

	if (value == nullptr || (attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE) ||
	    !allocation_at(reinterpret_cast<void *>(address), &base, &bytes))
		return;
	if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
		*static_cast<CUdeviceptr *>(value) = base;
	else
		*static_cast<size_t *>(value) = bytes;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	const auto real = REAL_DRIVER(cuMemGetInfo_v2);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(free, total);
	if (result == CUDA_SUCCESS && free != nullptr && total != nullptr && can_be_revoked())
		*free = free_beside(*total);
	return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuMemGetAddressRange_v2);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(base, bytes, address);
	if (result == CUDA_SUCCESS) {
		correct(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base, address);
		correct(CU_POINTER_ATTRIBUTE_RANGE_SIZE, bytes, address);
	}
	return result;
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuPointerGetAttribute);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(value, attribute, address);
	if (result == CUDA_SUCCESS)
		correct(attribute, value, address);
	return result;
}

CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address)
{
	const auto real = REAL_DRIVER(cuPointerGetAttributes);
	if (real == nullptr)
		return CUDA_ERROR_NOT_FOUND;
	const CUresult result = real(count, attributes, values, address);
	for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
		correct(attributes[i], values[i], address);
	return result;
}
