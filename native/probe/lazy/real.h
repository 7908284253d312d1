// real.h: the functions behind this library: the CUDA runtime that the program
// is linked with, and the driver.
#ifndef CASE_LAZY_REAL_H
#define CASE_LAZY_REAL_H

#include "abi.h"

#define CASE_API extern "C" __attribute__((visibility("default")))

namespace lazy {

// dlsym as libc has it, not as gate.cc overrides it.
void *real_dlsym(void *handle, const char *name);

// The CUDA runtime's symbol. If there is no runtime, or the loaded runtime has no such symbol, it is
// a function that returns cudaErrorNotSupported: a program cannot have been linked with a function
// that its runtime lacks.
void *real_symbol(const char *name);

// names_runtime: the file is a shared CUDA runtime, also one that is packed with a program
// (libcudart-d0da41ae.so.11.0, as auditwheel renames it).
bool names_runtime(const char *path);

// runtime_13: the loaded CUDA runtime is of version 13 or later, where some functions have other
// parameters (forward.cc).
bool runtime_13();

// has_runtime: a shared CUDA runtime is loaded. Before that REAL must not be used, because REAL keeps
// what it finds first.
bool has_runtime();

// REAL(cudaFree)(p) calls the runtime's cudaFree. The name must be declared.
#define REAL(name)                                                            \
	([]() -> decltype(&::name) {                                          \
		static void *const found = ::lazy::real_symbol(#name);        \
		return reinterpret_cast<decltype(&::name)>(found);            \
	}())

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

// The driver's symbol, or nullptr.
void *driver_symbol(const char *name);

// REAL_DRIVER(cuCtxCreate_v2) is the driver's own function.
#define REAL_DRIVER(name)                                                     \
	([]() -> decltype(&::name) {                                          \
		static void *const found = ::lazy::driver_symbol(#name);      \
		return reinterpret_cast<decltype(&::name)>(found);            \
	}())

// init_driver is the driver's cuInit, and notes that it was called (confine.cc).
CUresult init_driver(unsigned flags);

// The initialized driver, or nullptr where it is absent, older than these
// calls, or has no device.
const Driver *driver();

} // namespace lazy
#endif
