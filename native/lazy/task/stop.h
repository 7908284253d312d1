// stop.h: kernels that are stopped before they are done, and begun again (stop.cc).
//
// A kernel that may be stopped is the last thing that the device has of the process: until it is over, a call that gives the
// device work, waits for it or frees memory waits here. So when the kernel was stopped, nothing has seen what it has done so far.
#ifndef CASE_LAZY_STOP_H
#define CASE_LAZY_STOP_H

#include <stdint.h>

#include <functional>

#include "abi/abi.h"

namespace lazy {

// Stoppable is a kernel that is about to be launched, and can be begun again.
struct Stoppable {
	CUdeviceptr words = 0;           // of its module (native/stop/case_stop.h)
	cudaStream_t stream = nullptr;   // as CUDA knows it
	std::function<void()> prepare;   // for a launch again, outside of the gate: brings its memory
	std::function<CUresult()> run;   // launches it again, by the driver
	std::function<void(uint64_t, bool)> ended; // is told for how many ns it ran, and whether it was stopped
};

// begin_stoppable comes before the launch, inside of the gate. false: it is a launch as any other, because other calls are under
// way, or a signal handler makes it, or the driver is too old. launched comes after it.
bool begin_stoppable(Stoppable kernel);
void launched_stoppable(bool success);

// await_kernel waits until no kernel that may be stopped is left. The thread that begins kernels again does not wait.
// kernel_is_left: there is one, so calls of this thread wait.
void await_kernel();
bool kernel_is_left();

// answer is what a query of a stream or an event is to say, where CUDA says `found`: what a stopped kernel was to do is not done.
cudaError_t answer(cudaError_t found);

// stop_kernel asks a kernel that runs to end, and waits until it has. The gate is closed, and `lock` is held. false: work that
// came before it, or the kernel, does not end by the deadline. A kernel that ends late is begun again at once.
bool stop_kernel(uint64_t deadline_ns);

// kernel_is_stopped: a kernel that was stopped, or was asked to, is to run again. The device has no work.
bool kernel_is_stopped();

// take_lost is how long kernels had run, in ns, that have stopped since it was last called. Each began when its stream came to it.
uint64_t take_lost();

void forget_stops(); // the context is about to go
void renew_stops();  // in a child of fork

} // namespace lazy
#endif
