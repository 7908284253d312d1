// under_way.cc: calls that give work to the device, and the gate before them.
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "lock.h"
#include "revoke.h"
#include "under_way.h"

namespace lazy {

// A call counts itself and then looks whether the gate is closed. A thread closes the gate and then
// looks at the count. All of this is sequentially consistent, so one of the two sees the other.
static std::atomic<uint64_t> begun{1}, over{1}; // from 1: no lull has the number 0
static std::atomic<bool> closed{false};

void enter_gate()
{
	for (;;) {
		begun.fetch_add(1);
		if (!closed && !revoked())
			return;
		over.fetch_add(1); // so that who has closed the gate need not wait for this call
		if (closed)
			Locked until_open;
		else
			await_permission();
	}
}

void leave_gate() { over.fetch_add(1); }

// `over` is read first. If `begun` equals it later, no call was under way when `over` was read, and
// none has begun since.
Lull Lull::now()
{
	Lull lull;
	const uint64_t ended = over;

	if (begun == ended)
		lull.number_ = ended;
	return lull;
}

bool Lull::goes_on() const { return begun == number_; }

ClosedGate::ClosedGate() { closed = true; }

// A call under way ends without this thread's help, so it is looked for now and then.
bool ClosedGate::empties(uint64_t deadline_ns) const
{
	for (useconds_t pause = 1; begun != over; pause = pause < 1000 ? 2 * pause : pause) {
		timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec) >= deadline_ns)
			return false;
		usleep(pause);
	}
	return true;
}

ClosedGate::~ClosedGate() { closed = false; }

void renew_gate()
{
	over = begun.load();
	closed = false;
}

} // namespace lazy
