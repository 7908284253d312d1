// driver_calls.cc: the driver's functions, for their errors, for what they allocate, and for memory that is ours.
//
// A program whose CUDA runtime is linked statically, as nvcc does by default, or that
// calls the driver itself, is seen nowhere else. What the shared runtime calls is not
// looked at: its own results say as much.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "abi/api.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "launch/local_memory.h"
#include "launch/references.h"
#include "launch/submit_window.h"
#include "launch/work.h"
#include "memory/memory.h"
#include "probe/activity.h"
#include "program/objects.h"
#include "task/burst.h"
#include "task/bypass.h"
#include "task/pools.h"
#include "task/report.h"
#include "task/shortage.h"
#include "task/stop.h"
#include "task/submit_gate.h"
#include "driver_api.h"
#include "driver_charge.h"
#include "driver_memory.h"
#include "overrides.h"

extern "C" CUresult cuCtxGetCurrent(CUcontext *context);

namespace lazy {
namespace {

enum class Effect { neither, waits };

std::atomic<bool> unseen{false}; // work that nobody has waited for
pid_t process;

// An error is not reported if the program destroyed the context before it freed what was in it.
CUresult checked(CUresult result, const char *call)
{
	return result == cudaErrorContextIsDestroyed ? result : seen(result, call);
}

// Registered after the handlers of the program's own runtime, which take its context away.
void wait_at_exit()
{
	CUcontext context = nullptr;

	if (getpid() == process) {
		await_kernel();
		stop_looks();
	}
	if (unseen && getpid() == process && REAL_DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS && context != nullptr)
		checked(REAL_DRIVER(cuCtxSynchronize)(), "the end of the program");
}

template <typename Run> CUresult called(const char *call, Effect effect, Run run)
{
	const bool was = effect == Effect::waits && unseen.exchange(false);
	const uint64_t before = before_wait();
	const CUresult result = run();

	if (effect == Effect::waits && result == CUDA_SUCCESS)
		waited(before);
	if (was && result != CUDA_SUCCESS)
		unseen.store(true);
	return checked(result, call);
}

void work_began()
{
	static const bool registered = [] {
		process = getpid();
		return atexit(wait_at_exit) == 0;
	}();

	unseen.store(registered, std::memory_order_relaxed);
	other_streams();
	activity_began();
}

template <typename Run> CUresult launches(const char *call, Run run)
{
	UnseenShortage shortage(call, UnseenShortage::Of::driver);
	CUresult result;

	do {
		const Submitting submitting(true);
		result = run();
		if (result == CUDA_SUCCESS) {
			work_began();
			return result;
		}
	} while (shortage.await_again(result));
	return shortage.refused() != cudaSuccess ? result_of(shortage.refused()) : launch_result(result, call);
}

template <typename Run> CUresult loads(const char *call, void **values, unsigned count, Run run)
{
	const OptionValues options(values, count);
	UnseenShortage shortage(call, UnseenShortage::Of::driver);
	CUresult result;

	do {
		options.restore();
		result = run();
	} while (shortage.await_again(result));
	return shortage.refused() != cudaSuccess ? result_of(shortage.refused()) : checked(result, call);
}

CUresult allocated(CUresult result, const char *call, uint64_t bytes)
{
	char where[160];
	size_t free = 0, total = 0;

	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return checked(result, call);
	REAL_DRIVER(cuMemGetInfo_v2)(&free, &total);
	snprintf(where, sizeof where, "%s, device %d: %.2f of %.2f GiB free", call, scheduled() < 0 ? 0 : scheduled(),
	         static_cast<double>(free) / (1 << 30), static_cast<double>(total) / (1 << 30));
	case_report_oom(bytes, where);
	return result;
}

const struct {
	const char *symbol, *name;
	int own;
	void *ours;
} functions[] = {
#define ENTRY(symbol, name, own) {#symbol, #name, own, reinterpret_cast<void *>(symbol)},
#define LINEAR(symbol, name, own, bytes, taken, parameters, arguments) ENTRY(symbol, name, own)
#define ALLOCATION(symbol, name, own, bytes, parameters, arguments) ENTRY(symbol, name, own)
#define RELEASE(symbol, name, own, parameters, arguments) ENTRY(symbol, name, own)
#define LAUNCH(symbol, name, own, stream, parameters, arguments) ENTRY(symbol, name, own)
#define LOAD(symbol, name, own, values, count, parameters, arguments) ENTRY(symbol, name, own)
#define WORK(symbol, name, own, parameters, arguments) ENTRY(symbol, name, own)
#define WAIT(symbol, name, own, effect, parameters, arguments) ENTRY(symbol, name, own)
#define ANSWER(symbol, name, own, parameters, arguments) ENTRY(symbol, name, own)
#define CHARGE(symbol, name, own, parameters, arguments) ENTRY(symbol, name, own)
#define GATE(symbol, name, own, parameters, arguments)
#include "calls/driver.def"
#undef LINEAR
#undef ALLOCATION
#undef RELEASE
#undef LAUNCH
#undef LOAD
#undef WORK
#undef WAIT
#undef ANSWER
#undef CHARGE
#undef GATE
};

bool of_cuda(const void *caller)
{
	Dl_info info;
	return in_runtime(caller) || (dladdr(caller, &info) != 0 && info.dli_fname != nullptr && known(info.dli_fname));
}

} // namespace

void *driver_call(const char *symbol, void *found)
{
	for (const auto &f : functions)
		if (found != nullptr && strcmp(symbol, f.symbol) == 0 && found == driver_symbol(symbol))
			return f.ours;
	return found;
}

void *driver_call(const char *name, int version, uint64_t flags, void *found, const void *caller)
{
	const int own = (flags & 2) != 0; // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

	for (const auto &f : functions)
		if (found != nullptr && version >= 3020 && strcmp(name, f.name) == 0 && (f.own < 0 || f.own == own))
			return of_cuda(caller) ? found : f.ours;
	return found;
}

} // namespace lazy

