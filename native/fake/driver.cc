// driver.cc: libcuda.so.1. The CUDA driver API as far as the fake runtime, the
// lazy runtime and programs that make their own contexts call it.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"

using fake::arguments;
using fake::device_of;
using fake::machine;
using fake::Segment;

enum {
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12
};

#define API extern "C" __attribute__((visibility("default")))

namespace {

bool initialized;
// current is the thread's stack of contexts. It outlives the thread's destructors,
// which run before what atexit registered and may still call the driver.
std::vector<CUcontext> &current()
{
	static thread_local auto *const stack = new std::vector<CUcontext>;
	return *stack;
}

bool exists(CUdevice device) { return device >= 0 && static_cast<size_t>(device) < machine().devices.size(); }

// call does what each function has in common: the lock, the trace, the plan of
// failures, and initialization.
template <class F, class... A> CUresult call(const char *name, F body, const A &...a)
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	int error = machine().enter(name, arguments(a...));

	if (error == 0 && !initialized)
		error = 3; // CUDA_ERROR_NOT_INITIALIZED
	return error != 0 ? error : body();
}

// with_context is call for what needs a current context that has not failed.
template <class F, class... A> CUresult with_context(const char *name, F body, const A &...a)
{
	return call(name, [&]() -> CUresult {
		const CUcontext mine = machine().current();
		if (mine == nullptr)
			return 201; // CUDA_ERROR_INVALID_CONTEXT
		const int device = device_of(mine);
		const int fault = machine().devices[static_cast<size_t>(device)].fault;
		return fault != 0 ? fault : body(device);
	}, a...);
}

} // namespace

// A context that has been destroyed or reset does not count.
CUcontext fake::Machine::current()
{
	return ::current().empty() || !alive(::current().back()) ? nullptr : ::current().back();
}

API CUresult cuInit(unsigned flags)
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	int error = machine().enter("cuInit", arguments(flags));

	if (const char *slow = getenv("FAKE_CUDA_INIT_MS"); slow != nullptr && !initialized)
		usleep(static_cast<useconds_t>(1000 * atoi(slow)));
	if (error == 0 && !initialized)
		machine().devices = fake::visible_devices();
	if (error == 0 && machine().devices.empty())
		error = cudaErrorNoDevice;
	if (error == 0 && !initialized)
		machine().note_mapped();
	initialized = initialized || error == 0;
	if (error == 0)
		fake::serve_checkpoints();
	return error;
}

API CUresult cuGetErrorName(CUresult error, const char **name)
{
	*name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : nullptr;
	return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

// ---- devices: none of these makes a context

API CUresult cuDeviceGetCount(int *count)
{
	return call("cuDeviceGetCount", [&] { *count = static_cast<int>(machine().devices.size()); return 0; });
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	return call("cuDeviceGet", [&] {
		*device = ordinal;
		return exists(ordinal) ? 0 : cudaErrorInvalidDevice;
	}, ordinal);
}

API CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	return call("cuDeviceGetName", [&] {
		snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
		return 0;
	}, device);
}

API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device)
{
	return call("cuDeviceGetUuid_v2", [&]() -> CUresult {
		if (!exists(device))
			return cudaErrorInvalidDevice;
		memcpy(uuid, machine().devices[static_cast<size_t>(device)].uuid, 16);
		return 0;
	}, device);
}

API CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	return call("cuDeviceTotalMem_v2", [&]() -> CUresult {
		if (!exists(device))
			return cudaErrorInvalidDevice;
		*bytes = machine().devices[static_cast<size_t>(device)].total;
		return 0;
	}, device);
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	return call("cuDeviceGetAttribute", [&]() -> CUresult {
		switch (attribute) {
		case 16: *value = fake::multiprocessors; break;
		case 39: *value = fake::threads_per_multiprocessor; break;
		case 75: *value = 9; break; // compute capability
		case 76: *value = 0; break;
		case 81: *value = 233472; break; // shared memory of a multiprocessor
		case 82: *value = 65536; break;  // its registers
		case 106: *value = 32; break;    // its blocks
		case 111: *value = 1024; break;  // shared memory reserved for each block
		case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
		case 134: *value = 0; break; // the host NUMA node that is nearest
		default: *value = 1;
		}
		return exists(device) ? 0 : cudaErrorInvalidDevice;
	}, attribute, device);
}

// ---- contexts

