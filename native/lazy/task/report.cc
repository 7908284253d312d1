// report.cc: no CUDA error is silent.
#include <inttypes.h>
#include <stdio.h>

#include "abi/symbols.h"
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

	if (!deferring() && has_runtime() && REAL(cudaMemGetInfo)(&free, &total) == cudaSuccess)
		snprintf(where, sizeof where, "%s, device %d: %.2f of %.2f GiB free, %.2f GiB ours", call,
		         scheduled() < 0 ? 0 : scheduled(), static_cast<double>(free) / (1 << 30),
		         static_cast<double>(total) / (1 << 30), static_cast<double>(Task::process().in_use()) / (1 << 30));
	else
		snprintf(where, sizeof where, "%s, device %d: %.2f GiB ours", call, scheduled(),
		         static_cast<double>(Task::process().in_use()) / (1 << 30));
	case_report_oom(bytes, where);
	return fail(cudaErrorMemoryAllocation);
}

// CUDA forgets its own last error, which is an earlier one. So an error that CUDA has when it is
// asked next came after this one. CUDA keeps an error that stays.
cudaError_t fail(cudaError_t error)
{
	if (of_the_driver)
		return error;
	use_device();
	REAL(cudaGetLastError)();
	own_error = error;
	return error;
}

OwnErrors::OwnErrors() { of_the_driver = true; }
OwnErrors::~OwnErrors() { of_the_driver = false; }

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

} // namespace lazy
