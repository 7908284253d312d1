// runtime_context.cc: execution contexts (CUDA 13.1), which share the memory of their
// device's own context.
#include "runtime.h"

#if FAKE_CUDART >= 13000
namespace fake {

struct Execution {
	int device;
};
static auto &contexts = *new std::set<Execution *>;

struct Resource { // cudaDevResource, as far as it is looked at
	int type, device;
};

static int context_of(void *handle, Execution **out)
{
	*out = static_cast<Execution *>(handle);
	return contexts.count(*out) != 0 ? 0 : node()->violation("use of a handle that is not an execution context");
}

static bool exists(int device) { return device >= 0 && static_cast<size_t>(device) < node()->devices.size(); }

static int make(void **out, int device)
{
	*out = *contexts.insert(new Execution{device}).first;
	return 0;
}

// in_context is call for what takes a context.
template <class F> cudaError_t in_context(const char *name, void *handle, F body)
{
	return call(name, Needs::context, [&]() -> int {
		Execution *e;
		int error = context_of(handle, &e);
		return error != 0 ? error : body(e);
	}, handle);
}

} // namespace fake

using namespace fake;

API cudaError_t cudaDeviceGetDevResource(int device, Resource *out, int type)
{
	return call("cudaDeviceGetDevResource", Needs::context, [&]() -> int {
		if (!exists(device))
			return cudaErrorInvalidDevice;
		*out = {type, device};
		return 0;
	}, device, type);
}

API cudaError_t cudaDevResourceGenerateDesc(void **out, Resource *resources, unsigned)
{
	return call("cudaDevResourceGenerateDesc", Needs::context, [&] { *out = resources; return 0; });
}

API cudaError_t cudaGreenCtxCreate(void **out, void *description, int device, unsigned)
{
	return call("cudaGreenCtxCreate", Needs::context, [&]() -> int {
		if (!exists(device) || static_cast<Resource *>(description)->device != device)
			return cudaErrorInvalidDevice;
		return make(out, device);
	}, device);
}

API cudaError_t cudaDeviceGetExecutionCtx(void **out, int device)
{
	return call("cudaDeviceGetExecutionCtx", Needs::context, [&]() -> int {
		if (!exists(device))
			return cudaErrorInvalidDevice;
		if (!node()->devices[static_cast<size_t>(device)].live)
			return node()->violation("the execution context of device " + text(device) + ", which has none");
		return make(out, device);
	}, device);
}

API cudaError_t cudaExecutionCtxGetDevice(int *device, void *handle)
{
	return in_context("cudaExecutionCtxGetDevice", handle, [&](Execution *e) { *device = e->device; return 0; });
}

API cudaError_t cudaExecutionCtxStreamCreate(cudaStream_t *out, void *handle, unsigned flags, int priority)
{
	return in_context("cudaExecutionCtxStreamCreate", handle, [&](Execution *e) {
		*out = reinterpret_cast<cudaStream_t>(node()->make_stream(e->device, flags, priority));
		return 0;
	});
}

API cudaError_t cudaExecutionCtxRecordEvent(void *handle, cudaEvent_t event)
{
	return in_context("cudaExecutionCtxRecordEvent", handle, [&](Execution *) {
		Event *e;
		return node()->event(event, &e);
	});
}

API cudaError_t cudaExecutionCtxSynchronize(void *handle)
{
	return in_context("cudaExecutionCtxSynchronize", handle, [](Execution *e) {
		node()->drain(e->device);
		return 0;
	});
}

API cudaError_t cudaExecutionCtxDestroy(void *handle)
{
	return in_context("cudaExecutionCtxDestroy", handle, [](Execution *e) {
		contexts.erase(e);
		delete e;
		return 0;
	});
}
#endif
