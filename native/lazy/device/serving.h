// serving.h: what the thread that reads the connection asks of the driver, and the end of the process (serving.cc).
//
// When a process exits, handlers of the CUDA runtime and the driver take away what it has made. No other thread may be in a call of the
// driver then. So an exit waits for this thread.
#ifndef CASE_LAZY_SERVING_H
#define CASE_LAZY_SERVING_H

namespace lazy {

// Serving is around the thread's calls of the driver.
class Serving {
public:
	Serving();
	~Serving();
	Serving(const Serving &) = delete;
	Serving &operator=(const Serving &) = delete;

	const bool exits; // the process is about to exit: the driver must not be called
};

// AwaitsScheduler is around a wait for the scheduler, in any thread. An exit does not wait for that, which may take long. The thread that
// serves goes on afterwards all the same, because destructors of the program may need what it holds.
class AwaitsScheduler {
public:
	AwaitsScheduler();
	~AwaitsScheduler();
	AwaitsScheduler(const AwaitsScheduler &) = delete;
	AwaitsScheduler &operator=(const AwaitsScheduler &) = delete;

private:
	const bool serving_;
};

void renew_serving(); // in a child of fork

} // namespace lazy
#endif
