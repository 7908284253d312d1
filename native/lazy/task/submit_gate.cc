// submit_gate.cc: calls that give work to the device, and the gate before them.
#include <atomic>

#include "abi/clock.h"
#include "abi/lock.h"
#include "memory/memory.h"
#include "probe/activity.h"
#include "revoke.h"
#include "stop.h"
#include "submit_gate.h"

namespace lazy {

// A call counts itself and then looks whether the gate is closed. A thread closes the gate and then
// looks at the count. All of this is sequentially consistent, so one of the two sees the other.
static std::atomic<uint64_t> begun{1}, over{1}; // from 1: no quiescence has the number 0
static std::atomic<bool> closed{false};
static std::atomic<bool> shown{false}; // the scheduler sees the calls under way (probe/activity.h)

// Inside is what a thread is inside of: one call, and perhaps calls that a signal handler makes
// during the call. They pass with the call, because who has closed the gate waits for it.
static thread_local struct {
	unsigned depth;
	void *shown_on; // the activity page; nullptr: none
} inside;

void show_calls()
{
	if (!shown.exchange(true) && inside.depth > 0)
		inside.shown_on = activity_enter();
}

void show_resumed()
{
	if (shown.load(std::memory_order_relaxed) && inside.shown_on == nullptr)
		inside.shown_on = activity_enter();
}

void hide_resumed()
{
	if (inside.shown_on != nullptr)
		activity_leave(inside.shown_on, false);
	inside.shown_on = nullptr;
}

static void enter(bool works)
{
	while (inside.depth == 0) {
		begun.fetch_add(1);
		if (!closed && !(works && (revoked() || kernel_is_left())))
			break;
		over.fetch_add(1); // so that who has closed the gate need not wait for this call
		if (closed) {
			Locked until_open;
		} else if (works && kernel_is_left()) {
			hide_resumed();
			await_kernel();
		} else if (works) {
			await_permission();
		}
	}
}

void enter_submit_gate()
{
	enter(true);
	if (inside.depth++ == 0)
		show_resumed();
}

// The scheduler does not see the call: it is a phase of the host.
void enter_to_inspect()
{
	for (;;) {
		enter(false);
		inside.depth++;
		if (inside.depth > 1 || !some_memory_bare())
			return;
		leave_submit_gate(); // who maps takes `lock`, whose holder may wait for this call
		need_mapped();
	}
}

void await_open_submit_gate()
{
	while (closed && inside.depth == 0)
		Locked until_open;
}

bool outermost_in_gate() { return inside.depth == 1; }

bool await_alone_in_gate(uint64_t deadline_ns)
{
	return await_until(deadline_ns, [] { return begun == over + 1; });
}

void leave_submit_gate(bool launches)
{
	if (--inside.depth > 0)
		return;
	if (inside.shown_on != nullptr)
		activity_leave(inside.shown_on, launches);
	inside.shown_on = nullptr;
	over.fetch_add(1);
}

static void *show_wait(bool for_kernel)
{
	if (for_kernel)
		await_kernel();
	return shown.load(std::memory_order_relaxed) ? activity_enter() : nullptr;
}

Waits::Waits(bool for_kernel) : shown_on_(show_wait(for_kernel)) {}

Waits::~Waits()
{
	if (shown_on_ != nullptr)
		activity_leave(shown_on_, false);
}

// `over` is read first. If `begun` equals it later, no call was under way when `over` was read, and
// none has begun since.
Quiescence Quiescence::now()
{
	Quiescence quiescence;
	const uint64_t ended = over;

	if (begun == ended)
		quiescence.number_ = ended;
	return quiescence;
}

bool Quiescence::goes_on() const { return begun == number_; }

ClosedSubmitGate::ClosedSubmitGate() { closed = true; }

bool ClosedSubmitGate::await_empty(uint64_t deadline_ns) const
{
	return await_until(deadline_ns, [] { return begun == over; });
}

ClosedSubmitGate::~ClosedSubmitGate() { closed = false; }

static std::atomic<uint64_t> staying{0}; // calls
static std::atomic<bool> leaving{false};

Staying::Staying()
{
	for (;;) {
		staying.fetch_add(1);
		if (!leaving)
			return;
		staying.fetch_sub(1);
		Locked until_it_has_moved;
	}
}

Staying::~Staying() { staying.fetch_sub(1); }

Leaving::Leaving() { leaving = true; }
Leaving::~Leaving() { leaving = false; }

bool Leaving::await_alone(uint64_t deadline_ns) const
{
	return await_until(deadline_ns, [] { return staying == 0; });
}

void renew_submit_gate()
{
	over = begun.load();
	closed = leaving = false;
	staying = 0;
}

} // namespace lazy
