// context_gate.cc: no context without a grant.
//
// Calls of the CUDA runtime that this library does not override make contexts through the
// driver. So do libraries with a runtime of their own (cuBLAS and others link it statically).
// They find the driver's functions with dlsym and cuGetProcAddress. Both are overridden for the
// few functions that make a context: each asks the scheduler first, and then makes the context on
// the granted device, whatever device the caller named.
#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/mps_recovery.h"
#include "program/mode.h"
#include "program/objects.h"
#include "task/bypass.h"
#include "task/report.h"
#include "task/shortage.h"
#include "task/task.h"
#include "driver_api.h"
#include "overrides.h"

namespace lazy {

// watches: the caller is part of the driver, or of a profiler that is loaded while
// it starts.
static bool watches(const void *caller)
{
	Dl_info info;
	return !in_runtime(caller) && dladdr(caller, &info) != 0 && info.dli_fname != nullptr && known(info.dli_fname);
}

// A context that a library makes stays on its device. A context that the CUDA runtime asks for does
// not by itself tie the task to the device.
static CUresult await_context_gate(const void *caller, CUdevice *device)
{
	if (!one_device() || entering_device())
		return CUDA_SUCCESS;
	cudaError_t error = cudaSuccess;
	if (!in_runtime(caller)) {
		Locked locked;
		tie(Tie::context, "cuCtxCreate");
		meet_driver();
		if (has_runtime()) // the caller may go on to use what is only recorded so far
			error = Task::process().await_bound();
		else if (!Task::process().held())
			error = Task::process().await_grant({}, 0, false);
	} else if (home() < 0) { // inside the runtime, which must not be called again from here
		Locked locked;
		if (home() < 0)
			error = Task::process().await_grant({}, 0, false);
	} // else without the lock: its holder may be waiting for a lock of the runtime that this caller holds
	if (error != cudaSuccess) {
		if (error != cudaErrorMemoryAllocation && error != cudaErrorNotReady) // these were reported or refused
			case_report_fault(error, "making a context");
		return result_of(error);
	}
	if (*device != home())
		tie(Tie::context, "cuDevicePrimaryCtxRetain"); // the caller knows this context by another ordinal
	*device = home();
	return CUDA_SUCCESS;
}

// made makes a context, and reports that memory for the context is missing. The program may have made a call of
// the shared runtime whose result nobody looks at. A runtime that saw the error would remember it.
template <typename Make> static CUresult made(Make make)
{
	const CUresult result = await_room_for([=] { return await_server(make); });

	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		no_context();
	return result;
}

// made_own is made for a context of the program's own.
template <typename Make> static CUresult made_own(const void *caller, CUcontext *context, Make make)
{
	const CUresult result = made(make);

	if (result == CUDA_SUCCESS && !in_runtime(caller))
		made_by_program(*context);
	return result;
}

} // namespace lazy

using namespace lazy;


CUresult cuInit(unsigned flags)
{
	const void *caller = __builtin_return_address(0);

	if (const bool watching = watches(caller); one_device() && !driver_started() && (has_instances() || !watching)) {
		if (!watching && !in_runtime(caller))
			meet_driver();
		if (cudaError_t error = await_confined(); error != cudaSuccess)
			return result_of(error);
	}
	return init_driver(flags);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	const void *caller = __builtin_return_address(0);
	CUresult result = await_context_gate(caller, &device);
	return result == CUDA_SUCCESS ? made([=] { return REAL_DRIVER(cuDevicePrimaryCtxRetain)(context, device); }) : result;
}

// Nobody waits for what is done in a context that the program has made.
#define CREATE(symbol, parameters, arguments)                                                                          \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		const void *caller = __builtin_return_address(0);                                                      \
		passes_by("cuCtxCreate", caller);                                                                      \
		CUresult result = await_context_gate(caller, &device);                                                 \
		return result == CUDA_SUCCESS ? made_own(caller, context, [=] { return REAL_DRIVER(symbol) arguments; }) : result; \
	}
CREATE(cuCtxCreate, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device))
CREATE(cuCtxCreate_v2, (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device))
CREATE(cuCtxCreate_v3, (CUcontext *context, void *affinity, int count, unsigned flags, CUdevice device), (context, affinity, count, flags, device))
CREATE(cuCtxCreate_v4, (CUcontext *context, void *params, unsigned flags, CUdevice device), (context, params, flags, device))

CUresult cuGetExportTable(const void **table, const unsigned char *id)
{
	const void *caller = __builtin_return_address(0);
	const CUresult result = REAL_DRIVER(cuGetExportTable)(table, id);
	if (result == CUDA_SUCCESS && table != nullptr && id != nullptr)
		*table = hand_out_table(id, *table, caller);
	return result;
}

