// stream_ordered.cc: see stream_ordered.h.
//
// cudaFreeAsync does not wait, and a program may count on that: a stream may wait for the host, and so for the thread
// that frees. So an event in the stream tells when the memory can go. It is looked at when the program next frees or
// allocates memory, or has waited. Until then the memory stays charged, and keeps the task.
//
// What the stream allocates next may lie in that memory at once, as in CUDA's pools: a program that allocates and frees in
// turn, and never waits, needs no more memory than one allocation has.
//
// All calls are the driver's, which do not touch the CUDA runtime's last error.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <utility>

#include "abi/capture_mode.h"
#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/drain.h"
#include "device/driver.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "direct.h"
#include "pools.h"
#include "record.h"
#include "report.h"
#include "stream_capture.h"
#include "stream_ordered.h"
#include "task.h"

extern "C" {
typedef struct CUevent_st *CUevent;
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, cudaStream_t stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuStreamWaitEvent(cudaStream_t stream, CUevent event, unsigned flags);
}

namespace lazy {
namespace {

const unsigned no_timing = 2;            // CU_EVENT_DISABLE_TIMING
const uint64_t patience_ns = 100000000u; // of a wait that the program may not expect

struct Freed {
	uintptr_t memory;
	CUevent event; // in the stream
};

// Place is a stream, with the thread whose own one it is.
using Place = std::pair<cudaStream_t, pthread_t>;

Place place_of(const Order &order)
{
	const auto stream = order.stream != nullptr ? real(order.stream) : order.own ? per_thread_stream : legacy_stream;
	return {stream, stream == per_thread_stream ? pthread_self() : pthread_t{}};
}

// by the stream, in its order
std::map<Place, std::deque<Freed>> &freed()
{
	static auto *const all = new std::map<Place, std::deque<Freed>>; // outlives static destructors
	return *all;
}

// reached: the stream has, or never will, because the device has failed or the context has gone. Any other answer says
// nothing of the stream, as in a host function, which may not ask.
bool reached(CUevent event)
{
	const CUresult result = REAL_DRIVER(cuEventQuery)(event);

	return result == CUDA_SUCCESS || stays(result) || result == cudaErrorInvalidResourceHandle;
}

std::atomic<uint64_t> count{0};

// at_home: the driver's calls of this thread are about the task's context.
bool at_home()
{
	CUcontext current = nullptr;

	return driver() != nullptr && driver()->get_current(&current) == CUDA_SUCCESS && current != nullptr && current == context_of_task();
}

} // namespace

bool free_in_order(void *memory, const Order &order)
{
	CUevent event = nullptr;

	Locked locked; // so that the process does not move meanwhile
	if (!at_home() || REAL_DRIVER(cuEventCreate)(&event, no_timing) != CUDA_SUCCESS)
		return false;
	const Place in = place_of(order);
	if (REAL_DRIVER(cuEventRecord)(event, in.first) != CUDA_SUCCESS || !retire(memory)) {
		REAL_DRIVER(cuEventDestroy_v2)(event);
		return false;
	}
	freed()[in].push_back({reinterpret_cast<uintptr_t>(memory), event});
	count++;
	return true;
}

// The stream waits for the event, because it may be another than the one that had this handle when the memory was freed.
void *reuse_freed(size_t bytes, const Order &order)
{
	if (count == 0)
		return nullptr;
	Locked locked;
	if (!at_home())
		return nullptr;
	const auto in = freed().find(place_of(order));
	if (in == freed().end())
		return nullptr;
	std::deque<Freed> &all = in->second;
	const auto found = std::find_if(all.begin(), all.end(), [=](const Freed &f) { return can_renew(f.memory, bytes); });
	if (found == all.end() || REAL_DRIVER(cuStreamWaitEvent)(in->first.first, found->event, 0) != CUDA_SUCCESS)
		return nullptr;
	void *const memory = renew(found->memory, bytes);
	REAL_DRIVER(cuEventDestroy_v2)(found->event);
	all.erase(found);
	if (all.empty())
		freed().erase(in);
	count--;
	return memory;
}

bool frees_ahead() { return count > 0; }

void drop_reached()
{
	settle_pools();
	if (count == 0 || being_captured() || !at_home()) // a task does not end in a capture
		return;
	Locked locked;
	const RelaxedCapture relaxed; // a capture may have begun since, or be the driver's
	for (auto at = freed().begin(); at != freed().end(); at = at->second.empty() ? freed().erase(at) : std::next(at)) {
		std::deque<Freed> &all = at->second;
		for (; !all.empty() && reached(all.front().event); all.pop_front(), count--) {
			REAL_DRIVER(cuEventDestroy_v2)(all.front().event);
			drop_retired_allocation(all.front().memory);
		}
	}
}

bool await_freed(const std::function<bool()> &enough)
{
	bool done = false;

	if (count == 0 || being_captured())
		return false;
	await_until(now_ns() + patience_ns, [&] {
		drop_reached();
		done = enough();
		return done || count == 0;
	});
	return done;
}

// The wait is short, because a stream may wait for the thread that waits here. The task then ends with a later wait.
void await_end(const char *call)
{
	Task &task = Task::process();
	CUresult result = CUDA_SUCCESS;

	const uint64_t leaving = count + idle_pools();
	if (!one_device() || !(task.would_end() || (leaving > 0 && task.has_only(leaving))) || being_captured() || !at_home())
		return;
	const Waits waits;
	const Quiescence quiescence = Quiescence::now();
	const uint64_t deadline_ns = now_ns() + patience_ns;
	const auto drained = [&] { // false at once while an earlier wait goes on
		Locked locked;
		return await_drained(context_of_task(), deadline_ns, &result);
	};
	if (!await_until(deadline_ns, drained))
		return;
	drop_reached();
	trim_idle_pools();
	if (result == CUDA_SUCCESS || stays(result))
		task.note_quiescent(quiescence);
	seen(result, call);
}

void forget_freed()
{
	Locked locked;
	for (const auto &stream : freed())
		for (const Freed &f : stream.second)
			REAL_DRIVER(cuEventDestroy_v2)(f.event);
	renew_freed();
}

void renew_freed()
{
	freed().clear();
	count = 0;
}

} // namespace lazy
