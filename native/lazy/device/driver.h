// driver.h: the driver's calls for memory and contexts (driver.cc).
#ifndef CASE_LAZY_DRIVER_H
#define CASE_LAZY_DRIVER_H

#include "abi/abi.h"

namespace lazy {

// The driver calls that put memory behind reserved addresses, and those about the
// thread's context. Each is safe to call before any context exists, except where
// CUDA's manual says otherwise.
struct Driver {
	CUresult (*device_count)(int *count);
	CUresult (*device_total_memory)(size_t *bytes, CUdevice device);
	CUresult (*granularity)(size_t *bytes, const CUmemAllocationProp *prop, int option);
	CUresult (*reserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
	                    unsigned long long flags);
	CUresult (*unreserve)(CUdeviceptr address, size_t bytes);
	CUresult (*create)(CUmemGenericAllocationHandle *memory, size_t bytes, const CUmemAllocationProp *prop,
	                   unsigned long long flags);
	CUresult (*release)(CUmemGenericAllocationHandle memory);
	CUresult (*map)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory,
	                unsigned long long flags);
	CUresult (*unmap)(CUdeviceptr address, size_t bytes);
	CUresult (*set_access)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count);
	CUresult (*get_current)(CUcontext *context);
	CUresult (*set_current)(CUcontext context);
	CUresult (*current_device)(CUdevice *device);
};

// The initialized driver, or nullptr where it is absent, older than these
// calls, has no device, or must not start yet (awaits_device).
const Driver *driver();

} // namespace lazy
#endif
