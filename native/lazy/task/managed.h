// managed.h: managed memory, and how much of it is on the device (managed.cc).
#ifndef CASE_LAZY_MANAGED_H
#define CASE_LAZY_MANAGED_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

#include "abi/abi.h"

namespace lazy {

struct GuardedRegion {
	uint64_t bytes;
	bool managed;
	int device; // as the program counts devices
};

// GuardedAllocation is made before CUDA is asked for memory, and asks the run whether so much managed memory may be there
// (wire.h, MANAGED). Other memory counts beside it if nobody else accounts for it: in a process whose device was settled
// before it began, and that has managed memory.
class GuardedAllocation {
public:
	GuardedAllocation(const char *call, uint64_t bytes, bool managed);
	~GuardedAllocation(); // CUDA has not made it
	GuardedAllocation(const GuardedAllocation &) = delete;
	GuardedAllocation &operator=(const GuardedAllocation &) = delete;
	cudaError_t refused() const { return refused_; } // and reported
	void made(const void *at);

private:
	const uint64_t bytes_;
	const bool managed_;
	bool counted_ = false;
	cudaError_t refused_ = cudaSuccess;
};

// GuardedFree is made before CUDA frees memory, because another thread may be given the same address at once.
class GuardedFree {
public:
	explicit GuardedFree(const void *at);
	GuardedFree(const GuardedFree &) = delete;
	GuardedFree &operator=(const GuardedFree &) = delete;
	void done(bool freed);

private:
	const void *const at_;
	GuardedRegion region_ = {}; // no bytes: nothing is known of it
};

// forget_guarded: all memory of the device is gone with its context.
void forget_guarded(int device);

// know_managed_variable: the CUDA runtime is told of a variable (runtime/registration.cc). await_managed_variables asks before the
// first launch that may use them.
void know_managed_variable(size_t bytes);
bool has_managed_variables();
cudaError_t await_managed_variables(const std::function<cudaError_t()> &await_task);

// active_managed is how much managed memory was on the device at the latest reading. read_active reads a part of the process's
// page table, if it is time, and says whether the number has changed. One thread calls it.
uint64_t active_managed();
bool read_active();

void renew_managed(); // in a child of fork

} // namespace lazy
#endif
