// api.h: prototypes of the CUDA runtime's functions that this library overrides, or calls though it forwards them
// (native/calls). Functions whose parameters differ between versions are overridden with those of all versions, or
// forwarded by register (runtime/forward.cc).
#ifndef CASE_LAZY_API_H
#define CASE_LAZY_API_H

#include "calls/runtime_api.h"

#endif
