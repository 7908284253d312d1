// pools.h: what pools of stream-ordered memory have is charged (pools.cc).
//
// A pool takes memory in larger pieces than it is asked for, and keeps what is freed: until the program next waits, or,
// with a release threshold, for good. So a task is charged for what the driver says that the pool has.
#ifndef CASE_LAZY_TASK_POOLS_H
#define CASE_LAZY_TASK_POOLS_H

#include <stddef.h>

#include <functional>

#include "abi/abi.h"
#include "task.h"

namespace lazy {

// pool_of is the pool from which allocations of a device of the driver's come. nullptr: the driver does not say.
cudaMemPool_t pool_of(CUdevice device);

// await_pool_charge makes room for so many bytes that the pool is about to be asked for. It has been asked once
// pool_was_asked is called with its answer. pool_has_back: the program has freed an allocation.
cudaError_t await_pool_charge(const char *call, Task &task, cudaMemPool_t pool, size_t bytes);
void pool_was_asked(cudaMemPool_t pool, size_t bytes, int answer);
void pool_has_back(cudaMemPool_t pool);
bool is_charged(cudaMemPool_t pool); // the pool has been asked, and its memory is a device's
uint64_t allocations_of(cudaMemPool_t pool);

// idle_pools is how many objects of the process's task are pools that let all of their memory go when the program next
// waits, because it has freed everything. The driver lets it go at once with trim_idle_pools, when the device is idle.
uint64_t idle_pools();
void trim_idle_pools();

void settle_pools();                        // charges what the pools have by now
void pool_is_elsewhere(cudaMemPool_t pool); // its memory is not a device's
void renew_pools(int charged_to);           // cudaDeviceReset: the task has begun anew

// destroy_pool does the call that destroys a pool, and gives back what is charged for it. What CUDA does not destroy, such as a
// device's default pool, stays charged.
int destroy_pool(cudaMemPool_t pool, const std::function<int()> &destroy);

} // namespace lazy
#endif
