// binding.cc: the task of task binding, from unbound to bound.
#include <time.h>

#include <algorithm>
#include <atomic>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/mps_recovery.h"
#include "memory/memory.h"
#include "probe/client.h"
#include "program/mode.h"
#include "program/objects.h"
#include "burst.h"
#include "explicit.h"
#include "record.h"
#include "report.h"
#include "revoke.h"
#include "shortage.h"
#include "task.h"

extern "C" cudaError_t cudaDeviceSynchronize(void);

namespace lazy {

static std::atomic<bool> wait_seen{false}; // the program has taken the error of a wait that ended
static cudaError_t lost; // what an MPS server said that did not recover in time

void saw_wait_end() { wait_seen.store(true); }

void Task::Refusal::note(uint64_t refused, cudaError_t why)
{
	*this = {refused > 0 ? refused : 1, why};
	wait_seen.store(false);
}

bool Task::Refusal::stands_for(uint64_t wanted) const
{
	return bytes != 0 && wanted >= bytes && !(error == cudaErrorNotReady && wait_seen);
}

bool await_or_defer()
{
	return deferring() && (self_contained() || await_device() != cudaSuccess);
}

// must_stay: only the device of the last grant will do.
bool Task::must_stay() const
{
	return confined() || (home() >= 0 && (ties.any() || asks_here() || cover_of(device()).tasks > 0));
}

// need is a request for so many bytes, on the task's device if the task must stay there.
case_need Task::need(uint64_t bytes) const
{
	case_need n = {};

	n.bytes = bytes;
	if (must_stay()) {
		n.flags = CASE_FLAG_DEVICE;
		n.device = scheduled();
	}
	return n;
}

// await_settled asks, and settles the device. It makes no call of the CUDA runtime, because
// driver/context_gate.cc comes here from inside one.
cudaError_t Task::await_settled(const case_need &need)
{
	const Phase before = phase();

	if (before != Phase::bound) // explicit tasks cover what a bound task without a grant has
		phase_.store(Phase::asking);
	const cudaError_t error = await_answer(need);
	if (error != cudaSuccess) {
		phase_.store(before);
		return error;
	}
	phase_.store(before == Phase::unbound ? Phase::granted : before);
	refusal_ = {};
	if (move_to(account_.grant))
		return cudaSuccess;
	close();
	phase_.store(before);
	return lasting(cudaErrorNoDevice, hidden_by());
}

cudaError_t Task::await_reserved_grant(uint32_t wait_ms)
{
	if (phase() == Phase::asking)
		return cudaErrorNotPermitted;
	if (device_is_hidden())
		return cudaErrorNoDevice;
	case_need ask = need(account_.in_use());
	ask.wait_ms = wait_ms;
	return await_settled(ask);
}

// stated is the footprint with its allowance for rounding, as far as a device has room for that beside the context's memory.
static Footprint stated(uint64_t context)
{
	Footprint f = declared();

	if (f.bytes > 0 && room().device > 0)
		f.bytes = std::min(f.bytes, std::max(f.bytes - rounding, room().device - std::min(room().device, context)));
	return f;
}

cudaError_t Task::await_grant(const Shape &shape, uint64_t more, bool managed)
{
	const bool states = home() < 0 && !(has_instances() && asks_for_tasks()); // else the program's own tasks have the footprint
	const Footprint hint = states ? stated(context_to_ask()) : Footprint{};     // of the job's first task
	const uint64_t known = in_use() + more, all = known + account_.context.local;
	case_need ask = need(known > hint.bytes ? known : hint.bytes);

	if (phase() == Phase::asking)
		return cudaErrorNotPermitted;
	if (device_is_hidden())
		return cudaErrorNoDevice;
	if (refusal_.stands_for(all))
		return refusal_.error;
	ask.flags |= managed ? CASE_FLAG_MANAGED : 0u;
	ask.flags |= awaits_device() && shape.blocks == 0 ? CASE_FLAG_EARLY : 0u;
	ask.blocks = shape.blocks == 0 ? hint.blocks : shape.blocks;
	ask.threads_per_block = shape.blocks == 0 ? hint.threads_per_block : shape.threads_per_block;
	ask.blocks_per_sm = shape.blocks == 0 ? 0 : shape.blocks_per_sm;
	const cudaError_t error = await_settled(ask);
	if (error != cudaSuccess && !device_is_hidden())
		refusal_.note(all, error);
	return error;
}

bool Task::await_explicit(const case_need &need, case_task *granted, int *answer)
{
	Locked locked;
	if (phase() != Phase::unbound || in_use() > 0 || must_stay() || device_is_hidden())
		return false;
	phase_.store(Phase::asking);
	{
		Interruptible here;
		*answer = client_await_grant(&need, granted);
	}
	phase_.store(Phase::unbound);
	if (*answer != CASE_OK || granted->device < 0)
		return true;
	if (move_to(*granted)) {
		phase_.store(Phase::granted);
		note_explicit(need, granted);
		return true;
	}
	client_free(granted);
	*answer = CASE_NO_DEVICE;
	return true;
}

// await_all_mapped puts memory behind what is reserved. What the scheduler has no room for on the device begins
// on the host.
static cudaError_t await_all_mapped(const case_task &granted, Missing *missing)
{
	const client_count counted = client_counted(&granted);

	missing->host = await_host_layout(counted.charged - counted.resident, home());
	if (missing->host > 0)
		return cudaErrorMemoryAllocation;
	const CUresult result = map_all(home(), &missing->device);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return cudaErrorMemoryAllocation;
	missing->device = 0;
	return seen(result, "cuMemMap");
}

// await_filled makes the context, and what the program did so far on it.
cudaError_t Task::await_filled(Missing *missing)
{
	cudaError_t error = make_context();

	if (error != cudaSuccess) {
		if (error != cudaErrorMemoryAllocation)
			return seen(error, "cudaSetDevice");
		no_context();
		return fail(error);
	}
	ready_looks();
	error = await_all_mapped(grant(), missing);
	if (error == cudaSuccess && (error = await_replay()) != cudaSuccess)
		REAL(cudaDeviceSynchronize)(); // what was replayed uses the memory
	return error;
}

cudaError_t Task::await_bound(const Shape &shape, uint64_t more, bool managed)
{
	switch (phase()) {
	case Phase::bound:
	case Phase::filling: // a replayed call has come back
		return cudaSuccess;
	case Phase::asking: // a signal handler during the wait
		return fail(cudaErrorNotPermitted);
	case Phase::unbound:
	case Phase::granted:
		break;
	}
	if (lost != cudaSuccess)
		return fail(lost);
	for (Patience patience;;) {
		cudaError_t error = cudaSuccess;
		if (held())
			error = await_cover(more);
		else if (home() < 0 || !covered(more))
			error = await_grant(shape, more, managed);
		if (error != cudaSuccess)
			return fail(error);
		const uint64_t had = account_.granted;
		Missing missing;
		phase_.store(Phase::filling);
		error = await_filled(&missing);
		if (error == cudaSuccess)
			break;
		const bool whole = missing.host > 0 && stay_ > 0; // it waits until what was to stay on the host has room on the device
		const bool again = whole || (missing.device > 0 && !patience.over());
		begins_whole_ = begins_whole_ || whole;
		if (missing.device > 0 && !again)
			error = failed_allocation("cudaMalloc", missing.device);
		if (missing.host > 0 && !again)
			error = failed_allocation("memory of the host (swap area)", missing.host);
		unmap_all();
		close();
		phase_.store(again ? Phase::asking : Phase::unbound);
		if (!again) {
			if (MpsRecovery::over() && mps_rejected(error))
				lost = error;
			return fail(error);
		}
		patience.await_look();
		phase_.store(Phase::unbound);
		more = std::max(more, had - std::min(had, in_use())); // what the mix declares is asked for only once
	}
	context_is_ready();
	begins_whole_ = false;
	phase_.store(Phase::bound, std::memory_order_release);
	return cudaSuccess;
}

cudaError_t await_device()
{
	if (!one_device())
		return cudaSuccess;
	if (deferring()) {
		Locked locked;
		if (cudaError_t error = Task::process().await_bound(); error != cudaSuccess)
			return error;
	}
	use_device();
	return cudaSuccess;
}

cudaError_t await_context()
{
	if (!one_device() || !has_context())
		return await_device();
	use_device();
	return cudaSuccess;
}

// The caller may be inside the CUDA runtime, and hold a lock there that the holder of `lock`
// goes on to take. So the caller waits for `lock` only until the driver is started. In a foreign
// program that comes first. In a run with instances no holder of `lock` calls the CUDA runtime before it.
cudaError_t await_confined()
{
	const timespec pause = {0, 1000000};

	if (!one_device() || driver_started() || !to_confine())
		return cudaSuccess;
	while (!driver_started()) {
		if (pthread_mutex_trylock(&lock) != 0) {
			nanosleep(&pause, nullptr);
			continue;
		}
		const Locked locked;
		pthread_mutex_unlock(&lock);
		return home() >= 0 || Task::process().held() ? cudaSuccess : Task::process().await_grant({}, 0, false);
	}
	return cudaSuccess;
}

} // namespace lazy
