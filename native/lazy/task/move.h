// move.h: the process goes to another device with its task (move.cc).
#ifndef CASE_LAZY_MOVE_H
#define CASE_LAZY_MOVE_H

#include <string>

#include "probe/client.h"

namespace lazy {

// bound_by says what keeps the process on its device for good. "": nothing.
std::string bound_by();

// move_task takes the process to the device that the revocation names. `lock` is held, the gate is closed, the device has no work, and the
// task's context is the thread's. The answer is busy, and nothing has changed, unless this changes it.
void move_task(const client_revocation &r, uint64_t deadline_ns, client_revoked *answer);

} // namespace lazy
#endif
