// overrides.h: the overrides of functions that the program looks up (driver_calls.cc, nvml.cc).
#ifndef CASE_LAZY_OVERRIDES_H
#define CASE_LAZY_OVERRIDES_H

#include "abi/abi.h"

namespace lazy {

// driver_call is the override of a driver function that reports errors (native/calls/cuda.calls). A
// function without an override stays `found`. The function is named by its symbol, or as cuGetProcAddress
// is asked for it: for a version of CUDA, with flags, and by which caller.
void *driver_call(const char *symbol, void *found);
void *driver_call(const char *name, int version, uint64_t flags, void *found, const void *caller);

// counts_devices: NVML's function of that name is overridden; instead_of keeps the
// function that was found, and returns the override (nvml.cc).
bool counts_devices(const char *name);
void *instead_of(void *found, const char *name);

} // namespace lazy
#endif
