// pool.h: the pool that cudaMallocAsync draws from (pool.cc).
#ifndef CASE_LAZY_POOL_H
#define CASE_LAZY_POOL_H

namespace lazy {

// has_own_pool: it is one that the program has made the device's, which may limit, keep or export what it has.
bool has_own_pool();

} // namespace lazy
#endif
