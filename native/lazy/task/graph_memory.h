// graph_memory.h: memory that graphs allocate when they are launched (graph_memory.cc).
#ifndef CASE_LAZY_GRAPH_MEMORY_H
#define CASE_LAZY_GRAPH_MEMORY_H

#include <stdint.h>

#include "abi/abi.h"
#include "task.h"

namespace lazy {

// await_graph_charge makes room for what a node is about to allocate. graph_has notes that the
// node did, graph_lacks that CUDA has refused, and graph_frees that a node, or the program, frees the memory.
cudaError_t await_graph_charge(const char *call, uint64_t bytes, Task &task);
void graph_lacks(uint64_t bytes);
void graph_has(const void *memory, uint64_t bytes);
void graph_frees(const void *memory);
void forget_graphs(); // cudaDeviceReset

} // namespace lazy
#endif
