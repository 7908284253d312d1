// swap.h: host memory of the run's swap area, to which device memory moves (swap.cc).
#ifndef CASE_LAZY_SWAP_H
#define CASE_LAZY_SWAP_H

#include <memory>

#include "abi/abi.h"
#include "probe/client.h"

namespace lazy {

// Memory moves in chunks of one size, in bytes: the largest, unless the run says so before memory is made.
inline const size_t largest_chunk = 32 << 20;
size_t movable_chunk();
// use_chunks has them be of this size. false: memory is there in chunks of another size, or the size is none that
// this library can use: a power of two, from a granule of 2 MiB to the largest.
bool use_chunks(uint64_t bytes);

// Windows are addresses that are reserved as long as a chunk may be mapped at them.
struct Windows {
	CUdeviceptr first = 0;
	size_t bytes = 0;
	~Windows();
};

// HostChunk is a chunk of host memory. The device reaches it at `window`, and also wherever its
// memory is mapped.
struct HostChunk {
	CUmemGenericAllocationHandle memory;
	CUdeviceptr window;
	std::shared_ptr<Windows> windows; // of the chunks that came with it
	int device;         // that reaches the window
	uint64_t offer_end; // of an offered one: where it ends in all that was offered, in bytes
};

// await_host_chunk takes a chunk, and asks the scheduler for `more` of them if too few are left: it leaves one,
// if the scheduler gives so many, so that memory can change places later. nullptr: the scheduler has none
// either. Only the thread that serves a revocation calls it. unused_host_chunk takes a chunk that is left. `lock` is
// held, here and in the functions below.
HostChunk *await_host_chunk(int device, size_t more);
HostChunk *unused_host_chunk(int device);
bool has_unused_host_chunk();
void give_host_chunk(HostChunk *chunk);

// offer_host_chunks makes unused chunks of what the scheduler gives unasked, and has the device reach them: that takes longer
// than to copy as much, and now nobody waits for it. The descriptors stay the caller's. return_offered gives back those that
// were not used since, and returns how much stays in use, from the beginning of all that was offered. Neither needs a lock. renew_offered is
// for a child of fork.
void offer_host_chunks(const client_space &space, int device);
uint64_t return_offered();
void renew_offered();

} // namespace lazy
#endif