static CUresult make_context(CUcontext *context, CUdevice device)
{
	if (!exists(device))
		return cudaErrorInvalidDevice;
	machine().context(device, context);
	return machine().make_context(device);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	return call("cuDevicePrimaryCtxRetain", [&] { return make_context(context, device); }, device);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return call("cuDevicePrimaryCtxRelease_v2", [] { return 0; }, device);
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return call("cuDevicePrimaryCtxReset_v2", [&] { machine().end_context(device); return 0; }, device);
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	return call("cuDevicePrimaryCtxGetState", [&] {
		*flags = 0;
		*active = exists(device) && machine().devices[static_cast<size_t>(device)].live;
		return 0;
	}, device);
}

static CUresult create_and_push(CUcontext *context, CUdevice device)
{
	CUresult error = exists(device) ? machine().make_own_context(device, context) : cudaErrorInvalidDevice;

	if (error == 0)
		current().push_back(*context);
	return error;
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	return call("cuCtxCreate_v2", [&] { return create_and_push(context, device); }, flags, device);
}

API CUresult cuCtxCreate_v3(CUcontext *context, void *, int, unsigned flags, CUdevice device)
{
	return call("cuCtxCreate_v3", [&] { return create_and_push(context, device); }, flags, device);
}

API CUresult cuCtxCreate_v4(CUcontext *context, void *, unsigned flags, CUdevice device)
{
	return call("cuCtxCreate_v4", [&] { return create_and_push(context, device); }, flags, device);
}

API CUresult cuCtxDestroy_v2(CUcontext context)
{
	return call("cuCtxDestroy_v2", [&] {
		machine().end_own_context(context);
		if (!current().empty() && current().back() == context)
			current().pop_back();
		return 0;
	}, context);
}

API CUresult cuCtxSetCurrent(CUcontext context)
{
	return call("cuCtxSetCurrent", [&] {
		if (current().empty())
			current().push_back(context);
		current().back() = context;
		return 0;
	}, context);
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
	return call("cuCtxGetCurrent", [&] { *context = current().empty() ? nullptr : current().back(); return 0; });
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	return with_context("cuCtxGetDevice", [&](int mine) { *device = mine; return 0; });
}

API CUresult cuCtxSetLimit(int limit, size_t value)
{
	return with_context("cuCtxSetLimit", [&](int mine) -> CUresult {
		if (limit < 0 || limit > 2)
			return 215; // CUDA_ERROR_UNSUPPORTED_LIMIT
		const int error = limit == 0 ? machine().make_local(mine, value, true) : 0;
		if (error == 0)
			machine().devices[static_cast<size_t>(mine)].settings.limits[limit] = value;
		return error;
	}, limit, value);
}

API CUresult cuCtxSynchronize(void)
{
	return with_context("cuCtxSynchronize", [](int mine) {
		machine().drain(mine);
		return machine().devices[static_cast<size_t>(mine)].fault;
	});
}

// ---- streams and events

// on_event is with_context for what takes an event.
template <class F> static CUresult on_event(const char *name, cudaEvent_t handle, F body)
{
	return with_context(name, [&](int) -> CUresult {
		fake::Event *e;
		const int error = machine().event(handle, &e);
		return error != 0 ? error : body(e);
	}, handle);
}

// on_stream is with_context for what takes a stream.
template <class F> static CUresult on_stream(const char *name, cudaStream_t handle, F body)
{
	return with_context(name, [&](int mine) -> CUresult {
		fake::Stream *s;
		const int error = machine().stream(handle, mine, &s);
		return error != 0 ? error : body(s);
	}, handle);
}

API CUresult cuStreamCreate(cudaStream_t *out, unsigned flags)
{
	return with_context("cuStreamCreate", [&](int mine) {
		*out = reinterpret_cast<cudaStream_t>(machine().make_stream(mine, flags, 0));
		return 0;
	}, flags);
}

API CUresult cuStreamDestroy_v2(cudaStream_t stream)
{
	return on_stream("cuStreamDestroy_v2", stream, [](fake::Stream *s) { return machine().end_stream(s); });
}

API CUresult cuStreamSynchronize(cudaStream_t stream)
{
	return on_stream("cuStreamSynchronize", stream, [](fake::Stream *s) -> CUresult {
		machine().run(s, s->submitted);
		machine().waited(s->device);
		return machine().devices[static_cast<size_t>(s->device)].fault;
	});
}

API CUresult cuEventCreate(cudaEvent_t *out, unsigned flags)
{
	return with_context("cuEventCreate", [&](int mine) {
		*out = reinterpret_cast<cudaEvent_t>(machine().make_event(mine));
		return 0;
	}, flags);
}

API CUresult cuEventSynchronize(cudaEvent_t event)
{
	return on_event("cuEventSynchronize", event, [](fake::Event *e) -> CUresult {
		if (e->mark.first != nullptr)
			machine().run(e->mark.first, e->mark.second);
		return machine().devices[static_cast<size_t>(e->device)].fault;
	});
}

