// stream.cc: streams, events and the work in them.
//
// Work waits until something needs it: a synchronization, or other work that must
// come after it. So a program (or the library under test) that reads a result too
// early, or overwrites a source too early, sees it every time.
//
// With FAKE_CUDA_KERNEL_US two threads execute the streams instead, side by side, as a GPU does: one
// the program's functions, the other all else. A kernel begins when what it waits for is done, takes
// so long, and touches its memory at its end. So memory that is taken away while a kernel is under
// way is a fault.
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <new>

#include "machine.h"

namespace fake {

enum { stream_non_blocking = 1 };

Stream *Machine::default_stream(int device)
{
	Stream *&s = default_streams[device];

	if (s == nullptr)
		s = make_stream(device, 0, 0);
	return s;
}

Stream *Machine::make_stream(int device, unsigned flags, int priority)
{
	streams.push_back(std::make_unique<Stream>());
	Stream *s = streams.back().get();

	stream_of[s] = s;
	s->device = device;
	s->live = true;
	s->flags = flags;
	s->priority = priority;
	s->blocking = (flags & stream_non_blocking) == 0;
	return s;
}

int Machine::stream(const void *handle, int device, Stream **out)
{
	if (reinterpret_cast<uintptr_t>(handle) == 2) { // cudaStreamPerThread
		Stream *&own = own_streams[{pthread_self(), device}];
		if (own == nullptr || !own->live)
			own = make_stream(device, 0, 0);
		*out = own;
		return 0;
	}
	if (reinterpret_cast<uintptr_t>(handle) < 2) { // the default stream: null, or cudaStreamLegacy
		*out = default_stream(device);
		return 0;
	}
	const auto found = stream_of.find(handle);
	if (found == stream_of.end())
		return violation("use of a handle that is not a stream: " + text(handle));
	if (!found->second->live)
		return violation("use of a destroyed stream");
	*out = found->second;
	return 0;
}

int Machine::end_stream(Stream *s)
{
	run(s, s->submitted);
	s->live = false;
	return 0;
}

Event *Machine::make_event(int device)
{
	Event *const e = new Event();

	events[e].reset(e);
	e->device = device;
	e->live = true;
	return e;
}

int Machine::event(const void *handle, Event **out)
{
	const auto found = events.find(handle);
	if (found == events.end())
		return violation("use of a handle that is not an event: " + text(handle));
	if (!found->second->live)
		return violation("use of a destroyed event");
	*out = found->second.get();
	return 0;
}

int Machine::end_event(Event *e)
{
	e->live = false;
	return 0;
}

int Machine::record(Event *e, Stream *s)
{
	if (e->device != s->device)
		return violation("event and stream of different devices");
	auto time = std::make_shared<int64_t>(0);
	submit(s, [time] {
		*time = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
		return 0;
	});
	e->captured = s->capture != nullptr;
	e->mark = {s, s->submitted};
	e->all.clear();
	e->time = time;
	return 0;
}

// It is no work of a stream: nothing comes after it, and a poll executes nothing.
int Machine::record_all(Event *e)
{
	const int error = spoil();

	e->captured = false;
	e->all.clear();
	for (const auto &s : streams)
		if (s->device == e->device)
			e->all.emplace_back(s.get(), s->submitted);
	return error;
}

// A wait is work that does nothing and comes after the event. In a capture work is done in order anyway.
int Machine::await(Stream *s, const Event *e)
{
	if (e->mark.first != nullptr && s->capture == nullptr)
		submit(s, [] { return 0; }, {e->mark});
	return 0;
}

int Machine::query(Event *e)
{
	if (!e->all.empty())
		return std::all_of(e->all.begin(), e->all.end(), [this](const Mark &m) { return reached(m); }) ? 0 : cudaErrorNotReady;
	if (!e->captured)
		return poll(e->mark);
	spoil();
	return 907; // cudaErrorCapturedEvent
}

int Machine::elapsed(Event *from, Event *to, float *milliseconds)
{
	if (from->device != to->device)
		return violation("elapsed time between events of different devices");
	if (from->time == nullptr || to->time == nullptr)
		return error_handle;
	if (*from->time == 0 || *to->time == 0)
		return cudaErrorNotReady;
	*milliseconds = static_cast<float>(*to->time - *from->time) / 1e6f;
	return 0;
}

int Machine::spoil()
{
	spoilt.insert(captured.begin(), captured.end());
	return captured.empty() ? 0 : 900; // cudaErrorStreamCaptureUnsupported
}

void Machine::submit(Stream *s, Work work, std::vector<Mark> after)
{
	if (s->capture != nullptr) {
		s->capture->nodes.push_back(std::move(work));
		return;
	}
	start_executors();
	Item item = {std::move(work), std::move(after), {}};
	// The legacy default stream waits for the blocking ones, and they for it.
	Stream *legacy = default_stream(s->device);
	if (s == legacy) {
		for (auto &other : streams)
			if (other.get() != s && other->device == s->device && other->blocking)
				item.after.emplace_back(other.get(), other->submitted);
	} else if (s->blocking) {
		item.after.emplace_back(legacy, legacy->submitted);
	}
	s->queue.push_back(std::move(item));
	s->submitted++;
	lock.changed();
}

// perform does what is at the head of a stream.
void Machine::perform(Stream *s)
{
	Item item = std::move(s->queue.front());
	Device &d = devices[static_cast<size_t>(s->device)];

	s->queue.pop_front();
	s->performing = true;
	if (d.fault == 0) {
		const int error = executing && item.work.on_host ? lock.without(item.work.does) : item.work.does();
		if (error == goes_on) {
			item.due = {};
			s->queue.push_front(std::move(item));
			s->performing = false;
			return;
		}
		if (error != 0)
			d.fault = error;
	}
	s->performing = false;
	s->done++;
	lock.changed();
}

void Machine::run(Stream *s, uint64_t up_to)
{
	while (executing && s->done < up_to)
		lock.wait();
	while (s->done < up_to && !s->queue.empty()) {
		const std::vector<Mark> after = std::move(s->queue.front().after);
		s->queue.front().after.clear();
		for (const Mark &m : after)
			run(m.first, m.second);
		if (after.empty())
			perform(s);
	}
}

void Machine::drain(int device)
{
	for (size_t i = 0; i < streams.size(); i++)
		if (streams[i]->device == device)
			run(streams[i].get(), streams[i]->submitted);
	waited(device);
}

// Where nobody else executes, a poll makes progress, so that a program that polls ends.
int Machine::poll(const Mark &mark)
{
	if (!executing && !reached(mark))
		run(mark.first, mark.first->done + 1);
	return reached(mark) ? 0 : cudaErrorNotReady;
}

// ---- streams that execute by themselves

// begins: the head of a stream is under way, or has just begun.
bool Machine::begins(Stream *s)
{
	if (s->queue.empty() || s->performing)
		return false;
	Item &head = s->queue.front();
	if (head.due != Clock::time_point{})
		return true;
	for (const Mark &m : head.after)
		if (!reached(m))
			return false;
	head.due = Clock::now() + head.work.takes;
	return true;
}

void Machine::execute(bool on_host)
{
	std::lock_guard<Lock> held(lock);

	for (;;) {
		auto next = Clock::time_point::max();
		bool some = false;
		for (size_t i = 0; i < streams.size(); i++)
			if (Stream *s = streams[i].get(); begins(s) && s->queue.front().work.on_host == on_host) {
				const auto due = s->queue.front().due;
				if (due <= Clock::now()) {
					perform(s);
					some = true;
				} else {
					next = std::min(next, due);
				}
			}
		if (!some)
			lock.wait(next);
	}
}

bool in_thread(void *(*body)(void *))
{
	sigset_t all, before; // the program's signals are the program's threads'
	pthread_t thread;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const bool started = pthread_create(&thread, nullptr, body, nullptr) == 0;
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	return started && pthread_detach(thread) == 0;
}

// start_executors starts the threads that execute streams, in this process. A child made by fork has
// no such threads, and nothing of its parent's on a device.
void Machine::start_executors()
{
	static const bool wanted = getenv("FAKE_CUDA_KERNEL_US") != nullptr;

	if (!wanted || executing)
		return;
	static const int handlers = pthread_atfork([] { machine().lock.lock(); }, [] { machine().lock.unlock(); },
	                                           [] {
		                                           new (&machine().lock) Lock;
		                                           machine().executing = false;
	                                           });
	executing = handlers == 0 && in_thread([](void *) -> void * { return machine().execute(false), nullptr; }) &&
	            in_thread([](void *) -> void * { return machine().execute(true), nullptr; });
	if (!executing)
		abort();
}

// ---- kernels

static thread_local sigjmp_buf landing;
static thread_local bool running, once_more;
static thread_local int running_on;
static thread_local CUcontext running_in;
static struct sigaction before;

static void stop_kernel(int error)
{
	running = false;
	siglongjmp(landing, error);
}

static void on_fault(int, siginfo_t *about, void *)
{
	if (running && machine().touches_host(running_on, about->si_addr))
		return;
	if (running)
		stop_kernel(cudaErrorIllegalAddress);
	sigaction(SIGSEGV, &before, nullptr); // not a kernel's: let it happen again
}

static void *symbol(const void *host)
{
	void *address = nullptr;
	size_t bytes;

	if (machine().variable(host, running_on, &address, &bytes) != 0)
		stop_kernel(cudaErrorIllegalAddress);
	machine().open(running_on, running_in, true); // it may have been made just now
	return address;
}

int Machine::kernel(int device, CUcontext context, const fake_launch &launch, const fake_kernel *k,
                    std::vector<char> arguments, unsigned round)
{
	fake_launch now = launch;
	std::vector<void *> pointers;
	struct sigaction catching = {};
	sigset_t faults, masked;
	size_t offset = 0;

	for (unsigned i = 0; i < k->count; i++) {
		pointers.push_back(arguments.data() + offset);
		offset += (k->sizes[i] + 15) / 16 * 16;
	}
	now.device = device;
	now.symbol = symbol;
	now.fail = stop_kernel;
	now.round = round;
	now.again = [] { once_more = true; };
	once_more = false;
	catching.sa_sigaction = on_fault;
	catching.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &catching, &before);
	sigemptyset(&faults); // the thread that waits for the kernel, and so runs it, may have blocked them
	sigaddset(&faults, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &faults, &masked);
	open(device, context, true);
	running_on = device;
	running_in = context;
	int error = sigsetjmp(landing, 1);
	if (error == 0) {
		running = true;
		k->run(&now, pointers.data());
		running = false;
	}
	open(device, context, false);
	pthread_sigmask(SIG_SETMASK, &masked, nullptr);
	sigaction(SIGSEGV, &before, nullptr);
	return error == 0 && once_more ? goes_on : error;
}

} // namespace fake
