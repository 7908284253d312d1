// drain.cc: see drain.h.
#include <errno.h>
#include <pthread.h>

#include "abi/clock.h"
#include "abi/symbols.h"
#include "drain.h"
#include "driver.h"

extern "C" CUresult cuCtxSynchronize(void);

namespace lazy {

// Waiter is the thread that waits for the device.
static struct Waiter {
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t wanted = PTHREAD_COND_INITIALIZER, over = PTHREAD_COND_INITIALIZER;
	bool started = false;
	uint64_t asked = 0, answered = 0; // waits
	CUcontext context = nullptr;      // of the latest
	CUresult result = CUDA_SUCCESS;   // of the latest that is over
} waiter;

static void *wait_for_devices(void *)
{
	pthread_mutex_lock(&waiter.mutex);
	for (;;) {
		while (waiter.asked == waiter.answered)
			pthread_cond_wait(&waiter.wanted, &waiter.mutex);
		const CUcontext context = waiter.context;
		pthread_mutex_unlock(&waiter.mutex);
		CUresult result = driver()->set_current(context);
		if (result == CUDA_SUCCESS)
			result = REAL_DRIVER(cuCtxSynchronize)();
		pthread_mutex_lock(&waiter.mutex);
		waiter.result = result;
		waiter.answered++;
		pthread_cond_signal(&waiter.over);
	}
}

// start_waiter starts the thread. Its signals are blocked, because who holds `lock` has blocked them.
static bool start_waiter()
{
	pthread_condattr_t monotonic;
	pthread_attr_t detached;
	pthread_t thread;

	if (waiter.started)
		return true;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&waiter.over, &monotonic);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	waiter.started = pthread_create(&thread, &detached, wait_for_devices, nullptr) == 0;
	return waiter.started;
}

bool await_drained(CUcontext context, uint64_t deadline_ns, CUresult *result)
{
	const timespec until = time_of(deadline_ns);

	pthread_mutex_lock(&waiter.mutex);
	bool idle = start_waiter() && waiter.asked == waiter.answered;
	if (idle) {
		waiter.context = context;
		waiter.asked++;
		pthread_cond_signal(&waiter.wanted);
		while (waiter.asked != waiter.answered &&
		       pthread_cond_timedwait(&waiter.over, &waiter.mutex, &until) != ETIMEDOUT)
			;
		idle = waiter.asked == waiter.answered;
		*result = waiter.result;
	}
	pthread_mutex_unlock(&waiter.mutex);
	return idle;
}

void renew_drain() { waiter = {}; }

} // namespace lazy
