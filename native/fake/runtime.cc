// runtime.cc: how the fake runtime finds the driver and makes contexts; devices
// and errors.
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace fake {

Driver &driver()
{
	static Driver d;
	return d;
}

// As in the real runtime: dlopen, dlsym of cuGetProcAddress, which then finds all other functions.
void *driver_symbol(const char *symbol, int version)
{
	void *function = nullptr;
#if FAKE_CUDART >= 12000
	int status;
	reinterpret_cast<CUresult (*)(const char *, void **, int, uint64_t, int *)>(driver().get_proc_address)(
		symbol, &function, version, 0, &status);
#else
	reinterpret_cast<CUresult (*)(const char *, void **, int, uint64_t)>(driver().get_proc_address)(
		symbol, &function, version, 0);
#endif
	return function;
}

template <class F> static void find(F *&to, const char *symbol)
{
	to = reinterpret_cast<F *>(driver_symbol(symbol, FAKE_CUDART));
}

static Machine *attach()
{
	Driver &d = driver();
	const void *table = nullptr;
	CUresult (*init)(unsigned);
	CUresult (*export_table)(const void **, const unsigned char *);
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library == nullptr)
		return nullptr;
	d.get_proc_address = dlsym(library, FAKE_CUDART >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress");
	find(init, "cuInit");
	find(export_table, "cuGetExportTable");
	find(d.device_count, "cuDeviceGetCount");
	find(d.retain, "cuDevicePrimaryCtxRetain");
	find(d.reset, "cuDevicePrimaryCtxReset");
	find(d.set_current, "cuCtxSetCurrent");
	find(d.allocate, "cuMemAlloc");
	find(d.release, "cuMemFree");
	init(0); // without a device, calls say so
	export_table(&table, reinterpret_cast<const unsigned char *>("fake CUDA inside"));
	return static_cast<Machine *>(const_cast<void *>(table));
}

Machine *node()
{
	static Machine *const one = attach();
	return one;
}

Thread &self()
{
	static thread_local Thread t;
	return t;
}

int lasting() { return here().fault; }

void raise_lasting(int error)
{
	const size_t device = static_cast<size_t>(self().device);

	if (lasts(error) && device < node()->devices.size() && here().live)
		here().fault = error;
}

int complete(int error)
{
	if (error != 0 && error != cudaErrorNotReady)
		self().last = error;
	return error;
}

static bool has_context()
{
	std::lock_guard<Lock> locked(node()->lock);
	return here().live;
}

static CUcontext current()
{
	std::lock_guard<Lock> locked(node()->lock);
	return node()->current();
}

// A context that the thread has is used, whoever made it current (CUDA Programming
// Guide, "Interoperability between Runtime and Driver APIs").
int prepare(Needs needs)
{
	static std::mutex making;
	static CUcontext made[FAKE_CUDA_MAX_DEVICES]; // as the driver gave them
	const CUcontext mine = needs == Needs::nothing ? nullptr : current();

	if (mine != nullptr) {
		self().device = device_of(mine);
		return 0;
	}
	const int device = self().device;

	if (needs == Needs::nothing)
		return 0;
	if (node()->devices.empty())
		return cudaErrorNoDevice;
	if (needs == Needs::device)
		return 0;
	std::lock_guard<std::mutex> locked(making);
	if (!has_context() || made[device] == nullptr) {
		if (int error = driver().retain(&made[device], device); error != 0)
			return error;
		// The runtime would go on to use it as the device's own.
		CUcontext own = nullptr;
		if (node()->context(device, &own); made[device] != own)
			node()->violation("the runtime asked for device " + text(device) + " and got another one's context");
	}
	return driver().set_current(made[device]);
}

static bool exists(int device) { return device >= 0 && static_cast<size_t>(device) < node()->devices.size(); }

} // namespace fake

using namespace fake;

API cudaError_t cudaGetDeviceCount(int *count)
{
	return call("cudaGetDeviceCount", Needs::nothing, [&] {
		*count = static_cast<int>(node()->devices.size());
		return *count > 0 ? 0 : cudaErrorNoDevice;
	});
}

