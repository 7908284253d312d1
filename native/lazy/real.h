// real.h: the functions behind this library: the CUDA runtime that the program
// is linked with, and the driver.
#ifndef CASE_LAZY_REAL_H
#define CASE_LAZY_REAL_H

#include "abi.h"

#define CASE_API extern "C" __attribute__((visibility("default")))

namespace lazy {

// dlsym as libc has it, not as gate.cc overrides it.
void *real_dlsym(void *handle, const char *name);

// names_runtime: the file is a shared CUDA runtime, also one that is packed with a program
// (libcudart-d0da41ae.so.11.0, as auditwheel renames it).
bool names_runtime(const char *path);

// runtime_13: the loaded CUDA runtime is of version 13 or later, where some functions have other
// parameters (forward.cc).
bool runtime_13();

// What follows differs between libcase.so, which serves the shared runtime that is loaded
// (preloaded.cc), and the library that casecc links into a program, which serves the program's own
// static runtime (../linked/linked.cc).

// real_symbol is a function of the CUDA runtime. Without a runtime, and for a function that the
// runtime lacks, it is `absent`, which returns cudaErrorNotSupported. No program calls that: it
// could not have been linked.
void *real_symbol(const char *name);
cudaError_t absent();

// has_runtime: there is a runtime. Before that REAL must not be used, because REAL keeps what it
// finds first.
bool has_runtime();

// in_runtime: the address is in the runtime.
bool in_runtime(const void *address);

// serves: calls of the CUDA runtime from an object come through this library. The object is the
// program, or needs a shared runtime.
bool serves(bool program, bool needs_shared);

// linked_program is what the linker has found out of the program that this library is linked into.
// The strings of such a program tell nothing, because they include the runtime's and the library's.
// nullptr: the library is preloaded.
struct LinkedProgram {
	bool reaches_driver; // past the runtime
	bool asks;           // for tasks itself (../case.h)
};
const LinkedProgram *linked_program();

// program_serves_itself: casecc has linked a lazy runtime into the program, and this copy of the
// library is not it.
bool program_serves_itself();

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
