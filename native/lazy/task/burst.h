// burst.h: when what the process has submitted is over on the device (burst.cc).
#ifndef CASE_LAZY_BURST_H
#define CASE_LAZY_BURST_H

namespace lazy {

// start_looks starts the thread that shows the scheduler whether the device has work of this process
// (probe/activity.h). All signals of the caller are blocked.
void start_looks();

void forget_looks(); // the context is about to go. `lock` is held
void stop_looks();   // the process is about to exit
void renew_looks();  // in a child of fork

} // namespace lazy
#endif
