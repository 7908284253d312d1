// lock.cc: the locks, and handlers of signals that call CUDA.
//
// A handler that interrupts this library in the middle of a change would find its state broken.
// So no handler runs in a thread that holds one of the locks. The exception is a wait for the
// scheduler, which can take hours: the state is whole there, and a task that is being asked for
// refuses to be asked for again. A bound call takes no lock where its duration matters.
#include <signal.h>

#include <initializer_list>

#include "lock.h"

namespace lazy {

pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t registering = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static thread_local unsigned held;    // locks
static thread_local sigset_t blocked; // before the first of them

// block blocks all signals except those that an instruction of this thread raises.
static void block(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
		sigdelset(&all, own);
	pthread_sigmask(SIG_BLOCK, &all, before);
}

// A handler that comes before the signals are blocked leaves things as they were.
void hold_signals()
{
	if (held == 0)
		block(&blocked);
	held++;
}

void let_signals()
{
	if (--held == 0) {
		const sigset_t before = blocked;
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
	}
}

Interruptible::Interruptible() : held_(held)
{
	const sigset_t before = blocked;

	held = 0;
	if (held_ > 0)
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Interruptible::~Interruptible()
{
	if (held_ > 0)
		block(&blocked);
	held = held_;
}

} // namespace lazy
