// drain.h: waits for a device that may last longer than the caller can wait (drain.cc).
#ifndef CASE_LAZY_DRAIN_H
#define CASE_LAZY_DRAIN_H

#include "abi/abi.h"

namespace lazy {

// await_drained waits until the context has done its work; *result is how the work has ended. false: not by the
// deadline (abi/clock.h), or not even the work that an earlier call has waited for. `lock` is held.
bool await_drained(CUcontext context, uint64_t deadline_ns, CUresult *result);
void renew_drain(); // in a child of fork

} // namespace lazy
#endif