API CUresult cuEventDestroy_v2(cudaEvent_t event)
{
	return on_event("cuEventDestroy_v2", event, [](fake::Event *e) { return machine().end_event(e); });
}

API CUresult cuEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return on_event("cuEventRecord", event, [&](fake::Event *e) {
		fake::Stream *s;
		const int error = machine().stream(stream, e->device, &s);
		return error != 0 ? error : machine().record(e, s);
	});
}

API CUresult cuCtxRecordEvent(CUcontext context, cudaEvent_t event)
{
	return on_event("cuCtxRecordEvent", event, [&](fake::Event *e) -> CUresult {
		return context == machine().current() ? machine().record_all(e) : 400; // CUDA_ERROR_INVALID_HANDLE
	});
}

// A thread whose calls may break the captures of others breaks them when it asks about an event.
static thread_local int capture_mode; // CUstreamCaptureMode: 2 is relaxed

API CUresult cuEventQuery(cudaEvent_t event)
{
	return on_event("cuEventQuery", event, [](fake::Event *e) -> CUresult {
		const int error = capture_mode == 2 ? 0 : machine().spoil();
		return error != 0 ? error : machine().query(e);
	});
}

API CUresult cuEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
	return on_event("cuEventElapsedTime", from, [&](fake::Event *a) {
		fake::Event *b;
		const int error = machine().event(to, &b);
		return error != 0 ? error : machine().elapsed(a, b, milliseconds);
	});
}

API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	return call("cuThreadExchangeStreamCaptureMode", [&] { std::swap(*mode, capture_mode); return 0; });
}

API CUresult cuStreamIsCapturing(cudaStream_t stream, int *status)
{
	return on_stream("cuStreamIsCapturing", stream, [&](fake::Stream *s) { *status = s->capture != nullptr; return 0; });
}

API CUresult cuStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	return on_stream("cuStreamWaitEvent", stream, [&](fake::Stream *s) {
		fake::Event *e;
		const int error = machine().event(event, &e);
		return error != 0 ? error : machine().await(s, e);
	});
}

API CUresult cuStreamBeginCapture_v2(cudaStream_t stream, int)
{
	return on_stream("cuStreamBeginCapture_v2", stream, [](fake::Stream *s) {
		if (s->capture != nullptr)
			return 900; // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
		s->capture = new fake::Graph;
		machine().captured.insert(s);
		return 0;
	});
}

// The graph is told from none. It cannot be launched.
API CUresult cuStreamEndCapture(cudaStream_t stream, void **graph)
{
	return on_stream("cuStreamEndCapture", stream, [&](fake::Stream *s) -> CUresult {
		if (s->capture == nullptr)
			return CUDA_ERROR_INVALID_VALUE;
		for (void *memory : s->capture->owned)
			machine().release(memory, {Segment::device_memory});
		*graph = s->capture;
		delete s->capture;
		s->capture = nullptr;
		machine().captured.erase(s);
		if (machine().spoilt.erase(s) == 0)
			return 0;
		*graph = nullptr;
		return 901; // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
	});
}

// A function is a kernel of fake_cuda.h. A launch of no function is a launch of nothing.
// A fake module is the number of bytes that it has on a device.
API CUresult cuModuleLoadData(void **module, const void *image)
{
	return with_context("cuModuleLoadData", [&](int mine) {
		fake::Device &d = machine().devices[static_cast<size_t>(mine)];
		const size_t bytes = *static_cast<const size_t *>(image);
		if (bytes > d.total - d.used)
			return static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY);
		machine().take(d, bytes);
		*module = const_cast<void *>(image);
		return 0;
	});
}

API CUresult cuLaunchKernel(const fake_kernel *function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, cudaStream_t stream, void **values, void **)
{
	if (function == nullptr)
		return call("cuLaunchKernel", [] { return CUDA_SUCCESS; });
	return with_context("cuLaunchKernel", [&](int mine) {
		fake::Stream *s;
		std::vector<char> copied;
		int error = machine().stream(stream, mine, &s);
		for (unsigned i = 0; i < function->count; i++) {
			const char *value = static_cast<const char *>(values[i]);
			copied.insert(copied.end(), value, value + function->sizes[i]);
			copied.resize((copied.size() + 15) / 16 * 16);
		}
		const fake_launch with = {{x, y, z}, {block_x, block_y, block_z}, shared, 0, nullptr, nullptr, 0, nullptr};
		const CUcontext context = machine().current();
		if (error == 0 && s->capture == nullptr)
			error = machine().make_local(mine, function->local_bytes, false);
		if (error == 0)
			machine().submit(s, {[=, round = 0u]() mutable { return machine().kernel(mine, context, with, function, copied, round++); },
			                     machine().kernel_time(function->name)});
		return error;
	}, function->name);
}

