// checkpoint.cc: cuCheckpointProcess*, by which one process takes all that another has on devices, and brings it back.
//
// The process that is asked serves a socket whose name has its PID, in a thread of its own (FAKE_CUDA_CHECKPOINT), as
// the driver does. So whichever of both is killed, nothing is left of it. Its memory stays where it is, which is the
// host; the device's bytes are given back and taken again.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "machine.h"

#define API extern "C" __attribute__((visibility("default")))

namespace fake {

namespace {

enum { illegal_state = 401, not_ready = 600, operating_system = 304 }; // of CUresult

enum Operation { get_state, take_lock, checkpoint, restore, unlock };

struct Request {
	Operation what;
	unsigned timeout_ms; // of take_lock; 0: any time
};

struct Reply {
	int error, state;
};

int listener = -1;

socklen_t name_of(int pid, sockaddr_un *out)
{
	*out = {};
	out->sun_family = AF_UNIX;
	const int length = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "fake-cuda-checkpoint/%d", pid);
	return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

void *serve(void *)
{
	for (;;) {
		const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
		Request asked;
		if (client < 0)
			continue;
		if (recv(client, &asked, sizeof asked, 0) == sizeof asked) {
			Reply reply = {};
			reply.error = machine().checkpointed(asked.what, asked.timeout_ms, &reply.state);
			send(client, &reply, sizeof reply, MSG_NOSIGNAL);
		}
		close(client);
	}
}

int ask(int pid, Request request, int *state)
{
	sockaddr_un address;
	const socklen_t size = name_of(pid, &address);
	const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	Reply reply = {operating_system, 0};

	if (socket < 0 || connect(socket, reinterpret_cast<sockaddr *>(&address), size) != 0)
		reply.error = CUDA_ERROR_INVALID_VALUE; // no such process, or it does not use CUDA
	else if (send(socket, &request, sizeof request, MSG_NOSIGNAL) != sizeof request || recv(socket, &reply, sizeof reply, 0) != sizeof reply)
		reply.error = operating_system;
	if (socket >= 0)
		close(socket);
	if (state != nullptr)
		*state = reply.state;
	return reply.error;
}

} // namespace

void serve_checkpoints()
{
	sockaddr_un address;
	const socklen_t size = name_of(getpid(), &address);

	if (getenv("FAKE_CUDA_CHECKPOINT") == nullptr || listener >= 0)
		return;
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(listener, 16) != 0 ||
	    pthread_atfork(nullptr, nullptr, [] { close(listener); }) != 0 || !in_thread(serve))
		abort();
}

// finished waits until the device has done all that was submitted. Where streams do not execute by themselves, this thread
// executes them.
bool Machine::finished(Clock::time_point until)
{
	for (size_t i = 0; i < streams.size() && !executing; i++)
		run(streams[i].get(), streams[i]->submitted);
	const auto done = [](const auto &s) { return s->done >= s->submitted; };
	while (!std::all_of(streams.begin(), streams.end(), done)) {
		if (Clock::now() >= until)
			return false;
		lock.wait(until);
	}
	return true;
}

int Machine::lock_process(unsigned timeout_ms)
{
	const auto until = timeout_ms == 0 ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(timeout_ms);
	const bool managed = std::any_of(segments.begin(), segments.end(), [](const auto &s) { return s.second.kind == Segment::managed; });

	if (managed || getenv("FAKE_CUDA_MPS") != nullptr)
		return CUDA_ERROR_NOT_SUPPORTED;
	locking = true;
	if (finished(until)) {
		lock.close();
		process = locked;
	}
	locking = false;
	lock.changed();
	return process == locked ? 0 : not_ready;
}

int Machine::checkpointed(int what, unsigned timeout_ms, int *state)
{
	std::lock_guard<Lock> held(lock);
	static const int needs[] = {-1, runs, locked, saved, locked};
	int error = needs[what] >= 0 && process != needs[what] ? illegal_state : 0;

	if (error == 0)
		switch (what) {
		case take_lock:
			error = lock_process(timeout_ms);
			break;
		case checkpoint:
			for (Device &d : devices) {
				d.saved = d.used;
				give(d, d.used);
			}
			process = saved;
			break;
		case restore:
			for (Device &d : devices)
				take(d, d.saved);
			process = locked;
			break;
		case unlock:
			process = runs;
			lock.open();
		}
	*state = process;
	return error;
}

} // namespace fake

// on_process is what the functions have in common. The process that calls needs a driver that has begun.
static CUresult on_process(const char *name, int pid, fake::Request request, int *state = nullptr)
{
	{
		std::lock_guard<fake::Lock> locked(fake::machine().lock);
		const int error = fake::machine().enter(name, fake::arguments(pid));
		if (error != 0 || fake::machine().devices.empty())
			return error != 0 ? error : 3; // CUDA_ERROR_NOT_INITIALIZED
	}
	return fake::ask(pid, request, state);
}

API CUresult cuCheckpointProcessGetState(int pid, int *state)
{
	return on_process("cuCheckpointProcessGetState", pid, {fake::get_state, 0}, state);
}

API CUresult cuCheckpointProcessLock(int pid, const unsigned *timeout_ms)
{
	return on_process("cuCheckpointProcessLock", pid, {fake::take_lock, timeout_ms != nullptr ? *timeout_ms : 0});
}

API CUresult cuCheckpointProcessCheckpoint(int pid, void *) { return on_process("cuCheckpointProcessCheckpoint", pid, {fake::checkpoint, 0}); }
API CUresult cuCheckpointProcessRestore(int pid, void *) { return on_process("cuCheckpointProcessRestore", pid, {fake::restore, 0}); }
API CUresult cuCheckpointProcessUnlock(int pid, void *) { return on_process("cuCheckpointProcessUnlock", pid, {fake::unlock, 0}); }
