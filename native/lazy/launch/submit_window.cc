// submit_window.cc: see submit_window.h.
//
// Each stream gets an event now and then, a mark. The time between two marks tells how long a launch
// takes. The launches since the oldest mark that the stream has not reached are the work that is
// submitted. A mark comes right before a launch in the same stream. So it waits for nothing that the
// launch would not wait for, also in the legacy default stream, which waits for other streams.
//
// A stream may wait for the host (cuStreamWaitValue, a host function), and so perhaps for the thread
// that would wait here. So each wait ends after some time.
//
// All calls are the driver's, which do not touch the CUDA runtime's last error.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <vector>

#include "abi/capture_mode.h"
#include "abi/clock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/handles.h"
#include "task/revoke.h"
#include "task/stream_capture.h"
#include "task/submit_gate.h"
#include "task/task.h"
#include "submit_window.h"

extern "C" {
typedef struct CUevent_st *CUevent;
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, cudaStream_t stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);
CUresult cuEventDestroy_v2(CUevent event);
}

namespace lazy {
namespace {

std::atomic<unsigned> epoch{0}; // how often all marks have gone with their context

const unsigned most_launches = 64; // between two marks: a mark costs about as much as a launch
const size_t most_marks = 16;      // with as many launches the hardware's queue of a stream is full
const unsigned full_patience = 20; // windows that a wait lasts at most

struct Mark {
	CUevent event;
	unsigned launches; // since the mark before
};

// Stream is a stream's marks. Its launches are in the task's context.
struct Stream {
	CUcontext context = nullptr;
	unsigned born = 0;          // in which epoch
	unsigned interval = 1;      // launches from one mark to the next
	unsigned since = 0;         // launches since the last mark
	std::deque<Mark> ahead;     // marks that the stream has not reached, oldest first
	uint64_t launches = 0;      // of these
	CUevent reached = nullptr;  // the last mark that it has reached
	CUevent given_up = nullptr; // a mark for which a wait was too long
	uint64_t each_ns = 0;       // that a launch took lately; 0: unknown
	uint64_t patience_ns = 0;   // of the next wait
	std::vector<CUevent> spares;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// A signal handler may call CUDA in the middle of a change. It finds the mutex taken, and goes on
// without the window. So does a thread that meets another one here.
class Tried {
public:
	Tried() : taken(pthread_mutex_trylock(&mutex) == 0) {}
	~Tried()
	{
		if (taken)
			pthread_mutex_unlock(&mutex);
	}
	Tried(const Tried &) = delete;
	Tried &operator=(const Tried &) = delete;

