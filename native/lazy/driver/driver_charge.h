// driver_charge.h: what the driver allocates is charged to the process's task (driver_charge.cc).
#ifndef CASE_LAZY_DRIVER_CHARGE_H
#define CASE_LAZY_DRIVER_CHARGE_H

#include <stdint.h>

#include <functional>
#include <optional>

#include "abi/abi.h"
#include "task/managed.h"
#include "task/shortage.h"
#include "task/task.h"
#include "driver_memory.h"

namespace lazy {

// DriverCharge is made before the driver is asked for so many bytes, and waits until the scheduler has granted them.
class DriverCharge {
public:
	DriverCharge(const char *call, const DriverAllocation &wanted, uint64_t bytes, bool own);
	// refused: the error that the program is to get instead. CUDA_SUCCESS: the driver is to be asked.
	CUresult refused() const { return refused_; }
	// await_again: the driver has answered. true: it had no memory, and refused() says anew whether it is to be asked.
	bool await_again(CUresult result);
	// made notes what the driver has answered, and returns it.
	CUresult made(CUresult result);

private:
	void guard(const char *call);

	const DriverAllocation &wanted_;
	const uint64_t bytes_;
	Task *task_;          // nullptr: nothing is charged
	bool graph_ = false; // the allocation is a graph's
	cudaMemPool_t pool_ = nullptr; // or a pool's
	CUresult refused_ = CUDA_SUCCESS;
	std::optional<Shortage> shortage_;
	std::optional<GuardedAllocation> guarded_;
};

// driver_released does a free of the driver's, and gives back what was charged.
CUresult driver_released(const char *call, const DriverFree &free, bool own, const std::function<CUresult()> &run);

// How many bytes an array has, as its description says.
uint64_t array_bytes(const void *description);
uint64_t array3d_bytes(const void *description);

} // namespace lazy
#endif
