// calls_pool.cc: calls that name devices inside structures.
#include "api.h"
#include "runtime.h"

namespace {

struct PoolProps { // cudaMemPoolProps
	int type, handles;
	CUmemLocation location;
	unsigned char rest[72];
};
static_assert(sizeof(PoolProps) == 88, "cudaMemPoolProps");

struct AllocNodeParams { // cudaMemAllocNodeParams
	PoolProps pool;
	CUmemAccessDesc *access;
	size_t count, bytes;
	void *memory;
};

} // namespace

CASE_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const PoolProps *props);
CASE_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const CUmemAccessDesc *access, size_t count);
CASE_API cudaError_t cudaMemPoolGetAccess(int *flags, cudaMemPool_t pool, CUmemLocation *location);
CASE_API cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, CUmemLocation *location, int type);
CASE_API cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, CUmemLocation *location, int type);
CASE_API cudaError_t cudaMemSetMemPool(CUmemLocation *location, int type, cudaMemPool_t pool);
CASE_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                              size_t count, AllocNodeParams *params);
WITH_PTSZ(cudaStreamGetDevice, cudaStream_t stream, int *device);

using namespace lazy;

namespace {

void translate(CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		location->id = visible_to_real(location->id);
}

template <typename Run> cudaError_t direct(const char *call, Run run)
{
	keep_device();
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(run(), call) : error;
}

// with_real runs a call that reads *location, which the program keeps.
template <typename Run> cudaError_t with_real(const char *call, const CUmemLocation *location, Run run)
{
	if (location == nullptr)
		return direct(call, [&] { return run(nullptr); });
	return direct(call, [&] {
		CUmemLocation there = *location;
		translate(&there);
		return run(&there);
	});
}

} // namespace

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const PoolProps *props)
{
	return direct("cudaMemPoolCreate", [=] {
		if (props == nullptr)
			return REAL(cudaMemPoolCreate)(pool, props);
		PoolProps there = *props;
		translate(&there.location);
		return REAL(cudaMemPoolCreate)(pool, &there);
	});
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const CUmemAccessDesc *access, size_t count)
{
	return direct("cudaMemPoolSetAccess", [=] {
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

cudaError_t cudaMemSetMemPool(CUmemLocation *location, int type, cudaMemPool_t pool)
{
	return with_real("cudaMemSetMemPool", location,
	                 [=](CUmemLocation *there) { return REAL(cudaMemSetMemPool)(there, type, pool); });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t count, AllocNodeParams *params)
{
	return direct("cudaGraphAddMemAllocNode", [=] {
		if (params == nullptr)
			return REAL(cudaGraphAddMemAllocNode)(node, graph, after, count, params);
		AllocNodeParams there = *params;
		std::vector<CUmemAccessDesc> access(there.access, there.access + there.count);
		for (CUmemAccessDesc &a : access)
			translate(&a.location);
		translate(&there.pool.location);
		there.access = access.data();
		cudaError_t error = REAL(cudaGraphAddMemAllocNode)(node, graph, after, count, &there);
		params->memory = there.memory;
		return error;
	});
}

#define STREAM_GET_DEVICE(name)                                                \
	cudaError_t name(cudaStream_t stream, int *device)                     \
	{                                                                      \
		return direct("cudaStreamGetDevice", [=] {                     \
			cudaError_t error = REAL(name)(real(stream), device);  \
			if (error == cudaSuccess)                              \
				*device = real_to_visible(*device);            \
			return error;                                          \
		});                                                            \
	}
STREAM_GET_DEVICE(cudaStreamGetDevice)
STREAM_GET_DEVICE(cudaStreamGetDevice_ptsz)
