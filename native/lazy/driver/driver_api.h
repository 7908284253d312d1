// driver_api.h: prototypes of the driver's functions that this library overrides (native/calls).
#ifndef CASE_LAZY_DRIVER_API_H
#define CASE_LAZY_DRIVER_API_H

#include "abi/abi.h"

// The first fields of a launch's description (cuda.h).
struct CUlaunchConfig {
	unsigned grid[3], block[3], shared;
	cudaStream_t stream;
};

#include "calls/driver_api.h"

#endif
