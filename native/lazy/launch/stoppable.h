// stoppable.h: which kernels may be stopped, and their launches (stoppable.cc, task/stop.h).
#ifndef CASE_LAZY_STOPPABLE_H
#define CASE_LAZY_STOPPABLE_H

#include <stddef.h>

#include "abi/abi.h"

namespace lazy {

// is_stop_variable: the variable is one with which a module says which of its kernels may be stopped (native/stop/case_stop.h).
// The program does not know it.
bool is_stop_variable(const char *name);

// kernels_may_stop: a module with such variables is there. Until then no launch costs more.
void kernels_may_stop();

// begin_launch is begin_stoppable for a launch of the CUDA runtime's, if its kernel may be stopped. The caller then calls
// launched_stoppable (task/stop.h).
bool begin_launch(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream, bool own);

} // namespace lazy
#endif
