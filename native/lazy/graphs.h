// graphs.h: graphs, as they are captured and as they allocate memory.
#ifndef CASE_LAZY_GRAPHS_H
#define CASE_LAZY_GRAPHS_H

#include <functional>

#include "abi.h"

namespace lazy {

// ---- graph_memory.cc: memory that graphs allocate when they are launched

// await_graph_charge makes room for what a node is about to allocate. graph_has notes that the
// node did, graph_lacks that CUDA has refused, and graph_frees that a node, or the program, frees the memory.
cudaError_t await_graph_charge(const char *call, uint64_t bytes);
void graph_lacks(uint64_t bytes);
void graph_has(const void *memory, uint64_t bytes);
void graph_frees(const void *memory);
void forget_graphs(); // cudaDeviceReset

// ---- captures.cc: streams that are being captured into a graph

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
void forget_capture(cudaStream_t stream); // the real one, before it is destroyed
void await_forget_captures();             // cudaDeviceReset

} // namespace lazy
#endif