using namespace lazy;

// The _ptsz functions take no flags for those of the per-thread default stream.
#define DRIVER_ENTRY_POINT(name, unflagged)                                                                            \
	cudaError_t name(const char *symbol, void **found, uint64_t flags, int *status)                                \
	{                                                                                                              \
		const void *const caller = __builtin_return_address(0);                                                \
		cudaError_t error = REAL(name)(symbol, found, flags, status);                                          \
		if (error == cudaSuccess && symbol != nullptr && found != nullptr) {                                   \
			*found = driver_call(symbol, 11000, (flags & 3) != 0 ? flags : unflagged, *found,              \
			                     caller);                                             \
			*found = hand_out(symbol, *found, caller);                                \
		}                                                                                                      \
		return error;                                                                                          \
	}
DRIVER_ENTRY_POINT(cudaGetDriverEntryPoint, 0)
DRIVER_ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, 2)

#define DRIVER_ENTRY_POINT_BY_VERSION(name, unflagged)                                                                 \
	cudaError_t name(const char *symbol, void **found, unsigned version, uint64_t flags, int *status)              \
	{                                                                                                              \
		const void *const caller = __builtin_return_address(0);                                                \
		cudaError_t error = REAL(name)(symbol, found, version, flags, status);                                 \
		if (error == cudaSuccess && symbol != nullptr && found != nullptr) {                                   \
			*found = driver_call(symbol, static_cast<int>(version), (flags & 3) != 0 ? flags : unflagged,  \
			                     *found, caller);                                     \
			*found = hand_out(symbol, *found, caller);                                \
		}                                                                                                      \
		return error;                                                                                          \
	}
DRIVER_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion, 0)
DRIVER_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz, 2)

