// shortage.h: memory that the scheduler has granted, and that the device has not (shortage.cc).
//
// Other processes may have memory there that no call shows: the code of libraries, local memory. The run sees it when it
// next looks at the memory of each process (runner/live), and charges it. So the library gives back what it has no use for,
// waits for two such looks, and asks again: the scheduler then grants what there is.
#ifndef CASE_LAZY_SHORTAGE_H
#define CASE_LAZY_SHORTAGE_H

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

} // namespace lazy
#endif
