// submit_window.h: how much work the process keeps submitted (submit_window.cc).
//
// A revocation waits for all work that is submitted. So that this wait is short, the run says for how
// long the device may have work ahead (probe/wire.h, WELCOME). A thread that would submit more waits before
// its launch.
#ifndef CASE_LAZY_SUBMIT_WINDOW_H
#define CASE_LAZY_SUBMIT_WINDOW_H

#include <stdint.h>

#include "abi/abi.h"

namespace lazy {

// await_window comes before a launch, outside of the gate. The stream is as CUDA knows it; own: its
// default stream is the thread's own. It changes nothing that the program sees, and does not wait while
// a stream is captured.
void await_window(cudaStream_t stream, bool own);

void forget_window(cudaStream_t stream); // the real one, before it is destroyed
void forget_windows();                   // cudaDeviceReset
void renew_windows();                    // in a child of fork

} // namespace lazy
#endif
