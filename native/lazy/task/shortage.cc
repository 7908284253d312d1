// shortage.cc: see shortage.h.
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <optional>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "memory/memory.h"
#include "probe/client.h"
#include "program/mode.h"
#include "pools.h"
#include "report.h"
#include "shortage.h"
#include "stream_capture.h"

extern "C" cudaError_t cudaGetLastError(void);

namespace lazy {

static const int most_steps = 20;

static long grace_ms()
{
	const char *const text = client_variable("CASE_ROOM_GRACE_MS");
	return text != nullptr && *text != '\0' ? atol(text) : 5000;
}

bool Patience::over() const { return steps_ >= most_steps || mode() == Mode::passive || grace_ms() <= 0; }

void Patience::await_look()
{
	const long us = grace_ms() * 1000 / most_steps;
	const timespec step = {us / 1000000, us % 1000000 * 1000};
	const Interruptible here;

	steps_++;
	nanosleep(&step, nullptr);
}

Shortage::Shortage(Task *task, const char *call, uint64_t bytes)
    : task_(task), call_(call), bytes_(bytes), memory_(Task::Memory::range)
{
}

// Pools are charged in whole granules.
Shortage::Shortage(Task *task, const char *call, uint64_t bytes, cudaMemPool_t pool)
    : task_(task), call_(call), bytes_(pool == nullptr ? bytes : whole_granules(bytes)), pool_(pool),
      memory_(pool == nullptr ? Task::Memory::made : Task::Memory::pool)
{
}

bool Shortage::await_again(int result)
{
	if (result != cudaErrorMemoryAllocation || bytes_ == 0 || patience_.over() || (pool_ != nullptr && !is_charged(pool_)))
		return false;
	const uint64_t given = task_->await_lend(bytes_);
	patience_.await_look();
	refused_ = task_->await_lent(call_, bytes_, given, memory_);
	return refused_ == cudaSuccess;
}

static const uint64_t most_unseen = 32 << 20; // bytes: modules of libraries have tens of MiB

bool UnseenShortage::await_more()
{
	if (patience_.over() || being_captured())
		return false;
	std::optional<OwnErrors> of_the_driver;
	if (api_ == Of::driver)
		of_the_driver.emplace();
	else
		REAL(cudaGetLastError)(); // the program is not to find it after the next try
	if (task_ == nullptr)
		task_ = api_ == Of::driver ? Task::of_context() : &Task::here();
	if (task_ == nullptr || !task_->held()) { // nobody can be asked
		patience_.await_look();
		return true;
	}
	const uint64_t wanted = std::min(std::max(2 * bytes_, granule), most_unseen);
	if (bytes_ == 0) {
		granted_ = task_->granted_unused() < wanted;
		refused_ = task_->await_charge(call_, wanted);
	} else {
		granted_ = true;
		const uint64_t given = task_->await_lend(bytes_);
		patience_.await_look();
		refused_ = task_->await_lent(call_, wanted, given, Task::Memory::made);
	}
	bytes_ = refused_ == cudaSuccess ? wanted : 0;
	return refused_ == cudaSuccess;
}

// What the call has taken shows when the run next looks.
void UnseenShortage::await_give_back()
{
	if (granted_)
		task_->await_lend(bytes_);
	task_->take_back(granted_ ? 0 : bytes_);
}

} // namespace lazy
