// stream_capture.h: streams that are being captured into a graph (stream_capture.cc).
#ifndef CASE_LAZY_STREAM_CAPTURE_H
#define CASE_LAZY_STREAM_CAPTURE_H

#include <functional>

#include "abi/abi.h"

namespace lazy {

// capturing: what is asked of the stream becomes a node of a graph, says
// cudaStreamIsCapturing, or its _ptsz. An unbound process has no such stream, because to
// begin a capture binds.
using IsCapturing = cudaError_t (*)(cudaStream_t stream, int *status);
bool capturing(cudaStream_t stream, IsCapturing ask);
// being_captured: a stream may be, so nothing can wait for the device. What then has to wait
// is postponed. await_postponed releases it when the program frees something later.
bool being_captured();
void postpone(std::function<void()> release);
void await_postponed();
// capture_begins comes before the call that begins a capture of the stream, the real one, and capture_began or
// capture_failed after it.
unsigned long capture_begins(cudaStream_t stream, IsCapturing ask);
void capture_began(unsigned long serial);
void capture_failed(unsigned long serial);
// capture_ended forgets a capture of the thread's own stream, because no other thread can. Other
// captures are forgotten when somebody asks about them.
void capture_ended(cudaStream_t stream, IsCapturing ask);
void forget_capture(cudaStream_t stream); // the real one, before it is destroyed
void await_forget_captures();             // cudaDeviceReset

} // namespace lazy
#endif
