// burst.h: when what the process has submitted is over on the device (burst.cc).
#ifndef CASE_LAZY_BURST_H
#define CASE_LAZY_BURST_H

namespace lazy {

// start_looks starts the thread that shows the scheduler whether the device has work of this process
// (probe/activity.h), and that gives the permission up where the run wants that (revoke.h). All signals of the caller are blocked.
void start_looks();

// ready_looks: the context of the task is there, and is this thread's. `lock` is held.
void ready_looks();

// begin_burst: the process has got its permission. It keeps it for one call at least.
void begin_burst();

void forget_looks(); // the context is about to go. `lock` is held
void stop_looks();   // the process is about to exit
void renew_looks();  // in a child of fork

} // namespace lazy
#endif