API cudaError_t cudaGetDevice(int *device)
{
	return call("cudaGetDevice", Needs::device, [&] { *device = self().device; return 0; });
}

// It leaves the thread only the device's primary context. CUDA 12 and later make this context at
// once if the device has none.
API cudaError_t cudaSetDevice(int device)
{
	cudaError_t error = call("cudaSetDevice", Needs::device, [&] {
		if (!exists(device))
			return static_cast<int>(cudaErrorInvalidDevice);
		self().device = device;
		return 0;
	}, device);
	if (error == 0 && current() != nullptr)
		error = driver().set_current(nullptr);
	return error == 0 && (FAKE_CUDART >= 12000 || has_context()) ? complete(prepare(Needs::context)) : error;
}

API cudaError_t cudaInitDevice(int device, unsigned flags, unsigned)
{
	static_cast<void>(flags);
	const Thread was = self();
	const CUcontext mine = node() != nullptr ? current() : nullptr;
	cudaError_t error = cudaSetDevice(device);
	if (error != 0)
		return error;
	self() = was;
	return driver().set_current(mine);
}

API cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	return call("cudaSetDeviceFlags", Needs::device, [] { return 0; }, flags);
}

API cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
	return call("cudaGetDeviceFlags", Needs::device, [&] { *flags = 0; return 0; });
}

API cudaError_t cudaSetValidDevices(int *, int) { return call("cudaSetValidDevices", Needs::device, [] { return 0; }); }

// The fields of cudaDeviceProp that are filled. Up to maxGridSize its layout is
// the same in all versions; CUDA 13 has no clockRate and no deviceOverlap.
struct Properties {
	char name[256];
	unsigned char uuid[16];
	char luid[8];
	unsigned luid_mask;
	size_t total_memory, shared_per_block;
	int registers_per_block, warp_size;
	size_t pitch;
	int threads_per_block, block[3], grid[3];
#if FAKE_CUDART < 13000
	int clock;
#endif
	size_t constant;
	int major, minor;
	size_t texture_alignment, texture_pitch;
#if FAKE_CUDART < 13000
	int overlap;
#endif
	int multiprocessors;
};

API cudaError_t cudaGetDeviceProperties(void *out, int device)
{
	return call("cudaGetDeviceProperties", Needs::device, [&] {
		if (!exists(device))
			return static_cast<int>(cudaErrorInvalidDevice);
		const Device &d = node()->devices[static_cast<size_t>(device)];
		Properties *p = static_cast<Properties *>(out);
		memset(out, 0, sizeof *p);
		snprintf(p->name, sizeof p->name, "Fake GPU %d", d.physical);
		memcpy(p->uuid, d.uuid, 16);
		p->total_memory = d.total;
		p->shared_per_block = 49152;
		p->registers_per_block = 65536;
		p->warp_size = 32;
		p->threads_per_block = 1024;
		p->major = 9;
		p->multiprocessors = fake::multiprocessors;
		return 0;
	}, device);
}

API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	return call("cudaDeviceGetAttribute", Needs::device, [&] {
		auto get = reinterpret_cast<CUresult (*)(int *, int, CUdevice)>(driver_symbol("cuDeviceGetAttribute",
		        FAKE_CUDART));
		return get(value, attribute, device);
	}, attribute, device);
}

API cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
	return call("cudaDeviceGetPCIBusId", Needs::device, [&] {
		if (!exists(device))
			return static_cast<int>(cudaErrorInvalidDevice);
		snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0",
		         node()->devices[static_cast<size_t>(device)].physical + 16);
		return 0;
	}, device);
}

API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
	return call("cudaDeviceGetByPCIBusId", Needs::device, [&] {
		unsigned bus = 0;
		sscanf(text, "%*x:%x", &bus);
		for (size_t i = 0; i < node()->devices.size(); i++)
			if (node()->devices[i].physical + 16 == static_cast<int>(bus)) {
				*device = static_cast<int>(i);
				return 0;
			}
		return static_cast<int>(cudaErrorInvalidDevice);
	}, text);
}

