// stop.cc: see stop.h.
//
// A kernel has one launch in its life, and perhaps others after stops:
//
//	none -> begins -> runs -> none
//	        runs -> asked -> none              it was done before it saw that it is asked
//	                asked -> stopped -> runs   the thread of this file launches it again, with permission
//
// Whether a kernel that was asked has stopped or is done says its module's second word.
//
// The first word is set by a copy, in a stream of its own, because the kernel may fill the device. All kernels of the module
// read it. So it is set only when the device has done all that was submitted before the kernel: one that must not stop may be there.
//
// All calls are the driver's, which do not touch the CUDA runtime's last error.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "abi/capture_mode.h"
#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "report.h"
#include "revoke.h"
#include "stop.h"
#include "stream_capture.h"
#include "submit_gate.h"

extern "C" {
typedef struct CUevent_st *CUevent;
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, cudaStream_t stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
CUresult cuStreamCreate(cudaStream_t *stream, unsigned flags);
CUresult cuStreamSynchronize(cudaStream_t stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, cudaStream_t stream);
}

namespace lazy {
namespace {

const unsigned with_timing = 0, without_timing = 2; // CU_EVENT_DISABLE_TIMING
const unsigned non_blocking = 1;   // CU_STREAM_NON_BLOCKING
const uint64_t alone_ns = 10 * 1000000u, for_ever = UINT64_MAX;

enum class State { none, begins, runs, asked, stopped };

// The mutex is a leaf: its holder takes no other lock, and waits for no more than a copy of 8 bytes.
struct Kernel {
	State state = State::none;
	bool again = false; // it was stopped before
	Stoppable *what = nullptr; // nullptr: none is left
	CUcontext context = nullptr; // that all of these belong to
	CUevent before = nullptr;                  // behind what was submitted before
	CUevent began = nullptr, after = nullptr; // in its stream, around it
	cudaStream_t own = nullptr;
} kernel;
bool watched = false;     // the thread is there
uint64_t stopped_ran = 0; // ns, until somebody takes it (take_lost)

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_cond_t was_asked = PTHREAD_COND_INITIALIZER;
std::atomic<bool> left{false}; // the state is not none
thread_local bool watcher;     // this is the thread that begins kernels again

// InContext has the kernel's context be the thread's, whose capture it does not disturb.
class InContext {
public:
	explicit InContext(CUcontext context)
	{
		driver()->get_current(&was_);
		if (was_ != context)
			driver()->set_current(context);
	}
	~InContext() { driver()->set_current(was_); }
	InContext(const InContext &) = delete;
	InContext &operator=(const InContext &) = delete;

private:
	const RelaxedCapture relaxed_;
	CUcontext was_ = nullptr; // perhaps none, in a thread's first call
};

// In what follows the mutex is held, and the kernel's context is the thread's.

void turn(State to)
{
	kernel.state = to;
	left = to != State::none;
	if (to == State::none) {
		delete kernel.what;
		kernel.what = nullptr;
	}
}

bool ready(CUcontext context)
{
	if (kernel.context == context)
		return true;
	if (REAL_DRIVER(cuCtxRecordEvent) == nullptr || context == nullptr)
		return false;
	kernel = {};
	if (REAL_DRIVER(cuEventCreate)(&kernel.before, without_timing) != CUDA_SUCCESS ||
	    REAL_DRIVER(cuEventCreate)(&kernel.began, with_timing) != CUDA_SUCCESS ||
	    REAL_DRIVER(cuEventCreate)(&kernel.after, with_timing) != CUDA_SUCCESS ||
	    REAL_DRIVER(cuStreamCreate)(&kernel.own, non_blocking) != CUDA_SUCCESS)
		return false;
	kernel.context = context;
	return true;
}

const unsigned asks = 1, clear[] = {0, 0};

bool copy(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return REAL_DRIVER(cuMemcpyAsync)(to, from, bytes, kernel.own) == CUDA_SUCCESS; }

CUdeviceptr host(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// said_stopped is the kernel's answer. Both words are 0 then.
bool said_stopped()
{
	unsigned found[2] = {0, 0};

	return copy(host(found), kernel.what->words, sizeof found) && copy(kernel.what->words, host(clear), sizeof clear) &&
	       REAL_DRIVER(cuStreamSynchronize)(kernel.own) == CUDA_SUCCESS && found[1] != 0;
}

// ran is how long the kernel ran that has ended, in ns.
uint64_t ran()
{
	float ms = 0;

	return REAL_DRIVER(cuEventElapsedTime)(&ms, kernel.began, kernel.after) == CUDA_SUCCESS ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0;
}

// mark has the device say when it has done what comes before the kernel, and when the kernel's stream comes to it.
CUresult mark()
{
	const CUresult result = REAL_DRIVER(cuCtxRecordEvent)(kernel.context, kernel.before);
	return result == CUDA_SUCCESS ? REAL_DRIVER(cuEventRecord)(kernel.began, kernel.what->stream) : result;
}

// settle finds out whether the kernel has ended, and how. A device that has failed ends it.
State settle()
{
	if ((kernel.state != State::runs && kernel.state != State::asked) || REAL_DRIVER(cuEventQuery)(kernel.after) == cudaErrorNotReady)
		return kernel.state;
	const bool stopped = kernel.state == State::asked && said_stopped();
	const uint64_t took = ran();
	if (stopped)
		stopped_ran += took;
	kernel.what->ended(took, stopped);
	turn(stopped ? State::stopped : State::none);
	return kernel.state;
}

State settled()
{
	Locked locked(mutex);
	if (kernel.state == State::none)
		return kernel.state;
	const InContext here(kernel.context);
	return settle();
}

// begin_again launches the kernel that was stopped. Nothing else of the process is on the device.
void begin_again()
{
	Locked locked(mutex);
	const InContext here(kernel.context);

	CUresult result = mark();
	if (result == CUDA_SUCCESS)
		result = kernel.what->run();
	if (result == CUDA_SUCCESS)
		result = REAL_DRIVER(cuEventRecord)(kernel.after, kernel.what->stream);
	if (result != CUDA_SUCCESS)
		failed_replay(result, "a kernel that was stopped");
	turn(result == CUDA_SUCCESS ? State::runs : State::none);
	kernel.again = true;
}

// kept is the kernel's way to prepare for its launch. Nothing changes it while the kernel is stopped.
std::function<void()> kept()
{
	Locked locked(mutex);
	return kernel.what->prepare;
}

void *begin_kernels_again(void *)
{
	watcher = true;
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (kernel.state != State::asked && kernel.state != State::stopped)
			pthread_cond_wait(&was_asked, &mutex);
		pthread_mutex_unlock(&mutex);
		await_until(for_ever, [] { return settled() != State::asked; });
		if (settled() != State::stopped)
			continue;
		kept()();
		const Submitting submitting(true);
		begin_again();
	}
}

// start_watcher starts the thread. Its signals are blocked, because who holds `lock` has blocked them.
bool start_watcher()
{
	pthread_attr_t detached;
	pthread_t thread;

	if (watched)
		return true;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	watched = pthread_create(&thread, &detached, begin_kernels_again, nullptr) == 0;
	pthread_attr_destroy(&detached);
	return watched;
}

// first_done: what was submitted before the kernel is over.
bool first_done()
{
	Locked locked(mutex);
	if (kernel.state != State::runs)
		return true;
	const InContext here(kernel.context);
	return REAL_DRIVER(cuEventQuery)(kernel.before) != cudaErrorNotReady;
}

void ask()
{
	Locked locked(mutex);
	if (kernel.state != State::runs || !start_watcher())
		return;
	const InContext here(kernel.context);
	if (settle() != State::runs || !copy(kernel.what->words, host(&asks), sizeof asks))
		return;
	turn(State::asked);
	pthread_cond_signal(&was_asked);
}

} // namespace

bool kernel_is_left() { return left && !watcher; }

bool begin_stoppable(Stoppable what)
{
	if (!can_be_revoked() || being_captured() || !outermost_in_gate())
		return false;
	{
		Locked locked(mutex);
		if (kernel.state != State::none || !ready(context_of_task()))
			return false;
		kernel.what = new Stoppable(std::move(what));
		kernel.again = false;
		turn(State::begins);
	}
	const bool alone = await_alone_in_gate(now_ns() + alone_ns);
	Locked locked(mutex);
	const InContext here(kernel.context);
	if (alone && mark() == CUDA_SUCCESS)
		return true;
	turn(State::none);
	return false;
}

void launched_stoppable(bool success)
{
	Locked locked(mutex);
	const InContext here(kernel.context);

	success = success && REAL_DRIVER(cuEventRecord)(kernel.after, kernel.what->stream) == CUDA_SUCCESS;
	turn(success ? State::runs : State::none);
}

void await_kernel()
{
	while (kernel_is_left()) {
		const State now = settled();
		CUevent after;
		CUcontext context;
		{
			Locked locked(mutex);
			after = kernel.after;
			context = kernel.context;
		}
		if (now == State::runs) {
			const InContext here(context);
			REAL_DRIVER(cuEventSynchronize)(after);
		} else if (now != State::none) {
			await_until(for_ever, [now] { return settled() != now; });
		}
	}
}

cudaError_t answer(cudaError_t found)
{
	if (found != cudaSuccess || !kernel_is_left())
		return found;
	const State now = settled();
	Locked locked(mutex);
	return now != State::none && (now != State::runs || kernel.again) ? cudaErrorNotReady : found;
}

bool stop_kernel(uint64_t deadline_ns)
{
	if (!await_until(deadline_ns, first_done))
		return false;
	ask();
	return await_until(deadline_ns, [] { return settled() != State::asked; });
}

bool kernel_is_stopped() { return settled() != State::none; }

uint64_t take_lost()
{
	Locked locked(mutex);
	return std::exchange(stopped_ran, 0);
}

void forget_stops()
{
	Locked locked(mutex);
	turn(State::none);
	kernel = {};
}

void renew_stops()
{
	mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	was_asked = PTHREAD_COND_INITIALIZER;
	kernel = {};
	watched = left = false;
	stopped_ran = 0;
}

} // namespace lazy
