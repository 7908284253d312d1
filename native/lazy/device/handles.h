// handles.h: streams and events as a self-contained program knows them (handles.cc).
#ifndef CASE_LAZY_HANDLES_H
#define CASE_LAZY_HANDLES_H

#include "abi/abi.h"

namespace lazy {

cudaStream_t real(cudaStream_t stream); // what CUDA knows it as
cudaEvent_t real(cudaEvent_t event);
void *real_handle(void *maybe); // for arguments of unknown type
// shown is the opposite: the program's handle of what CUDA tells. It looks at all handles.
cudaEvent_t shown(cudaEvent_t told);
// note_recorded: the event was recorded. elapsed_time is a call that tells the time between two events, also where the process has
// moved since one of them.
void note_recorded(cudaEvent_t event);
using ElapsedTime = cudaError_t (*)(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t elapsed_time(ElapsedTime ask, float *ms, cudaEvent_t from, cudaEvent_t to);

// names_event: the value of this attribute of a launch begins with an event.
inline bool names_event(int attribute)
{
	return attribute == cudaLaunchAttributeProgrammaticEvent || attribute == cudaLaunchAttributeLaunchCompletionEvent;
}

// The handles of the default streams (cudaStreamLegacy, cudaStreamPerThread).
inline const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
inline const auto per_thread_stream = reinterpret_cast<cudaStream_t>(2);

// Recipe is how a stream or an event is made.
struct Recipe {
	enum Kind { stream, event } kind;
	unsigned flags;
	int priority; // of a stream
};
cudaError_t make_real(const Recipe &recipe, void **made); // on the thread's device
void unmake_real(const Recipe &recipe, void *made);

// new_handle: a virtual handle for what CUDA has made. made is nullptr if it is to be made later. nullptr: no memory.
void *new_handle(const Recipe &recipe, void *made);
// A move of the process (task/move.cc), with `lock` held. Each handle has a real one in each context that the process was in.
// keep_times keeps the times of recorded events, and needs the device to have no work. remake_handles makes on the thread's
// device, `to`, what was never made there; false: CUDA refuses, and nothing has changed. Then either switch_handles makes
// these the real ones, or drop_remade drops them.
void keep_times();
bool remake_handles(int to);
void switch_handles(int from);
void drop_remade();
void note_arrival(); // comes last, on the new device
// make_handles makes on the thread's device what is not made yet. What CUDA refuses exists no more; *call is the
// first such call.
cudaError_t make_handles(const char **call);
bool is_virtual(const void *handle);
bool unmade(const void *handle);
bool may_exist(const void *handle); // false: CUDA would refuse it
bool gone(const void *handle);      // the program has destroyed it, or a reset has

// end_handle: the program destroys it, and cannot use it any more. false: CUDA would refuse that. What is recorded may
// still name it, until forget_handle. keep_handle: CUDA has not destroyed it.
bool end_handle(const void *handle);
void keep_handle(const void *handle);
void forget_handle(const void *handle);
void forget_handles(); // cudaDeviceReset

} // namespace lazy
#endif
