// freed.h: memory that the program has freed in the order of a stream (freed.cc).
#ifndef CASE_LAZY_FREED_H
#define CASE_LAZY_FREED_H

#include <stdint.h>

#include <functional>

#include "abi.h"

namespace lazy {

// free_in_order frees memory of this library once the stream has done what it has been given so far. It does not wait.
// own: no stream is the thread's own one. false: the driver cannot tell when, so the caller has to wait.
bool free_in_order(void *memory, cudaStream_t stream, bool own);

// drop_reached gives back what streams are done with.
void drop_reached();

// await_freed gives back what streams are done with until `enough`. false: not within a short time, or never.
bool await_freed(const std::function<bool()> &enough);

// await_end ends the task if the program has freed all of its memory and the device has no work, or soon has none.
void await_end(const char *call);

void forget_freed(); // cudaDeviceReset
void renew_freed();  // in a child of fork

} // namespace lazy
#endif
