// submit_gate.h: the gate of calls that give work to the device (submit_gate.cc).
//
// Such a call finds the task bound and then goes to the CUDA runtime, without `lock`. Between the
// two, another thread may free the last object of the task. The task must not end then: the work
// would run without a grant, perhaps on another device than the work that follows it.
//
// So the call passes a gate, and is under way until the runtime has returned. A task ends when no
// call has passed the gate since a quiescence, and a wait for the device has succeeded after it.
// Otherwise the task goes on, and a later wait for the device ends it. Nobody waits for a call
// under way, because the call may wait for the thread that would end the task.
#ifndef CASE_LAZY_SUBMIT_GATE_H
#define CASE_LAZY_SUBMIT_GATE_H

#include <stdint.h>

namespace lazy {

// enter_submit_gate waits where a thread has closed the gate (it takes `lock`), where the scheduler has
// taken the task's permission (revoke.h), and for a kernel that may be stopped (stop.h).
void enter_submit_gate();
// launches: the end of what it has submitted will show (burst.h), so that the time of the call need not be exact.
void leave_submit_gate(bool launches = false);

// await_open_submit_gate waits until a gate that is closed opens. A thread that is inside does not wait.
void await_open_submit_gate();

// outermost_in_gate: this thread is inside with one call. await_alone_in_gate waits until no other thread is. false: not by
// the deadline (abi/clock.h).
bool outermost_in_gate();
bool await_alone_in_gate(uint64_t deadline_ns);

// show_calls shows the scheduler from now on which calls are under way (probe/activity.h), with this thread's.
void show_calls();

// show_resumed shows a call of this thread that is about to enter, because the scheduler has given its permission for it: nothing of
// the process may be under way, and it is not idle. hide_resumed: the call waits again.
void show_resumed();
void hide_resumed();

// Submitting is a call that gives work to the device. It begins before the call looks at the task.
class Submitting {
public:
	explicit Submitting(bool launches = false) : launches_(launches) { enter_submit_gate(); }
	~Submitting() { leave_submit_gate(launches_); }
	Submitting(const Submitting &) = delete;
	Submitting &operator=(const Submitting &) = delete;

private:
	const bool launches_;
};

// enter_to_inspect enters the gate with a call that gives no work, and at which CUDA may look at memory. It needs no permission.
// What is bare is mapped before, and no memory moves until leave_submit_gate.
void enter_to_inspect();

// Inspecting is such a call.
class Inspecting {
public:
	Inspecting() { enter_to_inspect(); }
	~Inspecting() { leave_submit_gate(); }
	Inspecting(const Inspecting &) = delete;
	Inspecting &operator=(const Inspecting &) = delete;
};

// Staying is a call that gives no work and names what is in the device's context: the process does not move meanwhile. It takes no
// lock and waits for nothing. Leaving keeps such calls from beginning. The thread that makes it holds `lock` for as long.
class Staying {
public:
	Staying();
	~Staying();
	Staying(const Staying &) = delete;
	Staying &operator=(const Staying &) = delete;
};

class Leaving {
public:
	Leaving();
	~Leaving();
	bool await_alone(uint64_t deadline_ns) const; // false: such a call was under way until the deadline
	Leaving(const Leaving &) = delete;
	Leaving &operator=(const Leaving &) = delete;
};

// Waits is a call that only waits for the device. It does not pass the gate: what it waits for ends while the gate is
// closed. But a kernel that may be stopped ends first (stop.h). The scheduler sees it among the calls under way, because the process is in no phase of the host.
class Waits {
public:
	explicit Waits(bool for_kernel = true); // false: it only asks
	~Waits();
	Waits(const Waits &) = delete;
	Waits &operator=(const Waits &) = delete;

private:
	void *const shown_on_; // the activity page; nullptr: none
};

// Quiescence is a moment at which no call was under way.
class Quiescence {
public:
	static Quiescence now();    // no quiescence, if a call is under way
	bool goes_on() const; // no call has begun since
	bool before(const Quiescence &other) const { return number_ < other.number_; }

private:
	uint64_t number_ = 0; // of the next call, from 1; 0: no quiescence
};

// ClosedSubmitGate keeps calls from entering. The thread that makes it holds `lock` for as long.
class ClosedSubmitGate {
public:
	ClosedSubmitGate();
	~ClosedSubmitGate();
	// await_empty waits until no call is under way. false: not by the deadline (abi/clock.h).
	bool await_empty(uint64_t deadline_ns) const;
	ClosedSubmitGate(const ClosedSubmitGate &) = delete;
	ClosedSubmitGate &operator=(const ClosedSubmitGate &) = delete;
};

void renew_submit_gate(); // in a child of fork, whose one thread has no call under way

} // namespace lazy
#endif
