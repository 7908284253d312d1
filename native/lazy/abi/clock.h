// clock.h: times of CLOCK_MONOTONIC, in nanoseconds.
#ifndef CASE_LAZY_CLOCK_H
#define CASE_LAZY_CLOCK_H

#include <stdint.h>
#include <time.h>
#include <unistd.h>

namespace lazy {

inline timespec time_of(uint64_t ns) { return {static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)}; }

inline uint64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// await_until asks now and then whether something is done that needs no help of this thread. false:
// not by the deadline.
template <typename Done> bool await_until(uint64_t deadline_ns, Done done)
{
	for (useconds_t pause = 1; !done(); pause = pause < 1000 ? 2 * pause : pause) {
		if (now_ns() >= deadline_ns)
			return false;
		usleep(pause);
	}
	return true;
}

} // namespace lazy
#endif
