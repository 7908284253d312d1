// report.h: errors of CUDA, as the program and the scheduler hear of them (report.cc).
#ifndef CASE_LAZY_REPORT_H
#define CASE_LAZY_REPORT_H

#include <stdint.h>

#include "abi/abi.h"
#include "probe/case.h"

namespace lazy {

// seen passes a call's result on. It reports missing memory, and an error that stays. lasting,
// for a call that only repeats an error, reports an error that stays.
cudaError_t seen(cudaError_t result, const char *call);
cudaError_t for_memory(cudaError_t result, const char *call); // reports missing memory alone
cudaError_t lasting(cudaError_t result, const char *call);
bool stays(cudaError_t error); // it is not cleared by cudaGetLastError
// A recorded call failed, whose success the program has been told.
void failed_replay(cudaError_t error, const char *call);
cudaError_t launch_result(cudaError_t result, const char *call);
// failed_allocation reports and returns cudaErrorMemoryAllocation.
cudaError_t failed_allocation(const char *call, uint64_t bytes);
// refused_allocation does so for bytes that the scheduler has refused.
cudaError_t refused_allocation(const char *call, uint64_t bytes);
// no_context reports that memory for the context is missing, unless the thread has just reported missing memory.
void no_context();
// fail returns an error of the lazy runtime, which is the thread's last error from now on. It
// calls the CUDA runtime, so nobody who may be inside a call of that runtime comes here.
cudaError_t fail(cudaError_t error);
// OwnErrors: what fails meanwhile in this thread is not the CUDA runtime's last error, because the program has called the
// driver.
class OwnErrors {
public:
	OwnErrors();
	~OwnErrors();
	OwnErrors(const OwnErrors &) = delete;
	OwnErrors &operator=(const OwnErrors &) = delete;
};
// last_error is the thread's last error, which `call` asks for, where CUDA's own is `of_cuda`.
cudaError_t last_error(cudaError_t of_cuda, const char *call, bool clear);
void forget_error(); // cudaDeviceReset

} // namespace lazy
#endif
