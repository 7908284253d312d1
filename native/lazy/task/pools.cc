// pools.cc: see pools.h.
#include "pools.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "memory/memory.h"
#include "probe/wire.h"
#include "program/mode.h"
#include "stream_capture.h"

extern "C" {
CUresult cuDeviceGetMemPool(cudaMemPool_t *pool, CUdevice device);
CUresult cuMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *value);
CUresult cuMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
}

namespace lazy {
namespace {

struct Pool {
	int charged_to;
	uint64_t charged = 0; // bytes, in whole granules
	uint64_t awaited = 0; // of these, that threads still wait for
	uint64_t asked = 0;   // bytes that the driver has not answered yet
	bool object = false;  // of the task, which it is while it has memory
	uint64_t allocations = 0;
};

std::map<cudaMemPool_t, Pool> &pools()
{
	static auto *const all = new std::map<cudaMemPool_t, Pool>; // outlives static destructors
	return *all;
}

std::atomic<bool> any{false};

// Pools without memory of a device.
std::set<cudaMemPool_t> &elsewhere()
{
	static auto *const all = new std::set<cudaMemPool_t>;
	return *all;
}

uint64_t attribute(cudaMemPool_t handle, int which)
{
	uint64_t bytes = 0;
	return REAL_DRIVER(cuMemPoolGetAttribute)(handle, which, &bytes) == CUDA_SUCCESS ? bytes : 0;
}

// needs is how many bytes the pool has, or needs for what it is asked for.
uint64_t needs(cudaMemPool_t handle, const Pool &pool)
{
	return whole_granules(std::max(attribute(handle, cudaMemPoolAttrReservedMemCurrent), attribute(handle, cudaMemPoolAttrUsedMemCurrent) + pool.asked));
}

bool is_idle(cudaMemPool_t handle, const Pool &pool)
{
	return pool.object && pool.asked == 0 && pool.allocations == 0 && attribute(handle, cudaMemPoolAttrReleaseThreshold) == 0;
}

// give_up ends what the pool is charged. What is awaited is given up by who waits. No task ends in a capture.
void give_up(Pool *pool)
{
	Task &task = *Task::on(pool->charged_to);
	const uint64_t there = pool->charged - pool->awaited;

	if (pool->object && !Task::lasts_with_process() && !being_captured())
		task.uncharge(there);
	else if (pool->object)
		task.take_back(there);
	pool->object = false;
	pool->charged = 0;
}

// settle charges what the pool has.
void settle(cudaMemPool_t handle, Pool *pool)
{
	const uint64_t was = pool->charged, now = needs(handle, *pool);

	if (now == 0)
		return give_up(pool);
	Task::on(pool->charged_to)->count(pool->object ? 0 : 1, static_cast<int64_t>(now) - static_cast<int64_t>(was));
	pool->charged = now;
	pool->object = true;
}

} // namespace

cudaMemPool_t pool_of(CUdevice device)
{
	cudaMemPool_t pool = nullptr;
	const auto get = REAL_DRIVER(cuDeviceGetMemPool);

	return get != nullptr && get(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

cudaError_t await_pool_charge(const char *call, Task &task, cudaMemPool_t handle, size_t bytes)
{
	uint64_t more = 0;

	if (bytes > CASE_WIRE_MAX_BYTES) // counts are signed
		return task.await_charge(call, bytes);
	{
		Locked locked;
		if (elsewhere().count(handle) != 0)
			return cudaSuccess;
		Pool &pool = pools().try_emplace(handle, Pool{task.device()}).first->second;
		any.store(true);
		settle(handle, &pool);
		pool.asked += bytes;
		const uint64_t now = needs(handle, pool);
		more = now > pool.charged ? now - pool.charged : 0;
		pool.charged += more;
		pool.awaited += more;
	}
	const cudaError_t error = more > 0 ? task.await_charge(call, more) : cudaSuccess;
	Locked locked;
	const auto at = pools().find(handle);
	if (at == pools().end()) { // another thread has destroyed it meanwhile
		if (error == cudaSuccess && more > 0)
			task.take_back(more);
		return error;
	}
	Pool &pool = at->second;
	pool.awaited -= more;
	if (error == cudaSuccess && more > 0) {
		if (pool.object)
			task.take_back(0);
		pool.object = true;
	} else if (error != cudaSuccess) {
		pool.asked -= bytes;
		pool.charged -= more;
		settle(handle, &pool);
	}
	return error;
}

void pool_was_asked(cudaMemPool_t handle, size_t bytes, int answer)
{
	Locked locked;
	const auto at = pools().find(handle);

	if (at == pools().end())
		return;
	at->second.asked -= bytes;
	at->second.allocations += answer == CUDA_SUCCESS;
	settle(handle, &at->second);
}

void pool_has_back(cudaMemPool_t handle)
{
	Locked locked;
	const auto at = pools().find(handle);

	if (at == pools().end())
		return;
	if (at->second.allocations > 0) // 0: of a pool that is gone, whose handle this one has
		at->second.allocations--;
	settle(handle, &at->second);
}

bool is_charged(cudaMemPool_t handle)
{
	Locked locked;
	return pools().count(handle) != 0;
}

uint64_t allocations_of(cudaMemPool_t handle)
{
	Locked locked;
	const auto at = pools().find(handle);
	return at == pools().end() ? 0 : at->second.allocations;
}

uint64_t idle_pools()
{
	uint64_t idle = 0;

	if (!any || !one_device())
		return 0;
	Locked locked;
	for (const auto &[handle, pool] : pools())
		idle += is_idle(handle, pool);
	return idle;
}

void trim_idle_pools()
{
	if (!any || !one_device())
		return;
	Locked locked;
	for (auto &[handle, pool] : pools())
		if (is_idle(handle, pool) && REAL_DRIVER(cuMemPoolTrimTo)(handle, 0) == CUDA_SUCCESS)
			settle(handle, &pool);
}

void settle_pools()
{
	if (!any)
		return;
	Locked locked;
	for (auto &[handle, pool] : pools())
		settle(handle, &pool);
}

void pool_is_elsewhere(cudaMemPool_t pool)
{
	Locked locked;
	elsewhere().insert(pool);
}

// Another thread may be given the same handle as soon as the pool is gone, so the lock is held during the call.
int destroy_pool(cudaMemPool_t pool, const std::function<int()> &destroy)
{
	Locked locked;
	const int result = destroy();
	const auto at = pools().find(pool);

	if (result != CUDA_SUCCESS)
		return result;
	elsewhere().erase(pool);
	if (at == pools().end())
		return result;
	give_up(&at->second);
	pools().erase(at);
	return result;
}

void renew_pools(int charged_to)
{
	Locked locked;
	for (auto &[handle, pool] : pools())
		if (pool.charged_to == charged_to) {
			pool.object = false;
			pool.charged = pool.allocations = 0;
		}
	settle_pools();
}

} // namespace lazy
