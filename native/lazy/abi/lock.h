// lock.h: the lazy runtime's locks, and signals while they are held (lock.cc).
#ifndef CASE_LAZY_LOCK_H
#define CASE_LAZY_LOCK_H

#include <pthread.h>

namespace lazy {

// lock guards all state of the lazy runtime that is not atomic. It is recursive, because a
// replayed call can come back through an overridden call. A thread holds it while it waits
// for the task to be bound, because no call can go on then. No thread holds it during a bound
// call, or while a process that chooses devices itself waits for one of them.
extern pthread_mutex_t lock;

// registering guards what CUDA is told of the program's kernels and variables. CUDA is told
// under the loader's lock, which the holder of `lock` needs for dlsym after its wait.
extern pthread_mutex_t registering;

// While a thread holds a lock, no signal handler runs in the thread. A handler may still run
// between the two steps of taking or releasing a lock, so each lock is recursive.
void hold_signals();
void let_signals();

class Locked {
public:
	explicit Locked(pthread_mutex_t &what = lock) : what_(what)
	{
		pthread_mutex_lock(&what_);
		hold_signals();
	}
	~Locked()
	{
		pthread_mutex_unlock(&what_);
		let_signals();
	}
	Locked(const Locked &) = delete;
	Locked &operator=(const Locked &) = delete;

private:
	pthread_mutex_t &what_;
};

// Interruptible surrounds a wait for the scheduler: signal handlers run during the wait,
// whatever locks the thread holds.
class Interruptible {
public:
	Interruptible();
	~Interruptible();
	Interruptible(const Interruptible &) = delete;
	Interruptible &operator=(const Interruptible &) = delete;

private:
	const unsigned held_;
};

} // namespace lazy
#endif