API CUresult cuFuncGetAttribute(int *value, int attribute, const fake_kernel *function)
{
	return with_context("cuFuncGetAttribute", [&](int) -> CUresult {
		if (attribute != 3) // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
			return CUDA_ERROR_INVALID_VALUE;
		*value = static_cast<int>(function->local_bytes);
		return 0;
	}, attribute, function->name);
}

// Modules are there as long as the program.
API CUresult cuModuleUnload(void *module)
{
	return with_context("cuModuleUnload", [](int) { return 0; }, module);
}

// A function is a fake_kernel. As in the driver, the kernel's parameters end at the first index that is too large.
API CUresult cuFuncGetParamInfo(const fake_kernel *function, size_t index, size_t *offset, size_t *bytes)
{
	return call("cuFuncGetParamInfo", [&]() -> CUresult {
		if (index >= function->count)
			return CUDA_ERROR_INVALID_VALUE;
		*offset = function->offsets[index];
		*bytes = function->sizes[index];
		return 0;
	}, function->name, index);
}

// Each kernel is a module of its own.
API CUresult cuFuncGetModule(const fake_kernel **module, const fake_kernel *function)
{
	return call("cuFuncGetModule", [&] { *module = function; return 0; }, function->name);
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, const fake_kernel *module, const char *name)
{
	return with_context("cuModuleGetGlobal_v2", [&](int mine) -> CUresult {
		const bool words = strcmp(name, "case_stop_words") == 0;
		void *there = nullptr;
		if (module->stop_words == nullptr || !(words || (module->restartable != 0 && std::string("case_restartable_") + module->name == name)))
			return 500; // CUDA_ERROR_NOT_FOUND
		const int error = machine().variable(module->stop_words, mine, &there, bytes);
		*address = reinterpret_cast<CUdeviceptr>(there);
		*bytes = words ? *bytes : 1;
		return error;
	}, module->name, name);
}

// ---- memory

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	return with_context("cuMemAlloc_v2", [&](int mine) {
		return machine().allocate(Segment::device_memory, mine, bytes, reinterpret_cast<void **>(address));
	}, bytes);
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned)
{
	return with_context("cuMemAllocPitch_v2", [&](int mine) {
		*pitch = (width + 511) / 512 * 512;
		return machine().allocate(Segment::device_memory, mine, *pitch * height, reinterpret_cast<void **>(address));
	}, width, height);
}

API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned)
{
	return with_context("cuMemAllocManaged", [&](int mine) {
		return machine().allocate(Segment::managed, mine, bytes, reinterpret_cast<void **>(address));
	}, bytes);
}

// An array is known by its memory.
struct ArrayDescription {
	size_t width, height;
	int format;
	unsigned channels;
};

API CUresult cuArrayCreate_v2(void **array, const ArrayDescription *d)
{
	return with_context("cuArrayCreate_v2", [&](int mine) -> CUresult {
		if (d->format != 0x20) // CU_AD_FORMAT_FLOAT
			return CUDA_ERROR_INVALID_VALUE;
		const size_t bytes = 4 * d->channels * d->width * (d->height > 0 ? d->height : 1);
		return machine().allocate(Segment::device_memory, mine, bytes, array);
	});
}

API CUresult cuArrayDestroy(void *array)
{
	return with_context("cuArrayDestroy", [&](int) { return machine().release(array, {Segment::device_memory}); }, array);
}

API CUresult cuMemFree_v2(CUdeviceptr address)
{
	return with_context("cuMemFree_v2", [&](int) {
		void *base = reinterpret_cast<void *>(address);
		const Segment *s = machine().find(base);
		if (s != nullptr) // CUDA's frees wait for the device
			machine().drain(s->device);
		return machine().release(base, {Segment::device_memory, Segment::managed});
	}, reinterpret_cast<void *>(address));
}

API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, cudaStream_t stream)
{
	return on_stream("cuMemAllocAsync", stream, [&](fake::Stream *s) {
		return machine().draw(machine().current_pool(s->device), bytes, reinterpret_cast<void **>(address));
	});
}

