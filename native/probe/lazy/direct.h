// direct.h: calls of the CUDA runtime that need the device at once.
#ifndef CASE_LAZY_DIRECT_H
#define CASE_LAZY_DIRECT_H

#include "runtime.h"

namespace lazy {

template <typename Run> cudaError_t direct(const char *call, Run run)
{
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(run(), call) : error;
}

// direct_kept is direct for what may leave state on the device.
template <typename Run> cudaError_t direct_kept(const char *call, Run run)
{
	keep_device();
	return direct(call, run);
}

inline void translate(CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		location->id = visible_to_real(location->id);
}

} // namespace lazy
#endif
