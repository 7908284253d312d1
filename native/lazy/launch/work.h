// work.h: what runs on the devices, as far as this library sees it (work.cc).
#ifndef CASE_LAZY_WORK_H
#define CASE_LAZY_WORK_H

#include <stdint.h>

namespace lazy {

// working says that this thread's device has work whose errors nobody has seen yet. idle says
// that somebody has waited for all of the work.
void working();          // in any stream
void working_in_order(); // in the legacy default stream, whose work is over when a wait for it ends
void other_streams();    // there is work in another stream, or may be
void working_soon();     // before a call that may be the first to make the context
void idle();
bool at_work();

// waited says that a wait for all of this thread's device has succeeded, which began when
// before_wait was read: the scheduler then knows that nothing runs (probe/activity.h).
// waited_in_order says the same of the legacy default stream.
uint64_t before_wait();
void waited(uint64_t before);
void waited_in_order(uint64_t before);

} // namespace lazy
#endif