// on_pool is with_context for what takes a pool.
template <class F> static CUresult on_pool(const char *name, cudaMemPool_t handle, F body)
{
	return with_context(name, [&](int) -> CUresult {
		fake::Pool *pool;
		const int error = machine().pool(handle, &pool);
		return error != 0 ? error : body(pool);
	}, handle);
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, cudaMemPool_t handle, cudaStream_t)
{
	return on_pool("cuMemAllocFromPoolAsync", handle, [&](fake::Pool *pool) {
		return machine().draw(pool, bytes, reinterpret_cast<void **>(address));
	});
}

API CUresult cuMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *props)
{
	return with_context("cuMemPoolCreate", [&](int) {
		*out = reinterpret_cast<cudaMemPool_t>(machine().make_pool(props->location.id));
		return 0;
	});
}

API CUresult cuMemPoolDestroy(cudaMemPool_t handle)
{
	return on_pool("cuMemPoolDestroy", handle, [](fake::Pool *pool) { return machine().end_pool(pool); });
}

API CUresult cuMemPoolTrimTo(cudaMemPool_t handle, size_t keep)
{
	return on_pool("cuMemPoolTrimTo", handle, [&](fake::Pool *pool) { machine().trim(pool, keep); return 0; });
}

API CUresult cuMemPoolSetAttribute(cudaMemPool_t handle, int which, void *value)
{
	return on_pool("cuMemPoolSetAttribute", handle, [&](fake::Pool *pool) { return machine().attribute(pool, which, value, true); });
}

// It needs no context.
API CUresult cuMemPoolGetAttribute(cudaMemPool_t handle, int which, void *value)
{
	return call("cuMemPoolGetAttribute", [&] {
		fake::Pool *pool;
		const int error = machine().pool(handle, &pool);
		return error != 0 ? error : machine().attribute(pool, which, value, false);
	}, handle, which);
}

API CUresult cuDeviceGetMemPool(cudaMemPool_t *out, CUdevice device)
{
	return call("cuDeviceGetMemPool", [&] {
		*out = reinterpret_cast<cudaMemPool_t>(machine().current_pool(device));
		return exists(device) ? 0 : cudaErrorInvalidDevice;
	}, device);
}

API CUresult cuMemFreeAsync(CUdeviceptr address, cudaStream_t stream)
{
	return on_stream("cuMemFreeAsync", stream, [&](fake::Stream *s) -> CUresult {
		void *const memory = reinterpret_cast<void *>(address);
		const Segment *found = machine().find(memory);
		if (found == nullptr || found->kind != Segment::device_memory)
			return CUDA_ERROR_INVALID_VALUE;
		if (s->capture != nullptr)
			s->capture->owned.push_back(memory);
		else
			machine().submit(s, [memory] { return machine().release(memory, {Segment::device_memory}); });
		return 0;
	});
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	return with_context("cuMemGetInfo_v2", [&](int mine) {
		const fake::Device &d = machine().devices[static_cast<size_t>(mine)];
		*free_bytes = d.total - d.used;
		*total = d.total;
		return 0;
	});
}

API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
	return call("cuPointerGetAttribute", [&]() -> CUresult {
		const Segment *s = machine().find(reinterpret_cast<void *>(address));
		if (s == nullptr || s->device == fake::the_host)
			return CUDA_ERROR_INVALID_VALUE;
		switch (attribute) {
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*static_cast<int *>(value) = s->device;
			return 0;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
			*static_cast<CUdeviceptr *>(value) = s->base;
			return 0;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			*static_cast<size_t *>(value) = s->bytes;
			return 0;
		}
		return CUDA_ERROR_INVALID_VALUE;
	}, attribute, reinterpret_cast<void *>(address));
}

// The whole segment that an address is in: an allocation, or one mapping of a range of them.
API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	return with_context("cuMemGetAddressRange_v2", [&](int) -> CUresult {
		const Segment *s = machine().find(reinterpret_cast<void *>(address));
		if (s == nullptr)
			return CUDA_ERROR_NOT_FOUND;
		if (base != nullptr)
			*base = s->base;
		if (bytes != nullptr)
			*bytes = s->bytes;
		return 0;
	}, reinterpret_cast<void *>(address));
}

API CUresult cuMemHostRegister_v2(void *base, size_t bytes, unsigned)
{
	return with_context("cuMemHostRegister_v2", [&](int mine) { return machine().adopt_host(base, bytes, mine); }, bytes);
}

API CUresult cuMemHostUnregister(void *base)
{
	return with_context("cuMemHostUnregister", [&](int) { return machine().release(base, {Segment::registered}); });
}

