// explicit.cc: tasks that the program asks for itself (probe/case.h).
//
// Explicit tasks come first. While a device has open explicit tasks, the lazy runtime asks only for
// what exceeds their sum there, whichever thread allocates or launches. The notes on explicit tasks
// have a lock of their own. No thread holds that lock while it waits, so the end of an explicit
// task waits for nobody.
#include <atomic>
#include <map>

#include "abi/lock.h"
#include "device/device.h"
#include "probe/client.h"
#include "program/mode.h"
#include "explicit.h"
#include "task.h"

namespace lazy {
namespace {

struct Open {
	int device;
	uint64_t bytes, heap;
};

struct Sums {
	std::atomic<unsigned> tasks;
	std::atomic<uint64_t> bytes, heap;
};

Sums sums[max_devices];
std::map<uint64_t, Open> *open_tasks; // by id
std::atomic<bool> any{false};
std::atomic<unsigned> asking{0}; // requests for the process's device that are not answered yet
pthread_mutex_t noting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

std::map<uint64_t, Open> &tasks()
{
	if (open_tasks == nullptr)
		open_tasks = new std::map<uint64_t, Open>; // outlives static destructors
	return *open_tasks;
}

Open *noted(const case_task *task)
{
	auto at = tasks().find(task->id);
	return at == tasks().end() ? nullptr : &at->second;
}

} // namespace

bool is_explicit(uint64_t id)
{
	Locked locked(noting);
	return tasks().count(id) > 0;
}

Cover cover_of(int device)
{
	if (!any.load(std::memory_order_relaxed))
		return {};
	const Sums &s = sums[device];
	return {s.tasks.load(), s.bytes.load(), s.heap.load()};
}

bool asks_here() { return asking.load() > 0; }

void note_explicit(const case_need &need, case_task *task)
{
	if (one_device())
		task->device = 0;
	if (mode() == Mode::passive || task->device >= max_devices)
		return;
	Locked locked(noting);
	Sums &s = sums[task->device];
	tasks()[task->id] = {task->device, need.bytes, need.heap_bytes};
	s.bytes.fetch_add(need.bytes);
	s.heap.fetch_add(need.heap_bytes);
	s.tasks.fetch_add(1);
	any.store(true);
}

bool has_explicit() { return any.load(std::memory_order_relaxed); }

// A child made by fork holds none of its parent's tasks (probe/case.h).
void renew_explicit()
{
	noting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	open_tasks = nullptr; // another thread may have been changing it
	any.store(false);
	asking.store(0);
	for (Sums &s : sums) {
		s.tasks.store(0);
		s.bytes.store(0);
		s.heap.store(0);
	}
}

} // namespace lazy

using namespace lazy;

void lazy_static_elsewhere(bool asks) { static_elsewhere(asks); }

// Under task binding the program has one device, 0. Where the process has nothing on a device,
// its explicit task goes where the scheduler says, and the process goes with the task. Otherwise
// the task goes to the process's device, after what is only recorded so far.
int lazy_await_before_ask(case_need *need, case_task *task)
{
	int answer = CASE_OK;

	if (chooses_devices())
		return CASE_OK;
	if ((need->flags & CASE_FLAG_DEVICE) != 0 && need->device != 0)
		return CASE_NO_DEVICE;
	need->flags &= ~CASE_FLAG_DEVICE;
	if (Task::process().await_explicit(*need, task, &answer))
		return answer;
	Locked locked; // the process stays on its device from here to the answer
	if (home() < 0)
		if (const cudaError_t error = await_device(); error != cudaSuccess)
			return error == cudaErrorNotReady ? CASE_TIMED_OUT : CASE_REFUSED;
	if (scheduled() >= 0) {
		need->flags |= CASE_FLAG_DEVICE;
		need->device = scheduled();
		asking.fetch_add(1);
	}
	return CASE_OK;
}

// What is granted needs no deferring: under task binding the process is bound for its task.
void lazy_await_after_ask(const case_need *need, case_task *task, int answer)
{
	const bool granted = answer == CASE_OK && task->device >= 0;

	if (granted && !is_explicit(task->id))
		note_explicit(*need, task);
	if (!one_device())
		return;
	if ((need->flags & CASE_FLAG_DEVICE) != 0)
		asking.fetch_sub(1);
	if (granted)
		await_device(); // its error is that of the program's next call too
}

void lazy_task_grew(const case_task *task, uint64_t bytes)
{
	Locked locked(noting);

	if (Open *t = noted(task); t != nullptr) {
		t->bytes += bytes;
		sums[t->device].bytes.fetch_add(bytes);
	}
}

void lazy_task_shrank(const case_task *task, uint64_t bytes)
{
	Locked locked(noting);

	if (Open *t = noted(task); t != nullptr) {
		const uint64_t less = bytes < t->bytes ? bytes : t->bytes;
		t->bytes -= less;
		sums[t->device].bytes.fetch_sub(less);
	}
}

void lazy_task_ends(const case_task *task)
{
	Locked locked(noting);

	if (const Open *t = noted(task); t != nullptr) {
		Sums &s = sums[t->device];
		s.tasks.fetch_sub(1);
		s.bytes.fetch_sub(t->bytes);
		s.heap.fetch_sub(t->heap);
		tasks().erase(task->id);
	}
}
