// direct.h: calls of the CUDA runtime that need the device at once.
#ifndef CASE_LAZY_DIRECT_H
#define CASE_LAZY_DIRECT_H

#include "device/device.h"
#include "device/handles.h"
#include "report.h"
#include "shortage.h"
#include "stream_ordered.h"
#include "task.h"

namespace lazy {

template <typename Run> cudaError_t direct(const char *call, Run run)
{
	const Submitting submitting;
	cudaError_t error = await_device();
	return error == cudaSuccess ? seen(run(), call) : error;
}

// direct_kept is direct for what may leave state on the device.
template <typename Run> cudaError_t direct_kept(const char *call, Run run)
{
	tie(Tie::call, call);
	return direct(call, run);
}

// direct_loading is direct_kept for what CUDA may take memory for that no call shows. Gate: Submitting, Inspecting, or Ungated where
// the call neither gives work to the device nor looks at memory.
struct Ungated {};

template <typename Gate, typename Run> cudaError_t direct_loading(const char *call, Run run)
{
	UnseenShortage shortage(call);
	cudaError_t error;

	tie_here(Tie::call, call);
	if (error = await_device(); error != cudaSuccess) // before the gate, which a wait for the scheduler would keep shut
		return error;
	do {
		[[maybe_unused]] const Gate gate;
		if (error = await_device(); error != cudaSuccess)
			return error;
		error = run();
	} while (shortage.await_again(error));
	return shortage.refused() != cudaSuccess ? shortage.refused() : seen(error, call);
}

// await_rest does a wait for all of the task's device. A fault that stays ends all work too.
template <typename Wait> cudaError_t await_rest(Wait wait)
{
	const Waits waits;
	const Quiescence quiescence = Quiescence::now();
	use_device(); // after that moment: until then another thread may have bound the task elsewhere
	const cudaError_t error = wait();

	if (error == cudaSuccess || stays(error)) {
		drop_reached();
		Task::process().note_quiescent(quiescence);
	}
	return error;
}

// translate turns a location that the program names into a location that CUDA is to read. An unknown
// type may name a device in another way. If the granted device is not the job's first, such a type
// is replaced by a type that CUDA refuses.
inline void translate(CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		location->id = visible_to_real(location->id);
	else if (location->type > CU_MEM_LOCATION_TYPE_INVISIBLE && visible_to_real(0) != 0)
		location->type = -1;
}

// show is the opposite: what CUDA says, as the program knows it.
inline void show(CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		location->id = real_to_visible(location->id);
}

// EXISTS is what a call begins with that names a stream.
#define EXISTS(handle)                                                        \
	do {                                                                  \
		if (::lazy::gone(handle))                                     \
			return ::lazy::fail(cudaErrorInvalidResourceHandle);  \
	} while (0)

} // namespace lazy
#endif