static CUresult copy_now(int device, void *to, const void *from, size_t bytes)
{
	machine().drain(device);
	if (bytes == 0)
		return 0;
	int error = machine().copy(device, false, {static_cast<char *>(to), 0, 0, static_cast<const char *>(from), 0,
	                                           0, bytes, 1, 1});
	if (error != 0)
		machine().devices[static_cast<size_t>(device)].fault = error;
	return error;
}

// Addresses tell where memory is.
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return with_context("cuMemcpy", [&](int mine) {
		return copy_now(mine, reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
	}, bytes);
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return with_context("cuMemcpyHtoD_v2", [&](int mine) {
		return copy_now(mine, reinterpret_cast<void *>(to), from, bytes);
	}, bytes);
}

API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return with_context("cuMemcpyDtoH_v2", [&](int mine) {
		return copy_now(mine, to, reinterpret_cast<void *>(from), bytes);
	}, bytes);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return with_context("cuMemcpyDtoD_v2", [&](int mine) {
		return copy_now(mine, reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
	}, bytes);
}

static fake::Copy row(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return {reinterpret_cast<char *>(to), 0, 0, reinterpret_cast<char *>(from), 0, 0, bytes, 1, 1};
}

API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
	return call("cuMemcpyPeer", [&]() -> CUresult {
		if (!machine().alive(to_context) || !machine().alive(from_context))
			return 201; // CUDA_ERROR_INVALID_CONTEXT
		machine().drain(device_of(to_context));
		machine().drain(device_of(from_context));
		return machine().copy(device_of(to_context), true, row(to, from, bytes));
	}, bytes);
}

// later has something done in the order of a stream.
template <class F> static CUresult later(const char *name, cudaStream_t stream, F does)
{
	return on_stream(name, stream, [&](fake::Stream *s) {
		machine().submit(s, [does, mine = s->device] { return does(mine); });
		return 0;
	});
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, cudaStream_t stream)
{
	return later("cuMemcpyAsync", stream, [=](int mine) { return machine().copy(mine, false, row(to, from, bytes)); });
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, cudaStream_t stream)
{
	return later("cuMemcpyDtoDAsync_v2", stream, [=](int mine) { return machine().copy(mine, false, row(to, from, bytes)); });
}

API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
	return later("cuMemsetD32_v2", nullptr, [=](int mine) { return machine().fill(mine, row(to, 0, 4 * count), value, 4); });
}

// place is where a location says, as the machine has it.
static int place(const CUmemLocation &at, int *out)
{
	if (at.type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
		*out = fake::the_host;
		return at.id == 0 ? 0 : CUDA_ERROR_INVALID_VALUE; // a node with one NUMA node
	}
	*out = at.id;
	return at.type == CU_MEM_LOCATION_TYPE_DEVICE && exists(at.id) ? 0 : cudaErrorInvalidDevice;
}

API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int)
{
	return call("cuMemGetAllocationGranularity", [&] {
		int at;
		*bytes = fake::granule;
		return place(prop->location, &at);
	});
}

API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t, CUdeviceptr hint, unsigned long long)
{
	return call("cuMemAddressReserve", [&] {
		uintptr_t base = 0;
		int error = machine().reserve(bytes, static_cast<uintptr_t>(hint), &base);
		*address = base;
		return error;
	}, bytes);
}

API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	return call("cuMemAddressFree", [&] {
		return machine().unreserve(address, bytes);
	}, reinterpret_cast<void *>(address), bytes);
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                         unsigned long long)
{
	return call("cuMemCreate", [&] {
		int at;
		const int error = place(prop->location, &at);
		const bool exportable = prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		return error != 0 ? error : machine().create(at, bytes, exportable, handle);
	}, bytes, prop->location.id);
}

API CUresult cuMemExportToShareableHandle(void *file, CUmemGenericAllocationHandle handle, int type, unsigned long long)
{
	return call("cuMemExportToShareableHandle", [&]() -> CUresult {
		if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			return CUDA_ERROR_INVALID_VALUE;
		return machine().to_file(handle, static_cast<int *>(file));
	}, handle);
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *file, int type)
{
	return call("cuMemImportFromShareableHandle", [&]() -> CUresult {
		if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			return CUDA_ERROR_INVALID_VALUE;
		return machine().from_file(static_cast<int>(reinterpret_cast<intptr_t>(file)), handle);
	});
}

API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	return call("cuMemGetAllocationPropertiesFromHandle", [&]() -> CUresult {
		int at;
		const int error = machine().location(handle, &at);
		*prop = {};
		prop->location = at == fake::the_host ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0} : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, at};
		return error;
	}, handle);
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return call("cuMemRelease", [&] { return machine().drop_handle(handle); }, handle);
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	return call("cuMemRetainAllocationHandle", [&] { return machine().hold_handle(address, handle); }, address);
}