namespace lazy {
namespace {

const struct {
	const char *name;
	void *ours;
} gates[] = {
#define GATE(symbol, name, own, parameters, arguments) {#symbol, reinterpret_cast<void *>(symbol)},
#define LINEAR(...)
#define ALLOCATION(...)
#define RELEASE(...)
#define LAUNCH(...)
#define LOAD(...)
#define WORK(...)
#define WAIT(...)
#define ANSWER(...)
#define CHARGE(...)
#include "calls/driver.def"
};

// ours is the override of a function of the driver. cuGetProcAddress gives the version that fits the
// caller under the plain name. So the function decides, and not the name that the caller used.
void *ours(void *found)
{
	for (const auto &g : gates)
		if (found != nullptr && found == driver_symbol(g.name))
			return g.ours;
	return found;
}

// given is ours for what cuGetProcAddress found. cuInit, which has one version, must not be missed,
// whatever its address there.
void *given(void *found, const char *name)
{
	return found != nullptr && strcmp(name, "cuInit") == 0 ? reinterpret_cast<void *>(cuInit) : ours(found);
}

} // namespace

// overridden is this library's function for a function of the CUDA runtime that the program has
// looked up by itself, because it loaded the runtime with dlopen.
void *overridden(void *found, const char *name)
{
	static void *const self = [] {
		Dl_info info;
		return dladdr(reinterpret_cast<void *>(cuCtxCreate), &info) == 0 ? nullptr
		                                                               : dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	}();
	if (found == nullptr || self == nullptr || strncmp(name, "cuda", 4) != 0 || !in_runtime(found))
		return found;
	void *here = real_dlsym(self, name);
	return here != nullptr ? here : found;
}

// gate_knows: gate_dlsym serves this name, which begins with "nv" (runtime/forward.S). A caller that looks
// for the next definition wraps the function, and its own call is overridden.
extern "C" int gate_knows(void *handle, const char *name) { return handle != RTLD_NEXT && counts_devices(name); }

static void *looked_up(void *function, const char *name)
{
	void *found = overridden(function, name);

	for (const auto &g : gates)
		if (found != nullptr && strcmp(name, g.name) == 0)
			return ours(found);
	return driver_call(name, found);
}

// gate_dlsym is dlsym for names that begin with "cu", and those of gate_knows.
extern "C" void *gate_dlsym(void *handle, const char *name)
{
	const void *const caller = __builtin_return_address(0);
	if (counts_devices(name))
		return instead_of(real_dlsym(handle, name), name);
	return hand_out(name, looked_up(real_dlsym(handle, name), name), caller);
}

// gate_dlvsym is dlvsym for names that begin with "cu".
extern "C" void *gate_dlvsym(void *handle, const char *name, const char *version)
{
	const void *const caller = __builtin_return_address(0);
	return hand_out(name, looked_up(real_dlvsym()(handle, name, version), name), caller);
}

// gate_hands is told what dlsym is asked for with RTLD_NEXT and RTLD_DEFAULT. The function after the
// caller may be CUDA's own, and the first in the process is this library's, if this library has it.
extern "C" void gate_hands(void *handle, const char *name, const void *caller)
{
	handed_out(name, handle == RTLD_NEXT ? caller : real_dlsym(RTLD_DEFAULT, name), caller);
}

// gate_passes is told what dlvsym is asked for with RTLD_NEXT and RTLD_DEFAULT.
extern "C" void gate_passes(const char *name, const void *caller) { handed_out(name, caller, caller); }

// gate_finders is told of names that begin with "dl". With dlsym as libc has it, a part gets what it wants.
extern "C" void gate_finders(const char *name, const void *caller)
{
	if (strcmp(name, "dlsym") == 0 || strcmp(name, "dlvsym") == 0)
		passes_by("dlsym past this library", caller);
}

// after_this is a function of libc, which had it in libdl before 2.34. The thread sanitizer comes here before it is
// ready to watch.
__attribute__((no_sanitize("thread"))) static void *after_this(const char *name, const char *version)
{
	const VersionFinder find = real_dlvsym();
	void *f = find(RTLD_NEXT, name, "GLIBC_2.34");
	return f != nullptr ? f : find(RTLD_NEXT, name, version);
}

extern "C" __attribute__((no_sanitize("thread"))) void *gate_find_dlsym()
{
	return after_this("dlsym", "GLIBC_2.2.5");
}

extern "C" __attribute__((no_sanitize("thread"))) void *find_dlvsym() { return reinterpret_cast<void *>(real_dlvsym()); }
extern "C" __attribute__((no_sanitize("thread"))) void *find_dlopen() { return after_this("dlopen", "GLIBC_2.2.5"); }
extern "C" __attribute__((no_sanitize("thread"))) void *find_dlmopen() { return after_this("dlmopen", "GLIBC_2.3.4"); }

} // namespace lazy

CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags)
{
	const void *const caller = __builtin_return_address(0); // at once: the compiler may split the function
	CUresult result = REAL_DRIVER(cuGetProcAddress)(name, found, version, flags);
	if (result == CUDA_SUCCESS) {
		*found = driver_call(name, version, flags, given(*found, name), caller);
		*found = hand_out(name, *found, caller);
	}
	return result;
}

CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
	const void *const caller = __builtin_return_address(0); // at once: the compiler may split the function
	CUresult result = REAL_DRIVER(cuGetProcAddress_v2)(name, found, version, flags, status);
	if (result == CUDA_SUCCESS) {
		*found = driver_call(name, version, flags, given(*found, name), caller);
		*found = hand_out(name, *found, caller);
	}
	return result;
}
