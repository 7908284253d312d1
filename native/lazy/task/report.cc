// report.cc: no CUDA error is silent.
#include <inttypes.h>
#include <stdio.h>

#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/mps_recovery.h"
#include "report.h"
#include "task.h"

extern "C" {
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaGetLastError(void);
}

namespace lazy {

// The calling thread's last error, if this library returned it and CUDA has returned none since.
static thread_local cudaError_t own_error = cudaSuccess;
static thread_local bool of_the_driver = false; // this thread's errors are
// Missing memory was reported since the calling thread last cleared CUDA's last error.
static thread_local bool told_oom = false;

static void report_oom(uint64_t bytes, const char *where)
{
	told_oom = true;
	case_report_oom(bytes, where);
}

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
	if (mps_rejected(result) && MpsRecovery::since() != 0) // the process has tried again since
		case_report_fault_since(result, call, MpsRecovery::since());
	else
		case_report_fault(result, call);
	return result;
}

cudaError_t for_memory(cudaError_t result, const char *call)
{
	if (result == cudaErrorMemoryAllocation)
		report_oom(0, call);
	return result;
}

cudaError_t seen(cudaError_t result, const char *call) { return lasting(for_memory(result, call), call); }

void no_context()
{
	if (!told_oom)
		report_oom(0, "the context");
}

cudaError_t launch_result(cudaError_t result, const char *call)
{
	if (for_memory(result, call) != cudaErrorMemoryAllocation && result != cudaSuccess)
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

	if (!deferring() && has_runtime() && REAL(cudaMemGetInfo)(&free, &total) == cudaSuccess)
		snprintf(where, sizeof where, "%s, device %d: %.2f of %.2f GiB free, %.2f GiB ours", call,
		         scheduled() < 0 ? 0 : scheduled(), static_cast<double>(free) / (1 << 30),
		         static_cast<double>(total) / (1 << 30), static_cast<double>(Task::process().in_use()) / (1 << 30));
	else
		snprintf(where, sizeof where, "%s, device %d: %.2f GiB ours", call, scheduled(),
		         static_cast<double>(Task::process().in_use()) / (1 << 30));
	report_oom(bytes, where);
	return fail(cudaErrorMemoryAllocation);
}

cudaError_t refused_allocation(const char *call, uint64_t bytes)
{
	char where[160];

	snprintf(where, sizeof where, "%s, which the scheduler refused", call); // runner/faults.go knows the words
	report_oom(bytes, where);
	return fail(cudaErrorMemoryAllocation);
}

// CUDA forgets its own last error, which is an earlier one. So an error that CUDA has when it is
// asked next came after this one. CUDA keeps an error that stays.
cudaError_t fail(cudaError_t error)
{
	if (of_the_driver)
		return error;
	use_device();
	if (const cudaError_t of_cuda = awaits_device() ? cudaSuccess : REAL(cudaGetLastError)(); !told_oom)
		for_memory(of_cuda, "cudaGetLastError");
	told_oom = false;
	own_error = error;
	return error;
}

OwnErrors::OwnErrors() { of_the_driver = true; }
OwnErrors::~OwnErrors() { of_the_driver = false; }

void forget_error() { own_error = cudaSuccess; }

// Calls that are passed on without a look at their result show here that memory was missing.
cudaError_t last_error(cudaError_t of_cuda, const char *call, bool clear)
{
	if (!told_oom)
		for_memory(of_cuda, call);
	if (clear)
		told_oom = false;
	const cudaError_t error = lasting(of_cuda, call) != cudaSuccess ? of_cuda : own_error;

	if (clear && own_error == cudaErrorNotReady)
		saw_wait_end();
	if (clear)
		forget_error();
	return error;
}

} // namespace lazy
