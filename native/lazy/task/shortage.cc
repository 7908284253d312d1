// shortage.cc: see shortage.h.
#include <stdlib.h>
#include <time.h>

#include "abi/lock.h"
#include "memory/memory.h"
#include "probe/client.h"
#include "program/mode.h"
#include "pools.h"
#include "shortage.h"

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

} // namespace lazy