API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long)
{
	return call("cuMemMap", [&] {
		return machine().map(address, bytes, offset, handle);
	}, reinterpret_cast<void *>(address), bytes, handle);
}

API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	return call("cuMemUnmap", [&] {
		return machine().unmap(address, bytes);
	}, reinterpret_cast<void *>(address), bytes);
}

API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	return call("cuMemSetAccess", [&] {
		int error = 0;
		for (size_t i = 0; i < count && error == 0; i++)
			if (int at; (error = place(access[i].location, &at)) == 0)
				error = machine().set_access(address, bytes, at, access[i].flags);
		return error;
	}, reinterpret_cast<void *>(address), bytes, access[0].location.id);
}

// ---- how others find these

// Tables as the real driver has them, of functions without names. Most begin with their size in bytes.
static CUresult does_nothing() { return CUDA_SUCCESS; }
static CUresult works(CUdeviceptr to, unsigned value, size_t count) { return cuMemsetD32_v2(to, value, count); }

static const struct {
	unsigned char id[16];
	struct {
		size_t bytes;
		CUresult (*one)(), (*two)(), (*three)(), (*four)();
		CUresult (*five)(CUdeviceptr, unsigned, size_t);
	} functions;
} tables[] = {
	{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2},
	 {48, nullptr, does_nothing, nullptr, does_nothing, works}},
	{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93},
	 {0, does_nothing, does_nothing, does_nothing, does_nothing, works}},
	{{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11},
	 {48, does_nothing, does_nothing, does_nothing, does_nothing, works}},
};

API CUresult cuGetExportTable(const void **table, const unsigned char *id)
{
	*table = memcmp(id, "fake CUDA inside", 16) == 0 ? &machine() : nullptr; // the runtime's way to it: see machine.h
	for (const auto &t : tables)
		if (memcmp(id, t.id, 16) == 0)
			*table = &t.functions;
	return *table != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
API CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);

