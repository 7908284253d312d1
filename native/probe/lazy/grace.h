// grace.h: patience with an MPS server.
//
// A server whose client has faulted turns others away until those on that device
// are gone (NVIDIA, "Multi-Process Service", error containment). The run holds
// grants back meanwhile, but it hears of a fault only after the server has.
#ifndef LAZY_GRACE_H
#define LAZY_GRACE_H

#include <chrono>
#include <unistd.h>

namespace lazy {

// Grace bounds how long a process that was turned away tries again: 10 s.
class Grace {
public:
	// again waits a moment; false: the time is up.
	bool again() const
	{
		usleep(50000);
		return std::chrono::steady_clock::now() < end;
	}

private:
	const std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
};

} // namespace lazy
#endif
