// occupancy.h: the shapes of kernels, for the scheduler (occupancy.cc).
#ifndef CASE_LAZY_OCCUPANCY_H
#define CASE_LAZY_OCCUPANCY_H

#include "abi/abi.h"

namespace lazy {

inline uint64_t product(dim3 d) { return static_cast<uint64_t>(d.x) * d.y * d.z; }

// blocks_per_sm is the occupancy of a kernel that is about to be launched, as far as it is
// known without a context; 0: unknown.
uint32_t blocks_per_sm(const void *kernel, uint32_t threads_per_block, size_t shared_bytes);

// launched notes a kernel launch's shape, and tells the scheduler where it is news.
void launched(const void *kernel, uint64_t blocks, uint32_t threads_per_block, size_t shared_bytes);

} // namespace lazy
#endif
