// runtime_memory.cc: allocations, pools, arrays and symbols.
#include "runtime_memory.h"

namespace fake {

static constexpr size_t pitch_of(size_t width) { return (width + 511) / 512 * 512; }

static int device_memory(void **out, size_t bytes)
{
	CUdeviceptr address = 0;
	if (out == nullptr)
		return cudaErrorInvalidValue;
	int error = driver().allocate(&address, bytes);

	if (error == 0)
		*out = reinterpret_cast<void *>(address);
	return error;
}

static int release(void *memory)
{
	return memory == nullptr ? 0 : driver().release(reinterpret_cast<CUdeviceptr>(memory));
}

// ---- arrays

static auto &arrays = *new std::set<Array *>;

Array *array_of(cudaArray_t handle)
{
	Array *a = reinterpret_cast<Array *>(handle);
	return arrays.count(a) != 0 ? a : nullptr;
}

static int make_array(cudaArray_t *out, const cudaChannelFormatDesc *desc, cudaExtent extent)
{
	const size_t element = static_cast<size_t>(desc->x + desc->y + desc->z + desc->w) / 8;
	Array a = {nullptr, element, extent.width * element, extent.height ? extent.height : 1, extent.depth ?
	           extent.depth : 1};
	int error = device_memory(&a.memory, a.width * a.height * a.depth);

	if (error == 0) {
		*out = reinterpret_cast<cudaArray_t>(*arrays.insert(new Array(a)).first);
	}
	return error;
}

} // namespace fake

using namespace fake;

API cudaError_t cudaMalloc(void **out, size_t bytes)
{
	return call("cudaMalloc", Needs::context, [&] { return device_memory(out, bytes); }, bytes);
}

API cudaError_t cudaFree(void *memory)
{
	return call("cudaFree", Needs::context, [&] { return release(memory); }, memory);
}

API cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
	return call("cudaMallocPitch", Needs::context, [&] {
		*pitch = pitch_of(width);
		return device_memory(out, *pitch * height);
	}, width, height);
}

API cudaError_t cudaMalloc3D(cudaPitchedPtr *out, cudaExtent extent)
{
	return call("cudaMalloc3D", Needs::context, [&] {
		*out = {nullptr, pitch_of(extent.width), extent.width, extent.height};
		return device_memory(&out->ptr, out->pitch * extent.height * extent.depth);
	}, extent.width, extent.height, extent.depth);
}

API cudaError_t cudaMallocArray(cudaArray_t *out, const cudaChannelFormatDesc *desc, size_t width, size_t height,
                                unsigned)
{
	return call("cudaMallocArray", Needs::context, [&] {
		return make_array(out, desc, {width, height, 0});
	}, width, height);
}

API cudaError_t cudaMalloc3DArray(cudaArray_t *out, const cudaChannelFormatDesc *desc, cudaExtent extent, unsigned)
{
	return call("cudaMalloc3DArray", Needs::context, [&] {
		return make_array(out, desc, extent);
	}, extent.width, extent.height, extent.depth);
}

API cudaError_t cudaFreeArray(cudaArray_t handle)
{
	return call("cudaFreeArray", Needs::context, [&] {
		Array *a = array_of(handle);
		if (a == nullptr)
			return handle == nullptr ? 0 : node()->violation("cudaFreeArray of no array");
		arrays.erase(a);
		int error = release(a->memory);
		delete a;
		return error;
	}, handle);
}

API cudaError_t cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements *out, cudaArray_t handle, int device)
{
	return call("cudaArrayGetMemoryRequirements", Needs::context, [&]() -> int {
		const Array *a = array_of(handle);
		if (a == nullptr)
			return node()->violation("cudaArrayGetMemoryRequirements of no array");
		if (node()->find(a->memory)->device != device)
			return cudaErrorInvalidDevice;
		*out = {a->width * a->height * a->depth, 512, {}};
		return 0;
	}, device);
}

API cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned)
{
	return call("cudaMallocManaged", Needs::context, [&] {
		return node()->allocate(Segment::managed, self().device, bytes, out);
	}, bytes);
}

// ---- pinned host memory

API cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
	return call("cudaHostAlloc", Needs::context, [&] {
		return node()->allocate(Segment::pinned, self().device, bytes, out);
	}, bytes);
}

API cudaError_t cudaMallocHost(void **out, size_t bytes)
{
	return call("cudaMallocHost", Needs::context, [&] {
		return node()->allocate(Segment::pinned, self().device, bytes, out);
	}, bytes);
}

API cudaError_t cudaFreeHost(void *memory)
{
	return call("cudaFreeHost", Needs::context, [&] {
		node()->drain(self().device);
		return memory == nullptr ? 0 : node()->release(memory, {Segment::pinned});
	}, memory);
}

API cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
	return call("cudaHostRegister", Needs::context, [&] {
		return node()->adopt_host(memory, bytes, self().device);
	}, memory, bytes);
}

API cudaError_t cudaHostUnregister(void *memory)
{
	return call("cudaHostUnregister", Needs::context, [&] {
		node()->drain(self().device);
		// cudaErrorHostMemoryNotRegistered
		return node()->release(memory, {Segment::registered}) == 0 ? 0 : 713;
	}, memory);
}

API cudaError_t cudaHostGetDevicePointer(void **out, void *memory, unsigned)
{
	return call("cudaHostGetDevicePointer", Needs::context, [&] {
		*out = memory;
		return node()->find(memory) != nullptr ? 0 : cudaErrorInvalidValue;
	}, memory);
}

