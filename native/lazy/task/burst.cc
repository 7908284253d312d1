// burst.cc: see burst.h.
//
// The page has how many submissions there were, which costs a launch nothing more. How many of them are over is found
// out by looks, once no call is under way: an event gets behind all work of the context, and is asked about.
// cuCtxRecordEvent does not wait, nor does other work wait for the event. An older driver than that of CUDA 12.5
// lacks it. There, and where work may pass the gate, what is submitted counts as over.
#include <errno.h>
#include <pthread.h>

#include <atomic>

#include "abi/capture_mode.h"
#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "probe/activity.h"
#include "program/mode.h"
#include "burst.h"
#include "bypass.h"
#include "explicit.h"
#include "managed.h"
#include "revoke.h"
#include "stream_capture.h"
#include "submit_gate.h"
#include "task.h"

extern "C" {
typedef struct CUevent_st *CUevent;
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventQuery(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
}

namespace lazy {
namespace {

// Between two looks, in milliseconds: while the device has work that nobody waits for or the end of a burst matters, and
// else. A burst ends when nothing has changed from one look to the next. So gaps of less than a millisecond between
// launches, as of a program that works on the host after each, end none: to get the permission again takes about a tenth of that.
const unsigned soon = 1, later = 5;

// When the process last got its permission, and how much it had submitted then.
std::atomic<uint64_t> burst_began_ns{0}, submitted_before{0};

const unsigned without_timing = 2; // CU_EVENT_DISABLE_TIMING

// Behind is the event behind all that was submitted up to the mark. `lock` guards it.
struct Behind {
	CUevent event;
	CUcontext context; // that it belongs to
	bool current;      // the looking thread has the context
	bool recorded;     // and not reached yet
	uint64_t mark;
	Quiescence quiescence; // in which it was recorded
} behind = {};

// reached: the device has done what is before the event.
bool reached()
{
	const RelaxedCapture relaxed;
	const CUresult result = REAL_DRIVER(cuEventQuery)(behind.event);

	if (result == cudaErrorNotReady)
		return false;
	behind.recorded = false; // also if the device has failed
	return true;
}

// record needs the gate to be closed and empty.
bool record(CUcontext context)
{
	behind.current = behind.current || driver()->set_current(context) == CUDA_SUCCESS;
	if (!behind.current)
		return false;
	behind.mark = activity_mark();
	behind.recorded = REAL_DRIVER(cuCtxRecordEvent)(context, behind.event) == CUDA_SUCCESS;
	behind.quiescence = behind.recorded ? Quiescence::now() : Quiescence();
	return behind.recorded;
}

// can_tell: the library can know when all work is over.
bool can_tell(CUcontext context)
{
	return one_device() && Task::process().phase() == Phase::bound && behind.event != nullptr && behind.context == context &&
	       bypass().empty();
}

// Looks are made by a thread of its own, because the thread that reads the connection must not leave its wait: the
// program may close the descriptor, and the wait keeps the socket.
struct {
	bool started;
	// The thread holds the mutex during a look, which waits for nothing, and not between two.
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool wanted;  // the next look is to come now
	bool stopped; // CUDA must not be asked while it is torn down
} looks;

// find_end shows what is over. `lock` is held.
void find_end()
{
	const CUcontext context = context_of_task();

	if (!behind.recorded) {
		if (!can_tell(context))
			return activity_ended(activity_mark());
		use_device(); // this thread's first call of the runtime would be about another
		const ClosedSubmitGate closed;
		if (!closed.await_empty(0) || being_captured())
			return;
		if (!record(context))
			return activity_ended(activity_mark());
	}
	if (reached())
		activity_ended(behind.mark);
}

// in_burst: the process has its permission and has used it.
bool in_burst()
{
	return ends_bursts() && !revoked() && (activity_mark() != submitted_before || activity_last_call() > burst_began_ns);
}

// all_over: the device has done all, also what counts as no submission, such as copies. The gate is closed and empty.
bool all_over(CUcontext context)
{
	return (behind.quiescence.goes_on() || record(context)) && (!behind.recorded || reached());
}

// try_end_burst gives up the permission if nothing of the process is under way. Memory comes back later without a wait for the
// device. `lock` is held.
void try_end_burst()
{
	const CUcontext context = context_of_task();

	if (!can_tell(context) || cover_of(Task::process().device()).tasks > 0) // perhaps it has several tasks
		return;
	use_device();
	const ClosedSubmitGate closed;
	if (closed.await_empty(0) && !activity_working() && !activity_calls() && !being_captured() && all_over(context))
		end_burst();
}

// look says after how many milliseconds the next look is to come.
unsigned look()
{
	static uint64_t before; // submissions at the look before
	const uint64_t now = activity_mark();
	const bool still = now == before && !activity_calls(), working = activity_working();

	before = now;
	if (read_active() && pthread_mutex_trylock(&lock) == 0) {
		show_holdings();
		pthread_mutex_unlock(&lock);
	}
	if (!working && !in_burst())
		return later;
	if (!still)
		return ends_bursts() ? soon : later;
	if (!looks.stopped && pthread_mutex_trylock(&lock) == 0) {
		if (working)
			find_end();
		else
			try_end_burst();
		pthread_mutex_unlock(&lock);
	}
	return soon;
}

void *look_again_and_again(void *)
{
	pthread_mutex_lock(&looks.mutex);
	for (;;) {
		const timespec until = time_of(now_ns() + look() * uint64_t{1000000});
		while (!looks.wanted && pthread_cond_timedwait(&looks.changed, &looks.mutex, &until) != ETIMEDOUT)
			;
		looks.wanted = false;
	}
}

} // namespace

void start_looks()
{
	pthread_condattr_t monotonic;
	pthread_attr_t detached;
	pthread_t thread;

	if (looks.started)
		return;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&looks.changed, &monotonic);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	looks.started = pthread_create(&thread, &detached, look_again_and_again, nullptr) == 0;
	pthread_attr_destroy(&detached);
}

void ready_looks()
{
	const CUcontext context = context_of_task();

	behind.quiescence = Quiescence(); // what is replayed does not pass the gate
	if (!can_be_revoked() || driver() == nullptr || context == nullptr || behind.context == context || REAL_DRIVER(cuCtxRecordEvent) == nullptr)
		return;
	forget_looks();
	if (REAL_DRIVER(cuEventCreate)(&behind.event, without_timing) == CUDA_SUCCESS)
		behind.context = context;
}

void begin_burst()
{
	submitted_before = activity_mark();
	burst_began_ns = now_ns();
	pthread_mutex_lock(&looks.mutex);
	looks.wanted = true;
	pthread_cond_signal(&looks.changed);
	pthread_mutex_unlock(&looks.mutex);
}

void forget_looks()
{
	if (behind.event != nullptr)
		REAL_DRIVER(cuEventDestroy_v2)(behind.event);
	behind = {};
}

void stop_looks()
{
	pthread_mutex_lock(&looks.mutex);
	looks.stopped = true;
	pthread_mutex_unlock(&looks.mutex);
}

void renew_looks()
{
	looks = {};
	behind = {};
}

} // namespace lazy