#define ALLOCATE(symbol, own, bytes, taken, arguments)                                                                 \
	const auto real = REAL_DRIVER(symbol);                                                                         \
	if (real == nullptr)                                                                                           \
		return CUDA_ERROR_NOT_FOUND;                                                                           \
	const DriverAllocation wanted arguments;                                                                       \
	DriverCharge charge(#symbol, wanted, taken, own == 1);                                                         \
	CUresult answer;                                                                                               \
	do {                                                                                                           \
		if (charge.refused() != CUDA_SUCCESS)                                                                  \
			return charge.refused();                                                                       \
		answer = real arguments;                                                                               \
	} while (charge.await_again(answer));                                                                          \
	return charge.made(allocated(answer, #symbol, bytes));
#define LINEAR(symbol, name, own, bytes, taken, parameters, arguments)                                                 \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		CUresult result;                                                                                       \
		if (driver_allocates(#symbol, DriverAllocation arguments, taken, own == 1, &result))                    \
			return result;                                                                                 \
		ALLOCATE(symbol, own, bytes, taken, arguments)                                                          \
	}
#define ALLOCATION(symbol, name, own, bytes, parameters, arguments)                                                    \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		ALLOCATE(symbol, own, bytes, bytes, arguments)                                                         \
	}
#define RELEASE(symbol, name, own, parameters, arguments)                                                              \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		CUresult result;                                                                                       \
		if (driver_frees(DriverFree arguments, own == 1, &result))                                             \
			return checked(result, #symbol);                                                               \
		const auto real = REAL_DRIVER(symbol);                                                                 \
		if (real == nullptr)                                                                                   \
			return CUDA_ERROR_NOT_FOUND;                                                                   \
		return driver_released(#symbol, DriverFree arguments, own == 1,                                        \
		                       [&] { return called(#symbol, Effect::neither, [&] { return real arguments; }); }); \
	}
#define LAUNCH(symbol, name, own, stream, parameters, arguments)                                                       \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		const auto real = REAL_DRIVER(symbol);                                                                 \
		if (real == nullptr)                                                                                   \
			return CUDA_ERROR_NOT_FOUND;                                                                   \
		const DriverLaunch launch arguments;                                                                   \
		await_driver_references(launch);                                                                       \
		await_window(stream, own);                                                                             \
		if (const CUresult refused = await_local_memory_of(#symbol, launch.kernel); refused != CUDA_SUCCESS)   \
			return refused;                                                                                \
		return launches(#symbol, [&] { return real arguments; });                                              \
	}
#define LOAD(symbol, name, own, values, count, parameters, arguments)                                                 \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		const auto real = REAL_DRIVER(symbol);                                                                 \
		if (real == nullptr)                                                                                   \
			return CUDA_ERROR_NOT_FOUND;                                                                   \
		return loads(#symbol, values, count, [&] { return real arguments; });                                  \
	}
#define WORK(symbol, name, own, parameters, arguments)                                                                 \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		const auto real = REAL_DRIVER(symbol);                                                                 \
		if (real == nullptr)                                                                                   \
			return CUDA_ERROR_NOT_FOUND;                                                                   \
		const Submitting submitting;                                                                              \
		return called(#symbol, Effect::neither, [&] { return real arguments; });                               \
	}
#define WAIT(symbol, name, own, effect, parameters, arguments)                                                         \
	CUresult symbol parameters                                                                                     \
	{                                                                                                              \
		const auto real = REAL_DRIVER(symbol);                                                                 \
		if (real == nullptr)                                                                                   \
			return CUDA_ERROR_NOT_FOUND;                                                                   \
		const Waits waits;                                                                                     \
		const CUresult result = called(#symbol, Effect::effect, [&] { return real arguments; });               \
		settle_pools();                                                                                        \
		return result;                                                                                         \
	}
#define ANSWER(symbol, name, own, parameters, arguments)
#define CHARGE(symbol, name, own, parameters, arguments)
#define GATE(symbol, name, own, parameters, arguments)
#include "calls/driver.def"
