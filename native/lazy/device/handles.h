// handles.h: streams and events made before the task is bound (handles.cc).
#ifndef CASE_LAZY_HANDLES_H
#define CASE_LAZY_HANDLES_H

#include "abi/abi.h"

namespace lazy {

cudaStream_t real(cudaStream_t stream); // what CUDA knows it as
cudaEvent_t real(cudaEvent_t event);
void *real_handle(void *maybe); // for arguments of unknown type

// names_event: the value of this attribute of a launch begins with an event.
inline bool names_event(int attribute)
{
	return attribute == cudaLaunchAttributeProgrammaticEvent || attribute == cudaLaunchAttributeLaunchCompletionEvent;
}

// The handles of the default streams (cudaStreamLegacy, cudaStreamPerThread).
inline const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
inline const auto per_thread_stream = reinterpret_cast<cudaStream_t>(2);

void *new_handle();                    // nullptr: none left
void set_real(void *handle, void *made);
bool is_virtual(const void *handle);
bool only_recorded(const void *handle); // it is to be made in the replay
bool may_exist(const void *handle);     // false: CUDA would refuse it
void destroy(const void *handle);       // the program has: it exists no more, once the record is replayed
bool gone(const void *handle);          // the program has destroyed it, or a reset has
void forget_handles();                  // cudaDeviceReset

} // namespace lazy
#endif
