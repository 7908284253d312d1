// swap.h: host memory of the run's swap area, to which device memory moves (swap.cc).
#ifndef CASE_LAZY_SWAP_H
#define CASE_LAZY_SWAP_H

#include "abi.h"

namespace lazy {

inline const size_t movable_chunk = 32 << 20; // bytes: the unit that moves

// HostChunk is a chunk of host memory. The device reaches it at `window`, and also wherever its
// memory is mapped.
struct HostChunk {
	CUmemGenericAllocationHandle memory;
	CUdeviceptr window;
	int device; // that reaches the window
};

// await_host_chunk takes a chunk, and asks the scheduler for `more` of them if none is left. nullptr: the
// scheduler has none either. Only the thread that serves a revocation calls it. `lock` is held, here
// and in give_host_chunk.
HostChunk *await_host_chunk(int device, size_t more);
void give_host_chunk(HostChunk *chunk);

} // namespace lazy
#endif