API cudaError_t cudaHostGetFlags(unsigned *flags, void *memory)
{
	return call("cudaHostGetFlags", Needs::context, [&] {
		*flags = 0;
		return node()->find(memory) != nullptr ? 0 : cudaErrorInvalidValue;
	}, memory);
}

// ---- stream-ordered memory: made at once, freed in order

static int allocate_async(void **out, size_t bytes, Pool *pool, cudaStream_t handle)
{
	Stream *s;
	int error = node()->stream(handle, self().device, &s);
	return error != 0 ? error : node()->draw(pool, bytes, out);
}

API cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
	return call("cudaMallocAsync", Needs::context, [&] {
		return allocate_async(out, bytes, node()->current_pool(self().device), stream);
	}, bytes, stream);
}

API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t handle, cudaStream_t stream)
{
	return call("cudaMallocFromPoolAsync", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		return error != 0 ? error : allocate_async(out, bytes, pool, stream);
	}, bytes, handle, stream);
}

API cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	return call("cudaFreeAsync", Needs::context, [&] {
		Stream *s;
		int error = node()->stream(stream, self().device, &s);
		if (error == 0 && node()->find(memory) == nullptr)
			error = cudaErrorInvalidValue;
		if (error == 0 && s->capture != nullptr)
			s->capture->owned.push_back(memory);
		else if (error == 0)
			node()->submit(s, [memory] { return node()->release(memory, {Segment::device_memory}); });
		return error;
	}, memory, stream);
}

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device)
{
	return call("cudaDeviceGetDefaultMemPool", Needs::context, [&] {
		*out = reinterpret_cast<cudaMemPool_t>(node()->default_pool(device));
		return 0;
	}, device);
}

API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *out, int device)
{
	return call("cudaDeviceGetMemPool", Needs::context, [&] {
		*out = reinterpret_cast<cudaMemPool_t>(node()->current_pool(device));
		return 0;
	}, device);
}

API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle)
{
	return call("cudaDeviceSetMemPool", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		if (error == 0)
			node()->choose_pool(device, pool);
		return error;
	}, device, handle);
}

API cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *props)
{
	return call("cudaMemPoolCreate", Needs::context, [&]() -> int {
		if (int error = is_place(props->location); error != 0)
			return error;
		*out = reinterpret_cast<cudaMemPool_t>(node()->make_pool(props->location.id));
		return 0;
	}, props->location.type, props->location.id);
}

API cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle)
{
	return call("cudaMemPoolDestroy", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		return error == 0 ? node()->end_pool(pool) : error;
	}, handle);
}

#define POOL_CALL(name, ...)                                                                    \
	API cudaError_t name(cudaMemPool_t handle, ##__VA_ARGS__)                               \
	{                                                                                       \
		return call(#name, Needs::context, [&] { Pool *pool; return node()->pool(handle, &pool); }, handle); \
	}
POOL_CALL(cudaMemPoolSetAccess, const void *, size_t)

API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, int attribute, void *value)
{
	return call("cudaMemPoolSetAttribute", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		return error != 0 ? error : node()->attribute(pool, attribute, value, true);
	}, handle, attribute);
}

API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep)
{
	return call("cudaMemPoolTrimTo", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		if (error == 0)
			node()->trim(pool, keep);
		return error;
	}, handle, keep);
}

API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, int attribute, void *value)
{
	return call("cudaMemPoolGetAttribute", Needs::context, [&] {
		Pool *pool;
		int error = node()->pool(handle, &pool);
		if (error == 0 && attribute == cudaMemPoolAttrLocationId)
			*static_cast<int *>(value) = pool->device;
		else if (error == 0 && attribute == cudaMemPoolAttrLocationType)
			*static_cast<int *>(value) = CU_MEM_LOCATION_TYPE_DEVICE;
		else if (error == 0)
			error = node()->attribute(pool, attribute, value, false);
		return error;
	}, handle, attribute);
}

// ---- questions about memory

API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	return call("cudaMemGetInfo", Needs::context, [&] {
		*free_bytes = here().total - here().used;
		*total = here().total;
		return 0;
	});
}

API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *address)
{
	return call("cudaPointerGetAttributes", Needs::context, [&] {
		const Segment *s = node()->find(address);
		void *p = const_cast<void *>(address);
		*out = {cudaMemoryTypeUnregistered, -2, nullptr, p}; // cudaInvalidDeviceId
		if (s != nullptr && s->device == the_host)
			*out = {cudaMemoryTypeHost, 0, p, p};
		else if (s != nullptr && s->on_device())
			*out = {cudaMemoryTypeDevice, s->device, p, nullptr};
		else if (s != nullptr)
			*out = {s->kind == Segment::managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost, s->device,
			        p, p};
		return 0;
	}, address);
}

API cudaError_t cudaGetSymbolAddress(void **out, const void *symbol)
{
	return call("cudaGetSymbolAddress", Needs::context, [&] {
		size_t bytes;
		return node()->variable(symbol, self().device, out, &bytes);
	}, symbol);
}

API cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
	return call("cudaGetSymbolSize", Needs::context, [&] {
		void *address;
		return node()->variable(symbol, self().device, &address, bytes);
	}, symbol);
}

// A texture is its number; kernels of the host do not sample.
static unsigned long long textures = 1;

API cudaError_t cudaCreateTextureObject(unsigned long long *out, const void *, const void *, const void *)
{
	return call("cudaCreateTextureObject", Needs::context, [&] { *out = textures++; return 0; });
}

API cudaError_t cudaDestroyTextureObject(unsigned long long texture)
{
	return call("cudaDestroyTextureObject", Needs::context, [] { return 0; }, texture);
}
