// revoke.cc: the scheduler takes device memory back, and gives it again.
//
// A revocation comes on the thread that reads the connection. It closes the gate of calls that give
// the device work (under_way.h), waits for the calls that are inside and then for the device, and moves
// chunks to the host. All of this is bounded by the revocation's deadline, and undone when the
// deadline passes: the answer is busy. What has moved stays mapped, from the host, so an access that
// nobody foresaw is slow and not wrong. The next call that gives the device work asks the
// scheduler, and waits until memory is back on the device.
#include <stdio.h>
#include <unistd.h>

#include <atomic>

#include "../activity.h"
#include "../client.h"
#include "clock.h"
#include "device.h"
#include "drain.h"
#include "explicit.h"
#include "graphs.h"
#include "lock.h"
#include "memory.h"
#include "mode.h"
#include "objects.h"
#include "real.h"
#include "revoke.h"
#include "swap.h"
#include "task.h"
#include "under_way.h"
#include "window.h"

namespace lazy {

static std::atomic<bool> must_ask{false};
static std::atomic<bool> prepared{false}; // the scheduler knows that this process can give memory back
static std::atomic<bool> welcomed{false}; // the run moves memory in our chunks

bool revoked() { return must_ask.load(std::memory_order_relaxed); }

struct Holdings {
	uint64_t resident, fixed; // bytes on the device, and of these, that cannot move
};

// What is charged and has no range is the CUDA runtime's, and stays on the device.
static Holdings holdings()
{
	const uint64_t charged = Task::process().charged(), ranges = range_bytes();
	const uint64_t others = charged > ranges ? charged - ranges : 0;

	return {resident_bytes() + others, resident_bytes() - movable_bytes() + others};
}

void show_holdings()
{
	if (!prepared)
		return;
	const Holdings now = holdings();
	show_calls(); // by now the scheduler has the page
	activity_holds(now.resident, now.resident, now.fixed);
}

static void unable(client_revoked *answer, const char *why)
{
	answer->outcome = CASE_REVOKED_UNABLE;
	snprintf(answer->why, sizeof answer->why, "%s", why);
}

// move_out moves memory while nothing of the process runs. `lock` is held, and the gate is closed.
static void move_out(const client_revocation &r, client_revoked *answer)
{
	const uint64_t began = now_ns();

	answer->outcome = CASE_REVOKED_DONE;
	answer->freed_bytes = await_moved_out(r.bytes, home(), &answer->copy_ns);
	answer->bookkeeping_ns = now_ns() - began - answer->copy_ns;
	Task::process().trim(); // so that what is granted and what is told are the same
	if (r.action == CASE_REVOKE_YIELD)
		must_ask.store(true);
}

// serve is a revocation with `lock` held.
static void serve(const client_revocation &r, uint64_t deadline_ns, client_revoked *answer)
{
	const uint64_t began = now_ns();
	const CUcontext context = context_of_task();
	CUresult result = CUDA_SUCCESS;

	answer->outcome = CASE_REVOKED_BUSY;
	if (!welcomed)
		return unable(answer, "the run moves memory in chunks of another size");
	if (!self_contained())
		return unable(answer, "a part of the program gives the device work past the CUDA runtime");
	if (is_explicit(r.task))
		return unable(answer, "the program itself has asked for the task");
	if (Task::process().grant().id != r.task || Task::process().phase() != Phase::bound || context == nullptr)
		return; // the task is over, or has just begun
	use_device(); // this thread's first call of the runtime would be about another
	ClosedGate closed;
	if (!closed.await_empty(deadline_ns) || being_captured()) // a wait for the device would break the capture
		return;
	if (!await_drained(context, deadline_ns, &result))
		return;
	answer->drain_ns = now_ns() - began;
	if (result != CUDA_SUCCESS)
		return unable(answer, "the device has failed");
	if (driver()->set_current(context) != CUDA_SUCCESS)
		return unable(answer, "the context is gone");
	move_out(r, answer);
}

static void revoke(const client_revocation *r, client_revoked *answer)
{
	const uint64_t deadline_ns = now_ns() + uint64_t{r->deadline_ms} * 1000000u;

	if (!await_until(deadline_ns, [] { return pthread_mutex_trylock(&lock) == 0; })) {
		answer->outcome = CASE_REVOKED_BUSY;
		return;
	}
	serve(*r, deadline_ns, answer);
	const Holdings left = holdings();
	answer->resident_bytes = left.resident;
	answer->fixed_bytes = left.fixed;
	pthread_mutex_unlock(&lock);
}

static void welcome(const client_welcome *w)
{
	welcomed.store(w->chunk_bytes == movable_chunk);
	set_window(uint64_t{w->window_us} * 1000u);
	for (int i = 0; i < w->file_count; i++)
		close(w->files[i]);
}

void forget_revocation() { must_ask.store(false); }

void prepare_revocation()
{
	static const client_hooks hooks = {welcome, revoke};
	static const bool can = movable() && client_can_evict(&hooks);

	prepared.store(can);
}

void renew_revocation()
{
	renew_drain();
	must_ask.store(false);
}

// One thread asks for all, for what the latest launches reference. The launch that waits is one of them. No more
// comes back than this thread has asked for: what is taken after the grant and before this thread goes on is not the
// task's any more. A refusal leaves the memory where it is: the program goes on with memory that is mapped from the
// host.
void await_permission()
{
	Locked one_at_a_time(Task::process().asking());
	while (revoked()) {
		case_task task;
		uint64_t need, referenced;
		int answer;
		{
			Locked locked;
			task = Task::process().grant();
			referenced = std::min(referenced_bytes(), Task::process().charged());
			need = std::min(wanted_bytes(), referenced);
		}
		{
			Interruptible here;
			answer = client_await_resume(&task, need, referenced);
		}
		Locked locked;
		if (Task::process().grant().id != task.id) // it has ended meanwhile
			continue;
		ClosedGate closed;
		if (answer == CASE_OK && client_permitted(&task)) {
			const uint64_t began = now_ns();
			uint64_t copy_ns = 0;
			const uint64_t bytes = move_in(need, home(), &copy_ns);
			client_resumed(&task, bytes, copy_ns, now_ns() - began - copy_ns);
		}
		if (answer != CASE_OK || client_permitted(&task))
			must_ask.store(false);
	}
}

} // namespace lazy
