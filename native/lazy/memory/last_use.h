// last_use.h: which of our memory the launches use, noted without a lock (last_use.cc).
#ifndef CASE_LAZY_LAST_USE_H
#define CASE_LAZY_LAST_USE_H

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace lazy {

// LastUse is how some addresses are used.
struct LastUse {
	std::atomic<uint64_t> launch{0};  // the latest that referenced them, or before which they were made, as a number of submissions
	std::atomic<uint64_t> before{0};  // the one before the latest that found them on the host
	std::atomic<uint64_t> count{0};   // launches that referenced them
	std::atomic<bool> on_host{false}; // a part of their memory is
};

// watch has launches note from now on that they reference the addresses. unwatch ends that: the LastUse is gone.
// `lock` is held.
LastUse *watch(uintptr_t base, size_t bytes);
void unwatch(uintptr_t base);
bool watching(); // some addresses

// Noting is a launch that has not happened yet.
class Noting {
public:
	Noting();
	Noting(const Noting &) = delete;
	Noting &operator=(const Noting &) = delete;
	// reference: the launch is given this address. true: it is watched, and a part of the memory is on the host.
	bool reference(uintptr_t address);
	void reference_all(); // the launch may be given anything

private:
	const uint64_t launch_;
};

// Recent is what one of the latest submissions used, as far as is known. There are 256 at first: the loops of most programs have
// fewer. remember makes them more for the rest of the process.
uint64_t recent_submissions();
void remember(uint64_t submissions);
bool recent(const LastUse &use, uint64_t submissions = recent_submissions());

} // namespace lazy
#endif
