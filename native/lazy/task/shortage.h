// shortage.h: memory that the scheduler has granted, and that the device has not (shortage.cc).
//
// Other processes may have memory there that no call shows: the code of libraries, local memory. The run sees it when it
// next looks at the memory of each process (runner/live), and charges it. So the library gives back what it has no use for,
// waits for two such looks, and asks again: the scheduler then grants what there is.
#ifndef CASE_LAZY_SHORTAGE_H
#define CASE_LAZY_SHORTAGE_H

#include <algorithm>
#include <vector>

#include "task.h"

namespace lazy {

// Patience is for one call of the program. It lasts for 5 s of waiting for looks (CASE_ROOM_GRACE_MS), in 20 steps. Waits for
// the scheduler do not count.
class Patience {
public:
	bool over() const;
	void await_look(); // waits one step

private:
	int steps_ = 0;
};

// await_room_for tries until what makes a context finds memory for it. The run keeps the memory of contexts free, so
// nothing has to be given back.
template <typename Make> CUresult await_room_for(Make make)
{
	CUresult result = make();

	for (Patience patience; result == CUDA_ERROR_OUT_OF_MEMORY && !patience.over(); result = make())
		patience.await_look();
	return result;
}

// Shortage is of one allocation that is charged to a task.
class Shortage {
public:
	Shortage(Task *task, const char *call, uint64_t bytes); // of Task::await_range
	Shortage(Task *task, const char *call, uint64_t bytes, cudaMemPool_t pool); // nullptr: of Task::await_charge
	// await_again: the allocation had this result. true: memory was missing, and is granted anew, so the allocation is to be
	// tried again. false with an error in refused(): the scheduler refused, which is reported, and nothing but a pool is
	// charged any more. false without: the result stays, and the charge.
	bool await_again(int result);
	cudaError_t refused() const { return refused_; }

private:
	Task *const task_;
	const char *const call_;
	const uint64_t bytes_;
	const cudaMemPool_t pool_ = nullptr;
	const Task::Memory memory_;
	Patience patience_;
	cudaError_t refused_ = cudaSuccess;
};

// UnseenShortage is of a call for which CUDA takes memory that no call shows: code that is loaded, a graph, a launch. Such a call
// has done nothing when it fails for memory (cudaErrorMemoryAllocation, CUDA Runtime API, "Data types"), and the error does not
// stay. So it is tried again once the scheduler has granted some memory, for as long as the call lasts: others give that up, end or
// are started again. How much is missing is not known, so each try asks for twice as much. In a capture it is not tried again,
// because the error may have ended the capture.
class UnseenShortage {
public:
	enum class Of { runtime, driver }; // whose call it is

	explicit UnseenShortage(const char *call, Of api = Of::runtime) : call_(call), api_(api) {}
	~UnseenShortage()
	{
		if (bytes_ > 0)
			await_give_back();
	}
	UnseenShortage(const UnseenShortage &) = delete;
	UnseenShortage &operator=(const UnseenShortage &) = delete;
	// await_again: the call had this result. true: memory was missing, and it is to be tried again. Nothing has passed the gate
	// meanwhile. false with an error in refused(): the scheduler refused, which is reported.
	bool await_again(int result) { return result == cudaErrorMemoryAllocation && await_more(); }
	cudaError_t refused() const { return refused_; }

private:
	bool await_more();
	void await_give_back();

	const char *const call_;
	const Of api_;
	Task *task_ = nullptr;
	uint64_t bytes_ = 0; // that are charged for the call
	bool granted_ = false; // the scheduler was asked for them
	Patience patience_;
	cudaError_t refused_ = cudaSuccess;
};

// OptionValues are values of options with which code is loaded. CUDA also writes to them, so each try begins with the program's.
class OptionValues {
public:
	OptionValues(void **values, unsigned count) : values_(values), given_(values, values != nullptr ? values + count : values) {}
	void restore() const { std::copy(given_.begin(), given_.end(), values_); }

private:
	void **const values_;
	const std::vector<void *> given_;
};

} // namespace lazy
#endif