API cudaError_t cudaChooseDevice(int *device, const void *)
{
	return call("cudaChooseDevice", Needs::device, [&] { *device = 0; return 0; });
}

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	return call("cudaDeviceCanAccessPeer", Needs::device, [&] {
		*can = exists(device) && exists(peer) && device != peer;
		return exists(device) && exists(peer) ? 0 : static_cast<int>(cudaErrorInvalidDevice);
	}, device, peer);
}

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
	return call("cudaDeviceEnablePeerAccess", Needs::context, [&] {
		if (!exists(peer) || peer == self().device)
			return static_cast<int>(cudaErrorInvalidDevice);
		return here().peers.insert(peer).second ? 0 : 704; // cudaErrorPeerAccessAlreadyEnabled
	}, peer);
}

API cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	return call("cudaDeviceDisablePeerAccess", Needs::context, [&] {
		return here().peers.erase(peer) != 0 ? 0 : 705; // cudaErrorPeerAccessNotEnabled
	}, peer);
}

API cudaError_t cudaDeviceSynchronize(void)
{
	return call("cudaDeviceSynchronize", Needs::context, [] {
		int error = node()->spoil();
		if (error == 0)
			node()->drain(self().device);
		return error;
	});
}

API cudaError_t cudaDeviceReset(void)
{
	return call("cudaDeviceReset", Needs::device, [] {
		self().last = 0;
		return here().live ? driver().reset(self().device) : 0;
	});
}

API cudaError_t cudaDeviceSetLimit(int limit, size_t value)
{
	return call("cudaDeviceSetLimit", Needs::context, [&] {
		if (limit < 0 || limit >= 16)
			return static_cast<int>(cudaErrorInvalidValue);
		if (limit == 3 || limit == 4)
			return 215; // cudaErrorUnsupportedLimit, of device-side launches
		if (const int error = limit == 0 ? node()->make_local(self().device, value, true) : 0; error != 0)
			return error;
		here().settings.limits[limit] = value;
		return 0;
	}, limit, value);
}

API cudaError_t cudaDeviceGetLimit(size_t *value, int limit)
{
	return call("cudaDeviceGetLimit", Needs::context, [&] {
		*value = limit >= 0 && limit < 16 ? here().settings.limits[limit] : 0;
		return limit >= 0 && limit < 16 ? 0 : cudaErrorInvalidValue;
	}, limit);
}

API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	return call("cudaDeviceGetStreamPriorityRange", Needs::context, [&] { *least = 0; *greatest = -5; return 0; });
}

API cudaError_t cudaDeviceSetCacheConfig(int config)
{
	return call("cudaDeviceSetCacheConfig", Needs::context, [] { return 0; }, config);
}
API cudaError_t cudaDeviceSetSharedMemConfig(int config)
{
	return call("cudaDeviceSetSharedMemConfig", Needs::context, [] { return 0; }, config);
}

API cudaError_t cudaDriverGetVersion(int *version)
{
	return call("cudaDriverGetVersion", Needs::nothing, [&] { *version = 13000; return 0; });
}

API cudaError_t cudaRuntimeGetVersion(int *version)
{
	return call("cudaRuntimeGetVersion", Needs::nothing, [&] { *version = FAKE_CUDART; return 0; });
}

API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long)
{
	return call("cudaGetDriverEntryPoint", Needs::nothing, [&] {
		*function = driver_symbol(symbol, FAKE_CUDART);
		return *function != nullptr ? 0 : cudaErrorInvalidValue;
	}, symbol);
}

// ---- errors

static int take_error(bool clear)
{
	int error = self().last;

	if (clear)
		self().last = 0;
	if (node() == nullptr)
		return error;
	std::lock_guard<Lock> locked(node()->lock);
	return !node()->devices.empty() && lasting() != 0 ? lasting() : error;
}

API cudaError_t cudaGetLastError(void) { return take_error(true); }
API cudaError_t cudaPeekAtLastError(void) { return take_error(false); }
API const char *cudaGetErrorName(cudaError_t error) { return error == 0 ? "cudaSuccess" : "cudaErrorOfTheFake"; }
API const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess: return "no error";
	case cudaErrorMemoryAllocation: return "out of memory";
	case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
	default: return "an error of the fake runtime";
	}
}
