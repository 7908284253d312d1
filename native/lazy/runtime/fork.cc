// fork.cc: children of fork, which have one thread, and none of the tasks.
#include <pthread.h>

#include "abi/lock.h"
#include "device/addresses.h"
#include "device/confine.h"
#include "launch/submit_window.h"
#include "memory/by_handle.h"
#include "program/objects.h"
#include "task/bypass.h"
#include "task/explicit.h"
#include "task/managed.h"
#include "task/revoke.h"
#include "task/stop.h"
#include "task/stream_ordered.h"
#include "task/submit_gate.h"
#include "task/task.h"

namespace lazy {

// A child of fork has one thread, so nobody would release a lock that another thread held. A
// thread of the parent may have been waiting for a grant, which nobody will bring the child.
static void renew_in_child()
{
	lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	renew_looking();
	renew_hand_out();
	renew_choosing();
	renew_addresses();
	renew_explicit();
	renew_submit_gate();
	renew_revocation();
	renew_stops();
	renew_windows();
	renew_freed();
	renew_by_handle();
	renew_managed();
	registering = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	Task::renew_tasks();
}

__attribute__((constructor)) static void renew_in_children() { pthread_atfork(nullptr, nullptr, renew_in_child); }

} // namespace lazy
