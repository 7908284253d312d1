// runtime_batch.cc: copies in batches, with hints where the memory is. Before CUDA 13 the functions
// are those of CUDA 12.8. CUDA 11.8 does not have them.
#include "runtime_memory.h"

namespace fake {

static std::string place(CUmemLocation at) { return text(at.type) + ":" + text(at.id); }

static int check(const cudaMemcpyAttributes &a)
{
	int error = is_place(a.srcLocHint);
	return error == 0 ? is_place(a.dstLocHint) : error;
}

static cudaError_t batch(const char *name, const void **to, const void **from, const size_t *bytes, size_t count,
                         const cudaMemcpyAttributes *attributes, size_t kinds, cudaStream_t stream)
{
	std::string hints;
	for (size_t k = 0; k < kinds; k++)
		hints += (k == 0 ? "" : ",") + place(attributes[k].srcLocHint) + ">" + place(attributes[k].dstLocHint);
	return call(name, Needs::context, [&] {
		int error = 0;
		for (size_t k = 0; error == 0 && k < kinds; k++)
			error = check(attributes[k]);
		for (size_t i = 0; error == 0 && i < count; i++)
			error = transfer({static_cast<char *>(const_cast<void *>(to[i])), bytes[i], bytes[i],
			                  static_cast<const char *>(from[i]), bytes[i], bytes[i], bytes[i], 1, 1},
			                 cudaMemcpyDefault, stream, true);
		return error;
	}, count, hints.c_str());
}

// Elements are bytes: no array takes part.
static cudaError_t batch_3d(const char *name, size_t count, const cudaMemcpy3DBatchOp *copies, cudaStream_t stream)
{
	std::string hints;
	for (size_t i = 0; i < count; i++)
		hints += (i == 0 ? "" : ",") + place(copies[i].src.op.ptr.locHint) + ">" + place(copies[i].dst.op.ptr.locHint);
	return call(name, Needs::context, [&] {
		int error = 0;
		for (size_t i = 0; error == 0 && i < count; i++) {
			const auto &from = copies[i].src.op.ptr, &to = copies[i].dst.op.ptr;
			const cudaExtent &e = copies[i].extent;
			error = check({0, from.locHint, to.locHint, 0});
			if (error == 0)
				error = transfer({static_cast<char *>(to.ptr), to.rowLength, to.rowLength * to.layerHeight,
				                  static_cast<const char *>(from.ptr), from.rowLength,
				                  from.rowLength * from.layerHeight, e.width, e.height, e.depth},
				                 cudaMemcpyDefault, stream, true);
		}
		return error;
	}, count, hints.c_str());
}

} // namespace fake

using namespace fake;

#if FAKE_CUDART >= 13000
API cudaError_t cudaMemcpyBatchAsync(const void **to, const void **from, const size_t *bytes, size_t count,
                                     cudaMemcpyAttributes *attributes, size_t *, size_t kinds, cudaStream_t stream)
{
	return batch("cudaMemcpyBatchAsync", to, from, bytes, count, attributes, kinds, stream);
}

API cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp *copies, unsigned long long,
                                       cudaStream_t stream)
{
	return batch_3d("cudaMemcpy3DBatchAsync", count, copies, stream);
}

API cudaError_t cudaMemcpyWithAttributesAsync(void *to, const void *from, size_t bytes,
                                              cudaMemcpyAttributes *attributes, cudaStream_t stream)
{
	const void *into = to;
	return batch("cudaMemcpyWithAttributesAsync", &into, &from, &bytes, 1, attributes, 1, stream);
}

API cudaError_t cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp *copy, unsigned long long, cudaStream_t stream)
{
	return batch_3d("cudaMemcpy3DWithAttributesAsync", 1, copy, stream);
}
#else
API cudaError_t cudaMemcpyBatchAsync(const void **to, const void **from, const size_t *bytes, size_t count,
                                     cudaMemcpyAttributes *attributes, size_t *, size_t kinds, size_t *failed,
                                     cudaStream_t stream)
{
	cudaError_t error = batch("cudaMemcpyBatchAsync", to, from, bytes, count, attributes, kinds, stream);
	*failed = error == 0 ? count : 0;
	return error;
}

API cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp *copies, size_t *failed, unsigned long long,
                                       cudaStream_t stream)
{
	cudaError_t error = batch_3d("cudaMemcpy3DBatchAsync", count, copies, stream);
	*failed = error == 0 ? count : 0;
	return error;
}
#endif
