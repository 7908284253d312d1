// batch.cc: copies and prefetches whose structures say where memory is. They
// came with CUDA 12.8 and later, so the device is needed at once.
#include <vector>

#include "abi/api.h"
#include "abi/symbols.h"
#include "device/handles.h"
#include "launch/work.h"
#include "memory/memory.h"
#include "task/direct.h"
#include "task/report.h"

// Before CUDA 13 both have failIdx, which they write: the first before its stream, the
// second before its flags. Since then what follows is one parameter earlier.

namespace lazy {
namespace {

using lazy::translate;

void translate(cudaMemcpyAttributes *a)
{
	translate(&a->srcLocHint);
	translate(&a->dstLocHint);
}

void translate(cudaMemcpy3DBatchOp *copy)
{
	for (cudaMemcpy3DOperand *side : {&copy->src, &copy->dst})
		if (side->type == cudaMemcpyOperandTypePointer)
			translate(&side->op.ptr.locHint);
}

// with_real runs a call that reads `count` structures, which the program keeps.
template <typename T, typename Run> cudaError_t with_real(const char *call, const T *given, size_t count, Run run)
{
	return direct(call, [&] {
		std::vector<T> there(given, given != nullptr ? given + count : given);
		for (T &one : there)
			translate(&one);
		working();
		return run(there.empty() ? given : there.data());
	});
}

bool leaves_memory(const cudaMemcpy3DBatchOp &copy)
{
	for (const cudaMemcpy3DOperand *side : {&copy.src, &copy.dst}) {
		const auto &p = side->op.ptr; // zero: as the box
		const size_t pitch = p.rowLength > 0 ? p.rowLength : copy.extent.width;
		const size_t height = p.layerHeight > 0 ? p.layerHeight : copy.extent.height;
		if (side->type == cudaMemcpyOperandTypePointer && out_of_bounds({p.ptr, pitch, pitch, height}, {}, copy.extent))
			return true;
	}
	return false;
}

// refused is a batch's answer where its copy `index` leaves an allocation. Before CUDA 13
// it also says which.
cudaError_t refused(size_t index, void *fail_index)
{
	if (!runtime_13() && fail_index != nullptr)
		*static_cast<size_t *>(fail_index) = index;
	return fail(cudaErrorInvalidValue);
}

} // namespace
} // namespace lazy

using namespace lazy;

#define MEMCPY_BATCH(name)                                                                                             \
	cudaError_t name(const void **to, const void **from, const size_t *bytes, size_t count,                        \
	                 const cudaMemcpyAttributes *attributes, size_t *first, size_t attribute_count, void *eighth,  \
	                 void *ninth)                                                                                  \
	{                                                                                                              \
		return with_real("cudaMemcpyBatchAsync", attributes, attribute_count,                                  \
		                 [=](const cudaMemcpyAttributes *there) {                                              \
			                 for (size_t i = 0; i < count; i++)                                            \
				                 if (out_of_bounds(to[i], bytes[i]) || out_of_bounds(from[i], bytes[i]))             \
					                 return refused(i, eighth);                                    \
			                 return REAL(name)(to, from, bytes, count, there, first, attribute_count,      \
			                                   real_handle(eighth),                                        \
			                                   runtime_13() ? nullptr : real_handle(ninth));               \
		                 });                                                                                   \
	}
MEMCPY_BATCH(cudaMemcpyBatchAsync)
MEMCPY_BATCH(cudaMemcpyBatchAsync_ptsz)

#define MEMCPY_3D_BATCH(name)                                                                                          \
	cudaError_t name(size_t count, const cudaMemcpy3DBatchOp *copies, void *third, void *fourth, void *fifth)      \
	{                                                                                                              \
		return with_real("cudaMemcpy3DBatchAsync", copies, count, [=](const cudaMemcpy3DBatchOp *there) {      \
			for (size_t i = 0; i < count; i++)                                                             \
				if (leaves_memory(copies[i]))                                                          \
					return refused(i, third);                                                      \
			return REAL(name)(count, there, third, real_handle(fourth),                                    \
			                  runtime_13() ? nullptr : real_handle(fifth));                                \
		});                                                                                                    \
	}
MEMCPY_3D_BATCH(cudaMemcpy3DBatchAsync)
MEMCPY_3D_BATCH(cudaMemcpy3DBatchAsync_ptsz)

#define MEMCPY_WITH_ATTRIBUTES(name)                                                                                   \
	cudaError_t name(void *to, const void *from, size_t bytes, const cudaMemcpyAttributes *attributes,             \
	                 cudaStream_t stream)                                                                          \
	{                                                                                                              \
		return with_real("cudaMemcpyWithAttributesAsync", attributes, 1,                                       \
		                 [=](const cudaMemcpyAttributes *there) {                                              \
			                 if (out_of_bounds(to, bytes) || out_of_bounds(from, bytes))                                 \
				                 return fail(cudaErrorInvalidValue);                                   \
			                 return REAL(name)(to, from, bytes, there, real(stream));                      \
		                 });                                                                                   \
	}
MEMCPY_WITH_ATTRIBUTES(cudaMemcpyWithAttributesAsync)
MEMCPY_WITH_ATTRIBUTES(cudaMemcpyWithAttributesAsync_ptsz)

#define MEMCPY_3D_WITH_ATTRIBUTES(name)                                                                                \
	cudaError_t name(const cudaMemcpy3DBatchOp *copy, unsigned long long flags, cudaStream_t stream)               \
	{                                                                                                              \
		return with_real("cudaMemcpy3DWithAttributesAsync", copy, 1, [=](const cudaMemcpy3DBatchOp *there) {   \
			if (copy != nullptr && leaves_memory(*copy))                                                   \
				return fail(cudaErrorInvalidValue);                                                    \
			return REAL(name)(there, flags, real(stream));                                                 \
		});                                                                                                    \
	}
MEMCPY_3D_WITH_ATTRIBUTES(cudaMemcpy3DWithAttributesAsync)
MEMCPY_3D_WITH_ATTRIBUTES(cudaMemcpy3DWithAttributesAsync_ptsz)

#define PREFETCH_BATCH(name)                                                                                           \
	cudaError_t name(void **memory, size_t *bytes, size_t count, const CUmemLocation *to, size_t *first,           \
	                 size_t location_count, unsigned long long flags, cudaStream_t stream)                         \
	{                                                                                                              \
		return with_real("cudaMemPrefetchBatchAsync", to, location_count, [=](const CUmemLocation *there) {    \
			return REAL(name)(memory, bytes, count, there, first, location_count, flags, real(stream));    \
		});                                                                                                    \
	}
PREFETCH_BATCH(cudaMemPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync_ptsz)
