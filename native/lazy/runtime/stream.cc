// stream.cc: streams, events and synchronization.
#include <memory>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "launch/submit_window.h"
#include "launch/work.h"
#include "program/mode.h"
#include "program/objects.h"
#include "task/direct.h"
#include "task/record.h"
#include "task/report.h"
#include "task/stop.h"
#include "task/stream_capture.h"
#include "task/stream_ordered.h"
#include "task/submit_gate.h"
#include "task/task.h"

namespace lazy {
namespace {

// virtual_handles: the program gets handles of the library's own. Once there is a context, only a process that may be moved
// needs them.
bool virtual_handles()
{
	return one_device() && (home() < 0 || may_be_taken()) && self_contained() && !loads_parts();
}

// make creates a stream or an event. While nothing has a context it is made later, before the record is replayed.
template <typename Handle> cudaError_t make(const char *call, Handle *handle, const Recipe &recipe)
{
	void *made = nullptr;

	if (handle == nullptr)
		return fail(cudaErrorInvalidValue);
	tie(Tie::handle, call);
	if (await_or_defer() && virtual_handles()) {
		Locked locked;
		if (deferring() && home() < 0) {
			*handle = static_cast<Handle>(new_handle(recipe, nullptr));
			return *handle != nullptr ? cudaSuccess : fail(cudaErrorMemoryAllocation);
		}
	}
	if (home() < 0)
		if (cudaError_t error = await_device(); error != cudaSuccess)
			return error;
	const bool is_own = virtual_handles();
	if (!is_own)
		tie_here(Tie::call, call);
	for (;;) {
		const unsigned epoch = device_epoch();
		use_device(); // its context is there, with or without a task
		if (cudaError_t error = seen(make_real(recipe, &made), call); error != cudaSuccess)
			return error;
		if (!is_own && !deferring() && epoch == device_epoch()) {
			*handle = static_cast<Handle>(made);
			return cudaSuccess;
		}
		Locked locked; // who holds it may have asked for a device before the tie
		if (epoch == device_epoch()) {
			*handle = static_cast<Handle>(is_own ? new_handle(recipe, made) : made);
			if (*handle != nullptr)
				return cudaSuccess;
		}
		unmake_real(recipe, made);
		if (epoch == device_epoch())
			return fail(cudaErrorMemoryAllocation);
	} // the process has moved meanwhile, or has another device
}

// ordered is a call whose effect is in the order of a stream. It is recorded while the task is
// unbound. Once there is a context and nothing is recorded, the call needs no task: a program may
// time and destroy what its last task has left. valid: the handles that the call names may exist.
template <typename Run, typename Replay> cudaError_t ordered(const char *call, bool valid, Run run, Replay replay)
{
	if (one_device() && !valid)
		return fail(cudaErrorInvalidResourceHandle);
	if (await_or_defer()) {
		Locked locked;
		if (deferring() && (home() < 0 || recorded())) {
			record_kept(call, replay);
			return cudaSuccess;
		}
	}
	await_kernel();
	use_device();
	return seen(run(), call);
}

template <typename Run> cudaError_t ordered(const char *call, bool valid, Run run)
{
	return ordered(
		call, valid,
		[=] {
			const Staying here;
			if (may_be_taken()) // else a handle may be of the device on which the thread still is
				use_device();
			return run();
		},
		run);
}

cudaError_t recorded_if(cudaError_t result, cudaEvent_t event)
{
	if (result == cudaSuccess)
		note_recorded(event);
	return result;
}

bool valid(cudaStream_t stream)
{
	return stream == nullptr || stream == legacy_stream || stream == per_thread_stream || may_exist(stream);
}

// end is the destruction of a stream or an event. A handle that the replay finds destroyed
// already, or never made, is not an error of the program.
template <typename Handle, typename Run> cudaError_t end(const char *call, Handle handle, Run run)
{
	if (one_device() && !end_handle(handle))
		return fail(cudaErrorInvalidResourceHandle);
	if (await_or_defer() && unmade(handle)) {
		Locked locked;
		if (unmade(handle) && !recorded()) { // so nothing names it
			forget_handle(handle);
			return cudaSuccess;
		}
	}
	return ordered(
		call, true,
		[=] {
			const cudaError_t error = run(real(handle));
			error == cudaSuccess ? forget_handle(handle) : keep_handle(handle);
			return error;
		},
		[=] {
			cudaError_t error = run(real(handle));
			if (error == cudaErrorInvalidResourceHandle) {
				REAL(cudaGetLastError)(); // the program has seen none
				error = cudaSuccess;
			}
			forget_handle(handle);
			return error;
		});
}

// wait is a synchronization. While the task is unbound, nothing runs except what an earlier task
// has left. The program cannot see that the record has not run, unless a recorded copy reads
// memory that the program may change from now on. What the program does next, in any stream,
// comes after the record.
enum class For { device, part, answer }; // a question waits for nothing

template <For what, typename Run> cudaError_t wait(const char *call, bool valid, Run run)
{
	if (one_device() && !valid)
		return fail(cudaErrorInvalidResourceHandle);
	if (await_or_defer()) {
		Locked locked;
		if (deferring() && promised()) {
			cudaError_t error = Task::process().await_bound();
			if (error != cudaSuccess)
				return error;
		} else if (deferring()) {
			record_wait();
			if (home() < 0)
				return cudaSuccess;
		}
	}
	use_device();
	if (what != For::device) {
		cudaError_t error;
		{
			const Waits waits(what != For::answer);
			error = run();
			error = seen(what == For::answer ? answer(error) : error, call);
		}
		if (error == cudaSuccess) {
			drop_reached();
			await_end(call);
		}
		return error;
	}
	idle();
	const uint64_t before = before_wait();
	cudaError_t error = seen(await_rest(run), call);
	if (error == cudaSuccess)
		waited(before);
	return error;
}

using Callback = void (*)(cudaStream_t stream, cudaError_t status, void *data);

// Told is a callback and what the program knows its stream as, where that is not what CUDA
// tells it.
struct Told {
	cudaStream_t stream;
	Callback callback;
	void *data;
};

// CUDA runs each once: a callback is not captured (CUDA Runtime API, cudaStreamAddCallback).
void tell(cudaStream_t, cudaError_t status, void *data)
{
	const std::unique_ptr<Told> told(static_cast<Told *>(data));
	told->callback(told->stream, status, told->data);
}

template <typename Add> cudaError_t add_callback(cudaStream_t stream, Callback callback, void *data, Add add)
{
	EXISTS(stream);
	return direct("cudaStreamAddCallback", [=] {
		if (!is_virtual(stream) || callback == nullptr)
			return add(callback, data);
		auto told = std::make_unique<Told>(Told{stream, callback, data});
		cudaError_t error = add(tell, told.get());
		if (error == cudaSuccess)
			static_cast<void>(told.release()); // tell has it
		return error;
	});
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return make("cudaStreamCreate", stream, {Recipe::stream, 0, 0}); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return make("cudaStreamCreateWithFlags", stream, {Recipe::stream, flags, 0});
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	return make("cudaStreamCreateWithPriority", stream, {Recipe::stream, flags, priority});
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return end("cudaStreamDestroy", stream, [](cudaStream_t there) {
		forget_capture(there);
		forget_window(there);
		return REAL(cudaStreamDestroy)(there);
	});
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return make("cudaEventCreate", event, {Recipe::event, 0, 0}); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	return make("cudaEventCreateWithFlags", event, {Recipe::event, flags, 0});
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return end("cudaEventDestroy", event, [](cudaEvent_t there) { return REAL(cudaEventDestroy)(there); });
}

#define EVENT_RECORD(name)                                                                                             \
	cudaError_t name(cudaEvent_t event, cudaStream_t stream)                                                       \
	{                                                                                                              \
		return ordered("cudaEventRecord", may_exist(event) && valid(stream),                                   \
		               [=] { return recorded_if(REAL(name)(real(event), real(stream)), event); });                                 \
	}
EVENT_RECORD(cudaEventRecord)
EVENT_RECORD(cudaEventRecord_ptsz)

#define EVENT_RECORD_FLAGS(name)                                                                                       \
	cudaError_t name(cudaEvent_t event, cudaStream_t stream, unsigned flags)                                       \
	{                                                                                                              \
		return ordered("cudaEventRecordWithFlags", may_exist(event) && valid(stream),                          \
		               [=] { return recorded_if(REAL(name)(real(event), real(stream), flags), event); });                          \
	}
EVENT_RECORD_FLAGS(cudaEventRecordWithFlags)
EVENT_RECORD_FLAGS(cudaEventRecordWithFlags_ptsz)

#define STREAM_WAIT(name)                                                                                              \
	cudaError_t name(cudaStream_t stream, cudaEvent_t event, unsigned flags)                                       \
	{                                                                                                              \
		return ordered("cudaStreamWaitEvent", may_exist(event) && valid(stream),                               \
		               [=] { return REAL(name)(real(stream), real(event), flags); });                          \
	}
STREAM_WAIT(cudaStreamWaitEvent)
STREAM_WAIT(cudaStreamWaitEvent_ptsz)

#define STREAM_SYNCHRONIZE(name)                                                                                       \
	cudaError_t name(cudaStream_t stream)                                                                          \
	{                                                                                                              \
		return wait<For::part>("cudaStreamSynchronize", valid(stream), [=] {                                       \
			const uint64_t before = before_wait();                                                         \
			cudaError_t error = unmade(stream) ? cudaSuccess : REAL(name)(real(stream));            \
			if (error == cudaSuccess && (stream == nullptr || stream == legacy_stream))                    \
				waited_in_order(before);                                                               \
			return error;                                                                                  \
		});                                                                                                    \
	}
STREAM_SYNCHRONIZE(cudaStreamSynchronize)
STREAM_SYNCHRONIZE(cudaStreamSynchronize_ptsz)

#define STREAM_QUERY(name)                                                                                             \
	cudaError_t name(cudaStream_t stream)                                                                          \
	{                                                                                                              \
		return wait<For::answer>("cudaStreamQuery", valid(stream),                                                   \
		            [=] { return unmade(stream) ? cudaSuccess : REAL(name)(real(stream)); });           \
	}
STREAM_QUERY(cudaStreamQuery)
STREAM_QUERY(cudaStreamQuery_ptsz)

#define ADD_CALLBACK(name)                                                                                             \
	cudaError_t name(cudaStream_t stream, Callback callback, void *data, unsigned flags)                           \
	{                                                                                                              \
		return add_callback(stream, callback, data, [=](Callback what, void *with) {                           \
			return REAL(name)(real(stream), what, with, flags);                                            \
		});                                                                                                    \
	}
ADD_CALLBACK(cudaStreamAddCallback)
ADD_CALLBACK(cudaStreamAddCallback_ptsz)

// elapsed is a question about the context. It comes after what is recorded, if anything is.
static cudaError_t elapsed(const char *call, ElapsedTime ask, float *ms, cudaEvent_t from, cudaEvent_t to)
{
	if (cudaError_t error = recorded() ? await_device() : await_context(); error != cudaSuccess)
		return error;
	return seen(one_device() ? elapsed_time(ask, ms, from, to) : ask(ms, from, to), call);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	return elapsed("cudaEventElapsedTime", REAL(cudaEventElapsedTime), ms, from, to);
}

cudaError_t cudaEventElapsedTime_v2(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	return elapsed("cudaEventElapsedTime", REAL(cudaEventElapsedTime_v2), ms, from, to);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return wait<For::answer>("cudaEventQuery", may_exist(event),
	            [=] { return unmade(event) ? cudaSuccess : REAL(cudaEventQuery)(real(event)); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return wait<For::part>("cudaEventSynchronize", may_exist(event),
	            [=] { return unmade(event) ? cudaSuccess : REAL(cudaEventSynchronize)(real(event)); });
}

cudaError_t cudaDeviceSynchronize()
{
	return wait<For::device>("cudaDeviceSynchronize", true, [] { return REAL(cudaDeviceSynchronize)(); });
}

cudaError_t cudaThreadSynchronize()
{
	return wait<For::device>("cudaThreadSynchronize", true, [] { return REAL(cudaThreadSynchronize)(); });
}
