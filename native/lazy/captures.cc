// captures.cc: streams whose work becomes nodes of a graph instead of being done.
//
// While a stream is captured, nobody can wait for its device (CUDA Programming Guide,
// "Prohibited and Unhandled Operations"). The task must not end, because what is captured next
// would be recorded as work of an unbound task. A relaxed capture, or a capture of another
// thread, still lets the program free memory. The release of that memory is postponed until the
// program frees something after the capture.
#include <atomic>
#include <functional>
#include <vector>

#include "api.h"
#include "device.h"
#include "direct.h"
#include "graphs.h"
#include "handles.h"
#include "lock.h"
#include "mode.h"
#include "real.h"
#include "report.h"
#include "task.h"

WITH_PTSZ(cudaStreamBeginCapture, cudaStream_t stream, int mode);
WITH_PTSZ(cudaStreamEndCapture, cudaStream_t stream, cudaGraph_t *graph);
WITH_PTSZ(cudaStreamBeginCaptureToGraph, cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after,
          const void *edges, size_t count, int mode);
WITH_PTSZ(cudaStreamBeginRecaptureToGraph, cudaStream_t stream, int mode, cudaGraph_t graph, void *callback);

namespace lazy {
namespace {

struct Capture {
	unsigned long serial;
	cudaStream_t stream; // the real one
	IsCapturing ask;
	pthread_t by;
	bool per_thread; // the stream is that thread's own: no other thread can ask about it
	bool begun;
	int device; // the current device of the thread that began it
};

std::vector<Capture> &captures()
{
	static auto *const all = new std::vector<Capture>;
	return *all;
}

std::vector<std::function<void()>> &postponed()
{
	static auto *const all = new std::vector<std::function<void()>>;
	return *all;
}

std::atomic<size_t> noted{0}, waiting{0}; // how many captures, and how much is postponed

template <typename Over> void forget(Over over)
{
	Locked locked;
	std::vector<Capture> others;

	for (const Capture &c : captures())
		if (!over(c))
			others.push_back(c);
	captures().swap(others);
	noted = captures().size();
}

// own_stream: the handle means a different stream in each thread (CUDA Runtime API, "Stream
// synchronization behavior"; _ptsz functions take 0 for it).
bool own_stream(cudaStream_t stream, IsCapturing ask)
{
	return stream == per_thread_stream || (stream == nullptr && ask == REAL(cudaStreamIsCapturing_ptsz));
}

// end_capture forgets a capture of the thread's own stream, because no other thread can. Other
// captures are forgotten when somebody asks about them.
template <typename End> cudaError_t end_capture(const char *call, cudaStream_t stream, IsCapturing ask, End end)
{
	EXISTS(stream);
	return direct_kept(call, [=] {
		const cudaStream_t there = real(stream);
		cudaError_t error = end(there);
		if (own_stream(there, ask))
			forget([](const Capture &c) { return c.per_thread && pthread_equal(c.by, pthread_self()); });
		return error;
	});
}

template <typename Begin>
cudaError_t begin_capture(const char *call, cudaStream_t stream, IsCapturing ask, Begin begin)
{
	EXISTS(stream);
	return direct_kept(call, [=] {
		static unsigned long last;
		const cudaStream_t there = real(stream);
		const bool per_thread = own_stream(there, ask);
		unsigned long serial;
		int device = 0;
		REAL(cudaGetDevice)(&device);
		{
			Locked locked;
			serial = ++last;
			captures().push_back({serial, there, ask, pthread_self(), per_thread, false, device});
			noted = captures().size();
		}
		cudaError_t error = begin(there);
		if (error != cudaSuccess)
			forget([=](const Capture &c) { return c.serial == serial; });
		Locked locked;
		for (Capture &c : captures())
			c.begun |= c.serial == serial;
		return error;
	});
}

} // namespace

bool capturing(cudaStream_t stream, IsCapturing ask)
{
	int status = cudaStreamCaptureStatusNone;

	if (mode() == Mode::passive || deferring())
		return false;
	use_device(); // or this thread's first call of the runtime would be about another
	return ask(real(stream), &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

bool being_captured()
{
	std::vector<Capture> all;

	if (noted == 0)
		return false;
	{
		Locked locked;
		all = captures();
	}
	for (const Capture &c : all) {
		int status = cudaStreamCaptureStatusNone;
		if (!c.begun || (c.per_thread && !pthread_equal(c.by, pthread_self())))
			return true; // as far as this thread can tell
		if (c.ask(c.stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone)
			return true;
		forget([&](const Capture &other) { return other.serial == c.serial; });
	}
	return false;
}

void forget_capture(cudaStream_t stream)
{
	if (noted != 0)
		forget([=](const Capture &c) { return c.stream == stream; });
}

void await_forget_captures()
{
	int here = 0;

	if (!one_device()) {
		REAL(cudaGetDevice)(&here);
		forget([=](const Capture &c) { return c.device == here; });
		await_postponed(); // of memory that the reset takes
		return;
	}
	Locked locked;
	captures().clear();
	postponed().clear();
	noted = waiting = 0;
}

void postpone(std::function<void()> release)
{
	Locked locked;
	postponed().push_back(std::move(release));
	waiting = postponed().size();
}

void await_postponed()
{
	std::vector<std::function<void()>> all;

	if (waiting == 0 || being_captured())
		return;
	{
		Locked locked;
		all.swap(postponed());
		waiting = 0;
	}
	seen(await_rest([] { return REAL(cudaDeviceSynchronize)(); }), "cudaFree"); // kernels may still use it
	for (const auto &release : all)
		release();
}

} // namespace lazy

using namespace lazy;

#define BEGIN_CAPTURE(name, IsCapturing)                                                                               \
	cudaError_t name(cudaStream_t stream, int mode)                                                                \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginCapture", stream, REAL(IsCapturing),                              \
		                     [=](cudaStream_t there) { return REAL(name)(there, mode); });                     \
	}
BEGIN_CAPTURE(cudaStreamBeginCapture, cudaStreamIsCapturing)
BEGIN_CAPTURE(cudaStreamBeginCapture_ptsz, cudaStreamIsCapturing_ptsz)

#define END_CAPTURE(name, IsCapturing)                                                                                 \
	cudaError_t name(cudaStream_t stream, cudaGraph_t *graph)                                                      \
	{                                                                                                              \
		return end_capture("cudaStreamEndCapture", stream, REAL(IsCapturing),                                  \
		                   [=](cudaStream_t there) { return REAL(name)(there, graph); });                      \
	}
END_CAPTURE(cudaStreamEndCapture, cudaStreamIsCapturing)
END_CAPTURE(cudaStreamEndCapture_ptsz, cudaStreamIsCapturing_ptsz)

#define BEGIN_CAPTURE_TO_GRAPH(name, IsCapturing)                                                                      \
	cudaError_t name(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after, const void *edges,      \
	                 size_t count, int mode)                                                                       \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginCaptureToGraph", stream, REAL(IsCapturing),                       \
		                     [=](cudaStream_t there) {                                                         \
			                     return REAL(name)(there, graph, after, edges, count, mode);               \
		                     });                                                                               \
	}
BEGIN_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph, cudaStreamIsCapturing)
BEGIN_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph_ptsz, cudaStreamIsCapturing_ptsz)

#define BEGIN_RECAPTURE(name, IsCapturing)                                                                             \
	cudaError_t name(cudaStream_t stream, int mode, cudaGraph_t graph, void *callback)                             \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginRecaptureToGraph", stream, REAL(IsCapturing),                     \
		                     [=](cudaStream_t there) { return REAL(name)(there, mode, graph, callback); });    \
	}
BEGIN_RECAPTURE(cudaStreamBeginRecaptureToGraph, cudaStreamIsCapturing)
BEGIN_RECAPTURE(cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamIsCapturing_ptsz)
