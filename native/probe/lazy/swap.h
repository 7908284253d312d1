// swap.h: host memory of the run's swap area, to which device memory moves (swap.cc).
#ifndef CASE_LAZY_SWAP_H
#define CASE_LAZY_SWAP_H

#include "abi.h"

namespace lazy {

// Memory moves in chunks of one size, in bytes: the largest, unless the run says so before memory is made.
inline const size_t largest_chunk = 32 << 20;
size_t movable_chunk();
// use_chunks has them be of this size. false: memory is there in chunks of another size, or the size is none that
// this library can use: a power of two, from a granule of 2 MiB to the largest.
bool use_chunks(uint64_t bytes);

// HostChunk is a chunk of host memory. The device reaches it at `window`, and also wherever its
// memory is mapped.
struct HostChunk {
	CUmemGenericAllocationHandle memory;
	CUdeviceptr window;
	int device; // that reaches the window
};

// await_host_chunk takes a chunk, and asks the scheduler for `more` of them if too few are left: it leaves one,
// if the scheduler gives so many, so that memory can change places later. nullptr: the scheduler has none
// either. Only the thread that serves a revocation calls it. unused_host_chunk takes a chunk that is left. `lock` is
// held, here and in the functions below.
HostChunk *await_host_chunk(int device, size_t more);
HostChunk *unused_host_chunk(int device);
bool has_unused_host_chunk();
void give_host_chunk(HostChunk *chunk);

} // namespace lazy
#endif
