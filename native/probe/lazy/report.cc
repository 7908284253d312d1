// report.cc: no CUDA error is silent.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../activity.h"
#include "grace.h"
#include "runtime.h"

extern "C" {
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError(void);
}

namespace lazy {

// The calling thread's last error, if it is ours and no later one is CUDA's.
static thread_local cudaError_t own_error = cudaSuccess;

// The context, the device or the connection to it is lost (CUDA Runtime API, "Error
// handling": "the process must be terminated and relaunched").
bool stays(cudaError_t error)
{
	switch (error) {
	case cudaErrorDevicesUnavailable:
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorECCUncorrectable:
	case cudaErrorContained:
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorContextIsDestroyed:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
	case cudaErrorTensorMemoryLeak:
	case cudaErrorMpsClientTerminated:
	case cudaErrorExternalDevice:
	case cudaErrorUnknown:
		return true;
	}
	return error >= 805 && error <= 809; // MPS: the server is gone, full or not ready
}

cudaError_t lasting(cudaError_t result, const char *call)
{
	if (result == cudaSuccess || !stays(result))
		return result;
	if (turned_away(result) && Grace::since() != 0) // the process has tried again since
		case_report_fault_since(result, call, Grace::since());
	else
		case_report_fault(result, call);
	return result;
}

cudaError_t seen(cudaError_t result, const char *call)
{
	if (result == cudaErrorMemoryAllocation)
		case_report_oom(0, call);
	return lasting(result, call);
}

cudaError_t launch_result(cudaError_t result, const char *call)
{
	if (result == cudaErrorMemoryAllocation)
		case_report_oom(0, call);
	else if (result != cudaSuccess)
		case_report_fault(result, call); // the kernel did not run: what follows is computed without it
	return result;
}

void failed_replay(cudaError_t error, const char *call)
{
	if (error != cudaErrorMemoryAllocation && !stays(error))
		case_report_fault(error, call); // the program was told that it had succeeded
}

cudaError_t failed_allocation(const char *call, uint64_t bytes)
{
	char where[160];
	size_t free = 0, total = 0;

	if ((bound || mode() != Mode::task) && REAL(cudaMemGetInfo)(&free, &total) == cudaSuccess)
		snprintf(where, sizeof where, "%s, device %d: %.2f of %.2f GiB free, %.2f GiB ours", call,
		         scheduled() < 0 ? 0 : scheduled(), static_cast<double>(free) / (1 << 30),
		         static_cast<double>(total) / (1 << 30), static_cast<double>(charged()) / (1 << 30));
	else
		snprintf(where, sizeof where, "%s, device %d: %.2f GiB ours", call, scheduled(),
		         static_cast<double>(charged()) / (1 << 30));
	case_report_oom(bytes, where);
	return fail(cudaErrorMemoryAllocation);
}

// CUDA forgets its own last error, which is an earlier one, so that whatever it has when
// it is asked next came after this one. What stays it keeps.
cudaError_t fail(cudaError_t error)
{
	use_device();
	REAL(cudaGetLastError)();
	own_error = error;
	return error;
}

void forget_error() { own_error = cudaSuccess; }

cudaError_t last_error(cudaError_t of_cuda, bool clear)
{
	const cudaError_t error = of_cuda != cudaSuccess ? of_cuda : own_error;

	if (clear && own_error == cudaErrorNotReady)
		saw_wait_end();
	if (clear)
		forget_error();
	return error;
}

static std::atomic<uint64_t> unseen{0}; // a bit for each device
static pid_t process;                   // a child made by fork has no work

// Under task binding there is one.
static uint64_t this_device()
{
	int device = 0;

	if (!one_device())
		REAL(cudaGetDevice)(&device);
	return uint64_t{1} << (device & 63);
}

// A fault in kernels that nobody waited for would never be seen.
static void report_at_exit()
{
	if (getpid() != process)
		return;
	use_device();
	const uint64_t here = this_device(), left = unseen.load();
	if (left & here) // in a context of the program's own, perhaps
		seen(REAL(cudaDeviceSynchronize)(), "the end of the program");
	for (int device = 0; device < 64; device++)
		if ((left & ~here) >> device & 1 && REAL(cudaSetDevice)(device) == cudaSuccess)
			seen(REAL(cudaDeviceSynchronize)(), "the end of the program");
}

// The handler is to be registered after those of the CUDA runtime, so that it runs
// before they take the context away: not before there is a context.
void working_in_order()
{
	static const bool registered = [] {
		process = getpid();
		return atexit(report_at_exit) == 0;
	}();
	const uint64_t device = this_device();
	if (registered && (unseen.load(std::memory_order_relaxed) & device) == 0)
		unseen.fetch_or(device, std::memory_order_relaxed);
	activity_began();
}

static std::atomic<bool> others{false};

void other_streams()
{
	if (!others.load(std::memory_order_relaxed))
		others.store(true);
}

void working()
{
	other_streams();
	working_in_order();
}

// Before a call that may be the one that makes the context it is too early for that; the
// first of the program's calls asks for no work.
void working_soon()
{
	static std::atomic<bool> called{false};
	if (called.exchange(true))
		working();
}

bool at_work() { return (unseen.load(std::memory_order_relaxed) & this_device()) != 0; }
void idle() { unseen.fetch_and(~this_device(), std::memory_order_relaxed); }

__attribute__((constructor)) static void watch() { activity_watched(); }

uint64_t before_wait() { return activity_mark(); }

void waited_in_order(uint64_t before)
{
	if (!others && (unseen.load(std::memory_order_relaxed) & ~this_device()) == 0)
		activity_over(before);
}

void waited(uint64_t before)
{
	if (unseen.load(std::memory_order_relaxed) == 0)
		activity_over(before);
}

} // namespace lazy
