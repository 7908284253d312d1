// revoke.h: the scheduler takes device memory back (revoke.cc).
#ifndef CASE_LAZY_REVOKE_H
#define CASE_LAZY_REVOKE_H

namespace lazy {

// prepare_revocation tells the client, before its first call, that this process can give memory back.
void prepare_revocation();

// revoked: the process must ask before it gives its device more work. await_permission asks, and
// brings the memory back. forget_revocation: the task has ended.
bool revoked();
void await_permission();
void forget_revocation();
// show_holdings shows the scheduler what this process has on its device, after it has changed. `lock` is held.
void show_holdings();
void renew_revocation(); // in a child of fork

} // namespace lazy
#endif