	const bool taken;
};

std::map<cudaStream_t, Stream> &streams()
{
	static auto *const all = new std::map<cudaStream_t, Stream>; // outlives static destructors
	return *all;
}

// drop forgets a stream's marks.
void drop(Stream &s)
{
	if (s.reached != nullptr)
		s.spares.push_back(s.reached);
	for (const Mark &m : s.ahead)
		s.spares.push_back(m.event);
	for (const CUevent event : s.spares)
		if (s.born == epoch) // else it has gone with its context
			REAL_DRIVER(cuEventDestroy_v2)(event);
	s = {};
}

void mark(Stream &s, cudaStream_t stream)
{
	CUevent event = nullptr;

	if (s.ahead.size() > most_marks) // only behind a mark that is given up
		return;
	if (!s.spares.empty()) {
		event = s.spares.back();
		s.spares.pop_back();
	} else if (REAL_DRIVER(cuEventCreate)(&event, 0) != CUDA_SUCCESS) {
		return;
	}
	if (REAL_DRIVER(cuEventRecord)(event, stream) != CUDA_SUCCESS) {
		REAL_DRIVER(cuEventDestroy_v2)(event);
		return;
	}
	s.ahead.push_back({event, s.since});
	s.launches += s.since;
	s.since = 0;
}

// learn takes over what the launches between the last two marks took: a sixteenth to an eighth of the
// window is to lie between two marks.
void learn(Stream &s, const Mark &m)
{
	const uint64_t window = window_ns();
	float ms = 0;

	if (s.reached == nullptr || m.launches == 0 ||
	    REAL_DRIVER(cuEventElapsedTime)(&ms, s.reached, m.event) != CUDA_SUCCESS)
		return;
	const uint64_t took = static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
	s.each_ns = std::max<uint64_t>(took / m.launches, 1);
	if (m.launches != s.interval) // it has changed since
		return;
	if (took > window / 8 && s.interval > 1)
		s.interval /= 2;
	else if (took < window / 16 && s.interval < most_launches)
		s.interval *= 2;
}

// has_room: the device has less than a window of work ahead in the stream, as far as is known.
bool has_room(Stream &s)
{
	while (!s.ahead.empty()) {
		const Mark oldest = s.ahead.front();
		const CUresult result = REAL_DRIVER(cuEventQuery)(oldest.event);
		if (result == cudaErrorNotReady)
			break;
		if (result != CUDA_SUCCESS) { // the device has failed
			drop(s);
			return true;
		}
		learn(s, oldest);
		if (s.reached != nullptr)
			s.spares.push_back(s.reached);
		if (s.given_up == oldest.event)
			s.given_up = nullptr;
		s.reached = oldest.event;
		s.launches -= oldest.launches;
		s.ahead.pop_front();
	}
	if (s.ahead.size() <= 1 || s.ahead.front().event == s.given_up)
		return true;
	if (s.each_ns == 0)
		return s.ahead.size() <= 2;
	return s.ahead.size() <= most_marks && s.launches * s.each_ns <= window_ns();
}

// Batch is launches of this thread that its stream does not count yet.
struct Batch {
	cudaStream_t stream;
	unsigned launches, most;
};
thread_local Batch batch;

bool can_mark(cudaStream_t stream, CUcontext *context)
{
	if (deferring() || driver() == nullptr || driver()->get_current(context) != CUDA_SUCCESS || *context == nullptr ||
	    *context != context_of_task() || being_captured())
		return false;
	if (REAL_DRIVER(cuThreadExchangeStreamCaptureMode) == nullptr || REAL_DRIVER(cuStreamIsCapturing) == nullptr)
		return false; // a driver older than CUDA 10.1
	return !is_captured(stream);
}

// await_room counts the launches of the batch, and waits where the stream has enough work.
void await_room(cudaStream_t stream)
{
	const Waits waits;
	const unsigned more = batch.stream == stream ? batch.launches : 0;
	CUcontext context = nullptr;
	uint64_t patience_ns = 0;

	if (!can_mark(stream, &context)) {
		batch = {};
		return;
	}
	const RelaxedCapture relaxed;
	{
		const Tried locked;
		if (!locked.taken)
			return;
		if (batch.stream != stream && batch.launches > 0)
			if (const auto last = streams().find(batch.stream); last != streams().end())
				last->second.since += batch.launches;
		Stream &s = streams()[stream];
		if (s.context != context || s.born != epoch)
			drop(s);
		const bool first = s.context == nullptr;
		if (first) {
			s.context = context;
			s.born = epoch;
			s.patience_ns = full_patience * window_ns();
		}
		s.since += more;
		if (first || s.since >= s.interval)
			mark(s, stream);
		batch = {stream, 0, s.interval - std::min(s.since, s.interval - 1)};
		if (has_room(s))
			return;
		patience_ns = s.patience_ns;
	}
	const auto room = [=] {
		const Tried locked;
		if (!locked.taken)
			return false;
		const auto at = streams().find(stream);
		return at == streams().end() || at->second.context != context || has_room(at->second);
	};
	const bool over = await_until(now_ns() + patience_ns, room);
	const Tried locked;
	const auto at = locked.taken ? streams().find(stream) : streams().end();
	if (!locked.taken || at == streams().end())
		return;
	Stream &s = at->second;
	if (!over && !s.ahead.empty())
		s.given_up = s.ahead.front().event;
	s.patience_ns = over ? full_patience * window_ns() : std::max<uint64_t>(s.patience_ns / 2, 1);
}

} // namespace

void forget_window(cudaStream_t stream)
{
	const Tried locked;
	const auto at = locked.taken ? streams().find(stream) : streams().end();

	if (!locked.taken || at == streams().end())
		return; // a later stream of that name has the same use of the marks
	drop(at->second);
	streams().erase(at);
}

void forget_windows() { epoch.fetch_add(1); }

void renew_windows()
{
	mutex = PTHREAD_MUTEX_INITIALIZER;
	forget_windows();
}

void await_window(cudaStream_t stream, bool own)
{
	if (window_ns() == 0)
		return;
	if (stream == nullptr)
		stream = own ? per_thread_stream : legacy_stream;
	if (batch.stream != stream || batch.launches >= batch.most)
		await_room(stream);
	batch.launches++;
}

} // namespace lazy
