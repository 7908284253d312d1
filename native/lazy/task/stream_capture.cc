// stream_capture.cc: streams whose work becomes nodes of a graph instead of being done.
//
// While a stream is captured, nobody can wait for its device (CUDA Programming Guide,
// "Prohibited and Unhandled Operations"). The task must not end, because what is captured next
// would be recorded as work of an unbound task. A relaxed capture, or a capture of another
// thread, still lets the program free memory. The release of that memory is postponed until the
// program frees something after the capture.
#include <atomic>
#include <functional>
#include <vector>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "program/mode.h"
#include "direct.h"
#include "report.h"
#include "stream_capture.h"
#include "task.h"

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

} // namespace

unsigned long capture_begins(cudaStream_t stream, IsCapturing ask)
{
	static unsigned long last;
	int device = 0;

	REAL(cudaGetDevice)(&device);
	Locked locked;
	captures().push_back({++last, stream, ask, pthread_self(), own_stream(stream, ask), false, device});
	noted = captures().size();
	return last;
}

void capture_failed(unsigned long serial)
{
	forget([=](const Capture &c) { return c.serial == serial; });
}

void capture_began(unsigned long serial)
{
	Locked locked;

	for (Capture &c : captures())
		c.begun |= c.serial == serial;
}

void capture_ended(cudaStream_t stream, IsCapturing ask)
{
	if (own_stream(stream, ask))
		forget([](const Capture &c) { return c.per_thread && pthread_equal(c.by, pthread_self()); });
}

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