#define ENTRY(symbol, from, function) {symbol, from, reinterpret_cast<void *>(function)}
static const struct {
	const char *symbol;
	int from; // the first CUDA version whose programs get this function
	void *function;
} entries[] = { // later versions first
	ENTRY("cuInit", 0, cuInit),
	ENTRY("cuDriverGetVersion", 0, cuDriverGetVersion),
	ENTRY("cuGetErrorName", 0, cuGetErrorName),
	ENTRY("cuDeviceGetCount", 0, cuDeviceGetCount),
	ENTRY("cuDeviceGet", 0, cuDeviceGet),
	ENTRY("cuDeviceGetName", 0, cuDeviceGetName),
	ENTRY("cuDeviceGetUuid", 0, cuDeviceGetUuid_v2),
	ENTRY("cuDeviceTotalMem", 0, cuDeviceTotalMem_v2),
	ENTRY("cuDeviceGetAttribute", 0, cuDeviceGetAttribute),
	ENTRY("cuDevicePrimaryCtxRetain", 0, cuDevicePrimaryCtxRetain),
	ENTRY("cuDevicePrimaryCtxRelease", 0, cuDevicePrimaryCtxRelease_v2),
	ENTRY("cuDevicePrimaryCtxReset", 0, cuDevicePrimaryCtxReset_v2),
	ENTRY("cuDevicePrimaryCtxGetState", 0, cuDevicePrimaryCtxGetState),
	ENTRY("cuCtxCreate", 13000, cuCtxCreate_v4),
	ENTRY("cuCtxCreate", 11040, cuCtxCreate_v3),
	ENTRY("cuCtxCreate", 0, cuCtxCreate_v2),
	ENTRY("cuStreamCreate", 0, cuStreamCreate),
	ENTRY("cuStreamSynchronize", 0, cuStreamSynchronize),
	ENTRY("cuCtxDestroy", 0, cuCtxDestroy_v2),
	ENTRY("cuCtxSetCurrent", 0, cuCtxSetCurrent),
	ENTRY("cuCtxGetCurrent", 0, cuCtxGetCurrent),
	ENTRY("cuCtxGetDevice", 0, cuCtxGetDevice),
	ENTRY("cuCtxSynchronize", 0, cuCtxSynchronize),
	ENTRY("cuLaunchKernel", 0, cuLaunchKernel),
	ENTRY("cuModuleLoadData", 0, cuModuleLoadData),
	ENTRY("cuMemAlloc", 0, cuMemAlloc_v2),
	ENTRY("cuMemAllocPitch", 0, cuMemAllocPitch_v2),
	ENTRY("cuMemAllocManaged", 0, cuMemAllocManaged),
	ENTRY("cuMemAllocAsync", 11020, cuMemAllocAsync),
	ENTRY("cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync),
	ENTRY("cuMemPoolCreate", 11020, cuMemPoolCreate),
	ENTRY("cuMemPoolDestroy", 11020, cuMemPoolDestroy),
	ENTRY("cuMemPoolTrimTo", 11020, cuMemPoolTrimTo),
	ENTRY("cuMemPoolSetAttribute", 11020, cuMemPoolSetAttribute),
	ENTRY("cuMemPoolGetAttribute", 11020, cuMemPoolGetAttribute),
	ENTRY("cuDeviceGetMemPool", 11020, cuDeviceGetMemPool),
	ENTRY("cuMemFree", 0, cuMemFree_v2),
	ENTRY("cuMemFreeAsync", 11020, cuMemFreeAsync),
	ENTRY("cuArrayCreate", 0, cuArrayCreate_v2),
	ENTRY("cuArrayDestroy", 0, cuArrayDestroy),
	ENTRY("cuMemHostRegister", 0, cuMemHostRegister_v2),
	ENTRY("cuMemHostUnregister", 0, cuMemHostUnregister),
	ENTRY("cuMemGetInfo", 0, cuMemGetInfo_v2),
	ENTRY("cuMemGetAddressRange", 0, cuMemGetAddressRange_v2),
	ENTRY("cuMemcpyHtoD", 0, cuMemcpyHtoD_v2),
	ENTRY("cuMemcpyDtoDAsync", 0, cuMemcpyDtoDAsync_v2),
	ENTRY("cuMemcpyDtoD", 0, cuMemcpyDtoD_v2),
	ENTRY("cuMemcpyPeer", 0, cuMemcpyPeer),
	ENTRY("cuMemsetD32", 0, cuMemsetD32_v2),
	ENTRY("cuMemcpyDtoH", 0, cuMemcpyDtoH_v2),
	ENTRY("cuPointerGetAttribute", 0, cuPointerGetAttribute),
	ENTRY("cuMemGetAllocationGranularity", 0, cuMemGetAllocationGranularity),
	ENTRY("cuMemAddressReserve", 0, cuMemAddressReserve),
	ENTRY("cuMemAddressFree", 0, cuMemAddressFree),
	ENTRY("cuMemCreate", 0, cuMemCreate),
	ENTRY("cuMemRelease", 0, cuMemRelease),
	ENTRY("cuMemExportToShareableHandle", 0, cuMemExportToShareableHandle),
	ENTRY("cuMemImportFromShareableHandle", 0, cuMemImportFromShareableHandle),
	ENTRY("cuMemGetAllocationPropertiesFromHandle", 0, cuMemGetAllocationPropertiesFromHandle),
	ENTRY("cuMemRetainAllocationHandle", 0, cuMemRetainAllocationHandle),
	ENTRY("cuMemMap", 0, cuMemMap),
	ENTRY("cuMemUnmap", 0, cuMemUnmap),
	ENTRY("cuMemSetAccess", 0, cuMemSetAccess),
	ENTRY("cuGetExportTable", 0, cuGetExportTable),
	ENTRY("cuGetProcAddress", 12000, cuGetProcAddress_v2),
	ENTRY("cuGetProcAddress", 0, cuGetProcAddress),
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t, int *status)
{
	*function = nullptr;
	for (const auto &e : entries)
		if (*function == nullptr && strcmp(e.symbol, symbol) == 0 && version >= e.from)
			*function = e.function;
	if (status != nullptr)
		*status = *function != nullptr ? 0 : 1; // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
	return *function != nullptr ? 0 : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

API char fake_cuda_mapped(const void *address)
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	const Segment *s = machine().find(address);
	if (s == nullptr || s->kind != Segment::mapping)
		return '-';
	return s->device == fake::the_host ? 'h' : 'd';
}

API void fake_cuda_meanwhile(const char *call, fake_cuda_moment moment, void (*what)())
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	machine().meanwhile(call, moment, what);
}

API void fake_cuda_skip_launches() { machine().skips_launches = true; }

API int fake_cuda_take(size_t bytes)
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	const CUcontext context = machine().current();
	if (context == nullptr)
		return fake::error_handle;
	fake::Device &d = machine().devices[static_cast<size_t>(fake::device_of(context))];
	if (bytes > d.total - d.used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	machine().take(d, bytes);
	return 0;
}

API void fake_cuda_read(fake_cuda_state *state)
{
	std::lock_guard<fake::Lock> locked(machine().lock);
	machine().read(state);
}
