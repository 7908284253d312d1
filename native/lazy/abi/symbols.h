// symbols.h: the functions behind this library: the CUDA runtime that the program
// is linked with, and the driver.
#ifndef CASE_LAZY_SYMBOLS_H
#define CASE_LAZY_SYMBOLS_H

#include "abi.h"

#define CASE_API extern "C" __attribute__((visibility("default")))

namespace lazy {

// dlsym as libc has it, not as driver/context_gate.cc overrides it.
void *real_dlsym(void *handle, const char *name);
using VersionFinder = void *(*)(void *handle, const char *name, const char *version);
VersionFinder real_dlvsym();

// names_runtime: the file is a shared CUDA runtime, also one that is packed with a program
// (libcudart-d0da41ae.so.11.0, as auditwheel renames it).
bool names_runtime(const char *path);

// runtime_13: the loaded CUDA runtime is of version 13 or later, where some functions have other
// parameters (runtime/forward.cc).
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
	bool asks;           // for tasks itself (probe/case.h)
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

// The driver's symbol, or nullptr.
void *driver_symbol(const char *name);

// REAL_DRIVER(cuCtxCreate_v2) is the driver's own function.
#define REAL_DRIVER(name)                                                     \
	([]() -> decltype(&::name) {                                          \
		static void *const found = ::lazy::driver_symbol(#name);      \
		return reinterpret_cast<decltype(&::name)>(found);            \
	}())

// result_of gives an error of the runtime as the driver would. The numbers are the same, except some
// below 100 that only the runtime has.
inline CUresult result_of(cudaError_t error)
{
	return error >= 100 || error <= cudaErrorMemoryAllocation || error == cudaErrorDevicesUnavailable
	               ? error
	               : CUDA_ERROR_UNKNOWN;
}

} // namespace lazy
#endif
