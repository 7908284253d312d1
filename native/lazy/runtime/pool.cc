// pool.cc: memory pools, whose devices are inside structures, and the device
// that a stream or an execution context is on.
#include <atomic>
#include <vector>

#include "abi/api.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/pools.h"
#include "task/report.h"
#include "task/task.h"
#include "pool.h"

using namespace lazy;

static std::atomic<bool> chosen{false}; // the program has chosen a pool

bool lazy::has_own_pool()
{
	cudaMemPool_t here = nullptr, usual = nullptr;

	return chosen && one_device() && has_context() && REAL(cudaDeviceGetMemPool)(&here, home()) == cudaSuccess &&
	       REAL(cudaDeviceGetDefaultMemPool)(&usual, home()) == cudaSuccess && here != usual;
}

namespace {

// with_real runs a call that reads *location, which the program keeps.
template <typename Run> cudaError_t with_real(const char *call, const CUmemLocation *location, Run run)
{
	if (location == nullptr)
		return direct_kept(call, [&] { return run(nullptr); });
	return direct_kept(call, [&] {
		CUmemLocation there = *location;
		translate(&there);
		return run(&there);
	});
}

} // namespace

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *props)
{
	return direct_kept("cudaMemPoolCreate", [=] {
		if (props == nullptr)
			return REAL(cudaMemPoolCreate)(pool, props);
		cudaMemPoolProps there = *props;
		translate(&there.location);
		const cudaError_t error = REAL(cudaMemPoolCreate)(pool, &there);
		if (error == cudaSuccess && there.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			pool_is_elsewhere(*pool);
		return error;
	});
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const CUmemAccessDesc *access, size_t count)
{
	return direct_kept("cudaMemPoolSetAccess", [=] {
		std::vector<CUmemAccessDesc> there(access, access + count);
		for (CUmemAccessDesc &a : there)
			translate(&a.location);
		return REAL(cudaMemPoolSetAccess)(pool, there.data(), count);
	});
}

cudaError_t cudaMemPoolGetAccess(int *flags, cudaMemPool_t pool, CUmemLocation *location)
{
	return with_real("cudaMemPoolGetAccess", location,
	                 [=](CUmemLocation *there) { return REAL(cudaMemPoolGetAccess)(flags, pool, there); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	tie_here(Tie::pool, "cudaMemPoolDestroy");
	cudaError_t error = await_context();
	if (error != cudaSuccess)
		return error;
	return seen(destroy_pool(pool, [=] { return REAL(cudaMemPoolDestroy)(pool); }), "cudaMemPoolDestroy");
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *value)
{
	return direct_kept("cudaMemPoolGetAttribute", [=] {
		CUmemLocation at = {};
		cudaError_t error = REAL(cudaMemPoolGetAttribute)(pool, attribute, value);
		if (error != cudaSuccess || attribute != cudaMemPoolAttrLocationId ||
		    REAL(cudaMemPoolGetAttribute)(pool, cudaMemPoolAttrLocationType, &at.type) != cudaSuccess)
			return error;
		at.id = *static_cast<int *>(value);
		show(&at);
		*static_cast<int *>(value) = at.id;
		return error;
	});
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, CUmemLocation *location, int type)
{
	return with_real("cudaMemGetDefaultMemPool", location,
	                 [=](CUmemLocation *there) { return REAL(cudaMemGetDefaultMemPool)(pool, there, type); });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, CUmemLocation *location, int type)
{
	return with_real("cudaMemGetMemPool", location,
	                 [=](CUmemLocation *there) { return REAL(cudaMemGetMemPool)(pool, there, type); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	return direct_kept("cudaDeviceSetMemPool", [=] {
		cudaError_t error = REAL(cudaDeviceSetMemPool)(visible_to_real(device), pool);
		if (error == cudaSuccess)
			chosen = true;
		return error;
	});
}

cudaError_t cudaMemSetMemPool(CUmemLocation *location, int type, cudaMemPool_t pool)
{
	chosen = true;
	return with_real("cudaMemSetMemPool", location,
	                 [=](CUmemLocation *there) { return REAL(cudaMemSetMemPool)(there, type, pool); });
}

#define STREAM_GET_DEVICE(name)                                                \
	cudaError_t name(cudaStream_t stream, int *device)                     \
	{                                                                      \
		return direct_kept("cudaStreamGetDevice", [=] {                     \
			cudaError_t error = REAL(name)(real(stream), device);  \
			if (error == cudaSuccess)                              \
				*device = real_to_visible(*device);            \
			return error;                                          \
		});                                                            \
	}
STREAM_GET_DEVICE(cudaStreamGetDevice)
STREAM_GET_DEVICE(cudaStreamGetDevice_ptsz)

cudaError_t cudaExecutionCtxGetDevice(int *device, void *context)
{
	return direct_kept("cudaExecutionCtxGetDevice", [=] {
		cudaError_t error = REAL(cudaExecutionCtxGetDevice)(device, context);
		if (error == cudaSuccess)
			*device = real_to_visible(*device);
		return error;
	});
}
