// revoke.h: the scheduler takes device memory back (revoke.cc).
#ifndef CASE_LAZY_REVOKE_H
#define CASE_LAZY_REVOKE_H

#include <stdint.h>

namespace lazy {

// prepare_revocation tells the client, before its first call, that this process can give memory back.
void prepare_revocation();

// can_be_revoked: the run takes memory back from this process.
bool can_be_revoked();

// window_ns is for how long the run lets the device have work ahead (launch/submit_window.h); 0: any amount of work.
uint64_t window_ns();

// ends_bursts: the run wants the permission back when the device has no work of the process (burst.h).
bool ends_bursts();

// revoked: the process must ask before it gives its device more work. await_permission asks, and
// brings the memory back. forget_revocation: the task has ended.
bool revoked();
void await_permission();
void give_up_permission(); // to ask again, for what the process wants now. `lock` is held
// end_burst gives it up because the device has no work of the process. `lock` is held, and the gate is closed.
void end_burst();
void forget_revocation();
// show_holdings shows the scheduler what this process has on its device, after it has changed. `lock` is held.
void show_holdings();
// room_on_device is how much of what is on the host the scheduler counts on the device. `lock` is held.
uint64_t room_on_device();
// need_mapped maps memory that is bare while the permission is taken. It takes `lock`. It may be bare again soon, unless
// the caller goes on to be inside the gate (enter_to_inspect).
void need_mapped();
bool some_memory_bare();
void renew_revocation(); // in a child of fork

} // namespace lazy
#endif
