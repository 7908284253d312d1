// 3d.cc: copies and sets of boxes, which a structure or a pitched pointer describes.
#include "abi/api.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "task/direct.h"
#include "task/report.h"

namespace lazy {
namespace {

// element is what a copy's width counts, in bytes: the elements of an array, if there is one.
size_t element(cudaArray_t array)
{
	cudaChannelFormatDesc format = {};

	if (array == nullptr || REAL(cudaArrayGetInfo)(&format, nullptr, nullptr, array) != cudaSuccess)
		return 1;
	return static_cast<size_t>(format.x + format.y + format.z + format.w) / 8;
}

// leaves_memory: a side of the copy is not inside one allocation.
template <typename Parameters> bool leaves_memory(const Parameters &p)
{
	cudaExtent box = p.extent;

	box.width *= element(p.srcArray != nullptr ? p.srcArray : p.dstArray);
	return (p.srcArray == nullptr && out_of_bounds(p.srcPtr, p.srcPos, box)) ||
	       (p.dstArray == nullptr && out_of_bounds(p.dstPtr, p.dstPos, box));
}

template <typename Copy> cudaError_t copy_box(const char *call, const cudaMemcpy3DParms *given, Copy copy)
{
	return direct(call, [=] {
		return given != nullptr && leaves_memory(*given) ? fail(cudaErrorInvalidValue) : copy();
	});
}

template <typename Copy> cudaError_t peer_copy(const char *call, const cudaMemcpy3DPeerParms *given, Copy copy)
{
	return direct(call, [=] {
		if (given == nullptr)
			return copy(given);
		if (leaves_memory(*given))
			return fail(cudaErrorInvalidValue);
		cudaMemcpy3DPeerParms there = *given;
		there.srcDevice = visible_to_real(given->srcDevice);
		there.dstDevice = visible_to_real(given->dstDevice);
		return copy(&there);
	});
}

template <typename Set>
cudaError_t set_box(const char *call, const cudaPitchedPtr &to, const cudaExtent &box, Set set)
{
	return direct(call, [&] { return out_of_bounds(to, {}, box) ? fail(cudaErrorInvalidValue) : set(); });
}

} // namespace
} // namespace lazy

using namespace lazy;

#define MEMCPY_3D(name)                                                                                                \
	cudaError_t name(const cudaMemcpy3DParms *copy)                                                                \
	{                                                                                                              \
		return copy_box("cudaMemcpy3D", copy, [=] { return REAL(name)(copy); });                               \
	}
MEMCPY_3D(cudaMemcpy3D)
MEMCPY_3D(cudaMemcpy3D_ptds)

#define MEMCPY_3D_ASYNC(name)                                                                                          \
	cudaError_t name(const cudaMemcpy3DParms *copy, cudaStream_t stream)                                           \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return copy_box("cudaMemcpy3DAsync", copy, [=] { return REAL(name)(copy, real(stream)); });            \
	}
MEMCPY_3D_ASYNC(cudaMemcpy3DAsync)
MEMCPY_3D_ASYNC(cudaMemcpy3DAsync_ptsz)

#define MEMCPY_3D_PEER(name)                                                                                           \
	cudaError_t name(const cudaMemcpy3DPeerParms *copy)                                                            \
	{                                                                                                              \
		return peer_copy("cudaMemcpy3DPeer", copy,                                                             \
		                 [](const cudaMemcpy3DPeerParms *there) { return REAL(name)(there); });                \
	}
MEMCPY_3D_PEER(cudaMemcpy3DPeer)
MEMCPY_3D_PEER(cudaMemcpy3DPeer_ptds)

#define MEMCPY_3D_PEER_ASYNC(name)                                                                                     \
	cudaError_t name(const cudaMemcpy3DPeerParms *copy, cudaStream_t stream)                                       \
	{                                                                                                              \
		return peer_copy("cudaMemcpy3DPeerAsync", copy, [=](const cudaMemcpy3DPeerParms *there) {              \
			return REAL(name)(there, real(stream));                                                        \
		});                                                                                                    \
	}
MEMCPY_3D_PEER_ASYNC(cudaMemcpy3DPeerAsync)
MEMCPY_3D_PEER_ASYNC(cudaMemcpy3DPeerAsync_ptsz)

#define MEMSET_3D(name)                                                                                                \
	cudaError_t name(cudaPitchedPtr to, int value, cudaExtent box)                                                 \
	{                                                                                                              \
		return set_box("cudaMemset3D", to, box, [=] { return REAL(name)(to, value, box); });                   \
	}
MEMSET_3D(cudaMemset3D)
MEMSET_3D(cudaMemset3D_ptds)

#define MEMSET_3D_ASYNC(name)                                                                                          \
	cudaError_t name(cudaPitchedPtr to, int value, cudaExtent box, cudaStream_t stream)                            \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return set_box("cudaMemset3DAsync", to, box, [=] { return REAL(name)(to, value, box, real(stream)); });\
	}
MEMSET_3D_ASYNC(cudaMemset3DAsync)
MEMSET_3D_ASYNC(cudaMemset3DAsync_ptsz)
