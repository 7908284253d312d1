// task.cc: what the scheduler granted to a task, and what of the grant is in use.
//
// Tasks that the program asks for itself cover what is allocated on their device. The
// scheduler is asked only for what exceeds them.
#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <optional>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/driver.h"
#include "memory/account.h"
#include "memory/memory.h"
#include "probe/activity.h"
#include "probe/client.h"
#include "program/mode.h"
#include "program/variables.h"
#include "explicit.h"
#include "pools.h"
#include "record.h"
#include "report.h"
#include "revoke.h"
#include "stream_ordered.h"
#include "task.h"

extern "C" cudaError_t cudaGetDevice(int *device);

namespace lazy {

static const uint64_t warp = 32;

void Account::add(int more_objects, int64_t bytes)
{
	uint64_t &sum = lazy::small(static_cast<size_t>(bytes < 0 ? -bytes : bytes)) ? small : large;

	sum += static_cast<uint64_t>(bytes);
	objects += static_cast<uint64_t>(static_cast<int64_t>(more_objects));
}

// variables are counted where they are more than a little, compared with a context.
static uint64_t variables()
{
	const uint64_t bytes = variable_bytes();
	return small(bytes) ? 0 : bytes;
}

uint64_t Account::in_use() const { return large + whole_granules(small) + whole_granules(variables()); }

uint64_t Account::wanted(const Cover &c) const
{
	const uint64_t own = in_use() > c.bytes ? in_use() - c.bytes : 0;
	return own > reserved ? own : reserved;
}

uint64_t Account::missing(const Cover &c, uint64_t more) const
{
	const uint64_t used = in_use() + more, room = granted + c.bytes;
	return used > room && (c.bytes == 0 || used - room > rounding) ? used - room : 0;
}

uint64_t Account::context_missing(const Cover &c) const
{
	const uint64_t room = context.granted + c.heap, bytes = context.bytes();
	return bytes > ContextMemory().bytes() && bytes > room ? bytes - room : 0;
}

bool Account::lasts() const
{
	return reserved > 0 || context.granted > ContextMemory().bytes() || variables() > 0;
}

// Tasks are whole before any constructor runs: those of other libraries may allocate.
Task Task::tasks[max_devices];

void Task::renew_tasks()
{
	for (Task &task : tasks) {
		task.account_.making = 0; // by threads that are not here
		task.growing_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
		if (task.phase() != Phase::bound)
			task.phase_.store(task.account_.held() ? Phase::granted : Phase::unbound);
	}
}

Task &Task::here()
{
	int device = 0;

	if (mode() == Mode::pinned)
		REAL(cudaGetDevice)(&device);
	return tasks[device >= 0 && device < max_devices ? device : 0];
}

Task *Task::on(int device)
{
	return device >= 0 && device < (one_device() ? 1 : max_devices) ? &tasks[device] : nullptr;
}

Task *Task::paying_for(CUdevice device)
{
	if (mode() == Mode::passive)
		return nullptr;
	if (one_device()) // a process that is not confined sees devices that it was not granted
		return home() < 0 || device == home() ? &process() : nullptr;
	return on(device);
}

Task *Task::of_context()
{
	CUdevice here = -1;

	return driver() != nullptr && driver()->current_device(&here) == CUDA_SUCCESS ? paying_for(here) : nullptr;
}

int Task::device() const { return static_cast<int>(this - tasks); }

static uint64_t warps(uint64_t blocks, uint32_t threads_per_block)
{
	return blocks * ((threads_per_block + warp - 1) / warp);
}

uint64_t Task::in_use() const
{
	Locked locked;
	return account_.in_use();
}

uint64_t Task::charged() const
{
	Locked locked;
	return account_.in_use() + (account_.held() ? account_.context.granted : 0);
}

void Task::made(uint64_t bytes)
{
	Locked locked;
	account_.making -= std::min(account_.making, bytes);
}

uint64_t Task::making() const
{
	Locked locked;
	return account_.making;
}

uint64_t Task::granted_unused() const
{
	Locked locked;
	const uint64_t has = account_.granted + cover_of(device()).bytes;
	return has > account_.in_use() ? has - account_.in_use() : 0;
}

// A task that waits for more takes no other frame (probe/wire.h). It tells the scheduler later.
void Task::release_evicted(uint64_t bytes)
{
	Locked locked;
	const uint64_t gone = bytes < account_.granted ? bytes : account_.granted;

	if (!account_.held())
		return;
	account_.granted -= gone;
	account_.released += gone;
	if (pthread_mutex_trylock(&growing_) != 0)
		return;
	tell_released();
	pthread_mutex_unlock(&growing_);
}

uint64_t Task::release_unused()
{
	Locked locked;
	const uint64_t wanted = account_.wanted(cover_of(device()));

	if (wanted == 0 || account_.granted <= wanted)
		return 0;
	const uint64_t unused = account_.granted - wanted;
	release_evicted(unused);
	return unused;
}

void Task::tell_released()
{
	Locked locked;

	if (account_.released > 0)
		client_shrink(&account_.grant, account_.released);
	account_.released = 0;
}

bool Task::held() const
{
	Locked locked;
	return account_.held();
}

bool Task::covered(uint64_t more) const
{
	Locked locked;
	const Cover c = cover_of(device());

	return c.tasks > 0 && account_.missing(c, more) == 0;
}

// context_to_ask is the context's memory, less what explicit tasks have for the device heap.
uint64_t Task::context_to_ask() const
{
	Locked locked;
	const uint64_t bytes = account_.context.bytes(), has = cover_of(device()).heap;

	return bytes > has ? bytes - has : 0;
}

// show_use shows the scheduler what the tasks have in use, after the use has grown. A task of
// which no allocation was seen may be of a program that allocates past this library. `lock`
// is held.
void Task::show_use()
{
	const int devices = one_device() ? 1 : max_devices;
	uint64_t now = 0;

	for (int device = 0; device < devices; device++)
		if (const Account &a = tasks[device].account_; a.answered(cover_of(device)) && a.in_use() > 0)
			now += a.in_use() + (a.held() ? a.context.granted : a.context.bytes());
	activity_uses(now);
	show_holdings();
}

// The end of a wait is schedGPU's error (TPDS 2018, section 4): the program may ask again.
static cudaError_t error_of(int answer)
{
	if (answer == CASE_OK)
		return cudaSuccess;
	return answer == CASE_TIMED_OUT ? cudaErrorNotReady : cudaErrorMemoryAllocation;
}

// no_growth is what a call returns for bytes that were not granted.
static cudaError_t no_growth(cudaError_t error, const char *call, uint64_t bytes)
{
	return error == cudaErrorNotReady ? fail(error) : refused_allocation(call, bytes);
}

// to_begin_on_host is how many bytes of a request no device has room for. stay_ is how many more may begin on the host.
uint64_t Task::to_begin_on_host(const case_need &need)
{
	Locked locked;
	const uint64_t all = need.bytes + need.heap_bytes, leaves = movable() ? could_leave() : 0;
	uint64_t host = 0;

	if (room().device != 0 && movable() && all > room().device)
		host = std::min(all - room().device, leaves + need.bytes - account_.in_use());
	stay_ = begins_whole_ ? 0 : leaves - std::min(leaves, host);
	return host;
}

// await_answer asks for the task's grant.
cudaError_t Task::await_answer(case_need need)
{
	case_task granted = {};
	int answer;

	need.bytes = need.bytes > account_.reserved ? need.bytes : account_.reserved;
	need.heap_bytes = context_to_ask();
	prepare_revocation();
	const uint64_t host_bytes = to_begin_on_host(need);
	{
		Interruptible here;
		answer = client_await_part(&need, host_bytes, stay_, &granted);
	}
	if (answer != CASE_OK)
		return error_of(answer);
	Locked locked;
	account_.grant = granted;
	account_.granted = need.bytes;
	account_.context.granted = need.heap_bytes;
	announced_.store(warps(need.blocks, need.threads_per_block));
	told_.store(need.blocks_per_sm > 0);
	show_use();
	return cudaSuccess;
}

// await_answer_here asks for the grant on the task's device.
cudaError_t Task::await_answer_here(uint64_t bytes, uint32_t wait_ms)
{
	case_need need = {};

	need.bytes = bytes;
	need.wait_ms = wait_ms;
	need.flags = CASE_FLAG_DEVICE;
	need.device = one_device() ? scheduled() : device();
	return await_answer(need);
}

// await_more asks for more bytes, and adds them to *granted. Before the task is bound it holds `lock` for as long, because
// no call can go on then, unless all calls are the driver's.
// A signal handler that asks for more of the same task during the wait is refused (case.c).
cudaError_t Task::await_more(uint64_t bytes, uint64_t *granted, uint32_t wait_ms)
{
	std::optional<Locked> binding;
	cudaError_t error = cudaSuccess;
	case_task task;

	tell_released();
	{
		Locked locked;
		task = grant(); // the process may move meanwhile
		show_holdings(); // the scheduler may have to choose what of this task makes room
		if (deferring() && has_runtime())
			binding.emplace();
	}
	const Phase before = phase();
	if (binding)
		phase_.store(Phase::asking);
	{
		Interruptible here;
		error = error_of(client_await_growth(&task, bytes, wait_ms));
	}
	Locked locked;
	if (binding)
		phase_.store(before);
	if (error == cudaSuccess)
		*granted += bytes;
	return error;
}

// settled: nothing on the task's device has to be asked for; *more is how many bytes do.
bool Task::settled(uint64_t *more) const
{
	Locked locked;
	const Cover c = cover_of(device());

	*more = account_.missing(c);
	return account_.answered(c) && *more == 0 && (account_.held() || account_.context_missing(c) == 0);
}

cudaError_t Task::await_launch()
{
	uint64_t more = 0;

	if (settled(&more))
		return cudaSuccess;
	Locked one_at_a_time(growing_);
	if (settled(&more))
		return cudaSuccess;
	return held() ? await_more(more, &account_.granted) : await_answer_here(more);
}

// close gives the grant back. `lock` is held.
void Task::close()
{
	if (!account_.held())
		return;
	client_free(&account_.grant);
	forget_revocation();
	local_refusal_ = {};
	account_.granted = account_.released = 0;
	announced_.store(0);
}

void Task::move_grant(int device, const uint8_t uuid[16])
{
	account_.grant.device = device;
	std::copy_n(uuid, sizeof account_.grant.uuid, account_.grant.uuid);
}

void Task::reset()
{
	Locked locked;

	close();
	account_ = {};
	show_holdings();
	refusal_ = {};
	unused_ = false;
	ties.clear();
	if (!one_device())
		return;
	phase_.store(Phase::unbound);
}

// end_unused ends the task where nothing is left of it. `lock` is held.
void Task::end_unused()
{
	unused_ = false;
	if (account_.objects > 0)
		return;
	if (one_device())
		drop_spares();
	if (account_.held() && account_.lasts())
		return;
	if (one_device() && phase() == Phase::bound) {
		const ClosedSubmitGate closed;
		unused_ = !quiescent_.goes_on();
		if (unused_)
			return;
		phase_.store(Phase::unbound);
	}
	close();
	if (one_device()) {
		phase_.store(Phase::unbound, std::memory_order_release);
		forget_record();
	}
}

void Task::note_quiescent(const Quiescence &quiescence)
{
	Locked locked;

	if (quiescent_.before(quiescence))
		quiescent_ = quiescence;
	if (unused_)
		end_unused();
}

bool Task::would_end() const
{
	if (!unused_) // most often, without the cost of the lock
		return false;
	Locked locked;
	return unused_ && quiescent_.before(Quiescence::now());
}

void Task::count(int objects, int64_t bytes)
{
	Locked locked;

	account_.add(objects, bytes);
	if (objects < 0)
		end_unused();
	show_holdings();
}

// enter notes an object that is charged. `lock` is held.
void Task::enter(uint64_t bytes, Memory memory)
{
	account_.add(1, static_cast<int64_t>(bytes));
	if (memory == Memory::range)
		account_.making += bytes;
}

// fits adds the bytes where they are granted already. A task may cover them that another thread has asked for. Such
// a task may end before this memory is freed. So it does not serve a process that is not bound, and may go elsewhere.
bool Task::fits(uint64_t bytes, Memory memory)
{
	Locked locked;

	if (one_device() && has_runtime() && phase() == Phase::unbound)
		return false;
	enter(bytes, memory);
	if (const Cover c = cover_of(device()); account_.answered(c) && account_.missing(c) == 0) {
		show_use();
		return true;
	}
	account_.add(-1, -static_cast<int64_t>(bytes));
	if (memory == Memory::range)
		made(bytes);
	return false;
}

// await_room asks for what is missing, or for a grant on this device.
cudaError_t Task::await_room(const char *call, uint64_t bytes, Memory memory)
{
	pthread_mutex_lock(&growing_);
	cudaError_t error = cudaSuccess;
	uint64_t more = 0;
	bool open, others;
	{
		Locked locked;
		others = account_.objects > 0;
		enter(bytes, memory);
		if (deferring() && !account_.held()) // another thread has just freed the last object
			error = await_open();
		open = account_.held();
		more = account_.missing(cover_of(device()));
	}
	if (error == cudaSuccess && !open) { // the first allocation on this device, or that exceeds explicit tasks
		error = covered() ? cudaSuccess : await_answer_here(more);
	} else if (error == cudaSuccess && more > 0) {
		error = await_more(more, &account_.granted);
		if (error == cudaSuccess) {
			Locked locked;
			show_use();
		}
	}
	pthread_mutex_unlock(&growing_);
	if (error == cudaSuccess)
		return cudaSuccess;
	take_out(bytes, memory, others);
	return no_growth(error, call, bytes);
}

// take_out undoes enter for what was not granted. others: the task had other objects before the wait, and the last of
// them may have been freed.
void Task::take_out(uint64_t bytes, Memory memory, bool others)
{
	if (memory == Memory::range)
		made(bytes);
	if (others)
		count(-1, -static_cast<int64_t>(bytes));
	else
		take_back(bytes);
}

// The object stays, so the task does not end meanwhile. A small one may need a granule of the driver's.
uint64_t Task::await_lend(uint64_t bytes)
{
	Locked one_at_a_time(growing_);
	Locked locked;
	const uint64_t lent = std::min(small(bytes) ? granule : bytes, account_.granted);

	account_.add(0, -static_cast<int64_t>(bytes));
	account_.granted -= lent;
	if (lent > 0)
		client_shrink(&account_.grant, lent);
	show_holdings();
	return lent;
}

cudaError_t Task::await_lent(const char *call, uint64_t bytes, uint64_t lent, Memory memory)
{
	Locked one_at_a_time(growing_);
	cudaError_t error = cudaSuccess;
	uint64_t more = 0;
	bool others;
	{
		Locked locked;
		others = account_.objects > 1;
		account_.add(0, static_cast<int64_t>(bytes));
		if (memory == Memory::range)
			account_.making += bytes;
		if (account_.held())
			more = std::max(lent, account_.missing(cover_of(device())));
	}
	if (more > 0)
		error = await_more(more, &account_.granted);
	if (error == cudaSuccess)
		return cudaSuccess;
	if (memory != Memory::pool)
		take_out(bytes, memory, others);
	return no_growth(error, call, bytes);
}

cudaError_t Task::await_reserve(uint64_t bytes, uint32_t wait_ms)
{
	Locked one_at_a_time(growing_);
	cudaError_t error = cudaSuccess;
	uint64_t more = 0;
	bool open, others;
	{
		Locked locked;
		others = account_.objects > 0;
		account_.reserved += bytes;
		open = account_.held();
		const uint64_t wanted = account_.wanted(cover_of(device()));
		more = wanted > account_.granted ? wanted - account_.granted : 0;
		if (!open && one_device()) // here, because another thread may ask as soon as the lock is released
			error = await_reserved_grant(wait_ms);
	}
	if (!open && !one_device())
		error = await_answer_here(0, wait_ms);
	else if (open && more > 0)
		error = await_more(more, &account_.granted, wait_ms);
	if (error == cudaSuccess)
		return cudaSuccess;
	Locked locked;
	account_.reserved -= bytes;
	if (others)
		end_unused(); // the last of them may have been freed
	return error;
}

// A task that waits for more takes no other frame (probe/wire.h). What is given back then stays
// granted, for the task's next allocations.
bool Task::unreserve(uint64_t bytes)
{
	const bool alone = pthread_mutex_trylock(&growing_) == 0;
	bool there;
	{
		Locked locked;
		Account &a = account_;
		there = bytes <= a.reserved;
		a.reserved -= there ? bytes : 0;
		if (there && a.held())
			end_unused();
		const uint64_t wanted = a.wanted(cover_of(device()));
		if (there && a.held() && alone && a.granted > wanted) {
			client_shrink(&a.grant, a.granted - wanted);
			a.granted = wanted;
		}
	}
	if (alone)
		pthread_mutex_unlock(&growing_);
	return there;
}

cudaError_t Task::await_charge(const char *call, uint64_t bytes, bool managed)
{
	return await_charged(call, bytes, managed, Memory::made);
}

cudaError_t Task::await_range(const char *call, uint64_t bytes)
{
	return await_charged(call, bytes, false, Memory::range);
}

cudaError_t Task::await_charged(const char *call, uint64_t bytes, bool managed, Memory memory)
{
	if (mode() == Mode::passive)
		return cudaSuccess;
	if (bytes > CASE_WIRE_MAX_BYTES) // counts are signed
		return failed_allocation(call, bytes);
	if (fits(bytes, memory))
		return cudaSuccess;
	settle_pools();
	if (fits(bytes, memory) || await_freed([=] { return fits(bytes, memory); }))
		return cudaSuccess;
	while (!fits(bytes, memory)) {
		if (!deferring() || held())
			return await_room(call, bytes, memory);
		// Another thread freed the last object since this call entered.
		Locked locked;
		if (cudaError_t error = await_open(bytes, managed); error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

cudaError_t Task::await_open(uint64_t more, bool managed)
{
	return has_runtime() ? await_bound({}, more, managed) : await_grant({}, more, managed);
}

void Task::uncharge(uint64_t bytes)
{
	if (mode() != Mode::passive)
		count(-1, -static_cast<int64_t>(bytes));
}

void Task::take_back(uint64_t bytes)
{
	Locked locked;
	if (mode() == Mode::passive)
		return;
	account_.add(-1, -static_cast<int64_t>(bytes));
	show_holdings();
}

cudaError_t Task::await_context_memory(const char *call, uint64_t ContextMemory::*part, uint64_t bytes, ContextMemory *was)
{
	Account &a = account_;
	uint64_t more = 0;
	bool others = false;
	Locked one_at_a_time(growing_);
	{
		Locked locked;
		*was = a.context;
		ContextMemory wanted = a.context;
		wanted.*part = bytes;
		const uint64_t has = a.context.granted + cover_of(device()).heap;
		more = a.held() && wanted.bytes() > has ? wanted.bytes() - has : 0;
		if (more == 0) {
			a.context.*part = bytes;
			return cudaSuccess;
		}
		others = a.objects > 0;
		a.objects++; // the task must not end during the wait
	}
	const cudaError_t error = await_more(more, &a.context.granted);
	if (error == cudaSuccess) {
		Locked locked;
		a.context.*part = bytes;
		show_use();
	}
	if (others)
		count(-1, 0); // the last of them may have been freed
	else
		take_back(0);
	return error == cudaSuccess ? cudaSuccess : no_growth(error, call, more);
}

void Task::restore_context_memory(uint64_t ContextMemory::*part, const ContextMemory &was)
{
	Locked locked;
	Account &a = account_;

	a.context.*part = was.*part;
	const uint64_t needed = std::max(was.granted, context_to_ask());
	if (!a.held() || a.context.granted <= needed)
		return;
	a.granted += a.context.granted - needed;
	a.context.granted = needed;
}

bool Task::has_local(uint64_t bytes, ContextMemory *now) const
{
	Locked locked;
	*now = account_.context;
	return bytes <= now->local;
}

cudaError_t Task::refused_local(uint64_t bytes) const
{
	Locked locked;
	return local_refusal_.stands_for(bytes) ? local_refusal_.error : cudaSuccess;
}

cudaError_t Task::await_local_memory(const char *call, uint64_t bytes, ContextMemory *was)
{
	if (has_local(bytes, was))
		return cudaSuccess;
	Locked one_at_a_time(growing_);
	if (has_local(bytes, was))
		return cudaSuccess;
	cudaError_t error = refused_local(bytes);
	if (error != cudaSuccess)
		return no_growth(error, call, bytes);
	error = await_context_memory(call, &ContextMemory::local, bytes, was);
	if (error != cudaSuccess) {
		Locked locked;
		local_refusal_.note(bytes, error);
	}
	return error;
}

bool Task::last_object() const { return has_only(1); }

bool Task::has_only(uint64_t objects) const
{
	Locked locked;
	return account_.objects == objects;
}

// await_cover grows a grant to what is in use and `more`. `lock` is held.
cudaError_t Task::await_cover(uint64_t more)
{
	const uint64_t missing = account_.missing(cover_of(device()), more);

	if (missing > 0) {
		const cudaError_t error = await_more(missing, &account_.granted);
		if (error != cudaSuccess)
			return no_growth(error, "cudaMalloc", missing);
	}
	show_use();
	return cudaSuccess;
}

bool Task::shape_is_new(uint64_t blocks, uint32_t threads_per_block) const
{
	return !told_.load(std::memory_order_relaxed) ||
	       warps(blocks, threads_per_block) > 2 * announced_.load(std::memory_order_relaxed);
}

// A task that waits for memory takes no shape (probe/wire.h); a later launch tells it.
void Task::reshape(const Shape &shape)
{
	if (pthread_mutex_trylock(&growing_) != 0)
		return;
	{
		Locked locked;
		const uint64_t now = warps(shape.blocks, shape.threads_per_block);
		if (now > announced_.load())
			announced_.store(now);
		told_.store(true);
		if (account_.held())
			client_shape(&account_.grant, shape.blocks, shape.threads_per_block, shape.blocks_per_sm);
	}
	pthread_mutex_unlock(&growing_);
}

void account::count(int objects, int64_t bytes) { Task::process().count(objects, bytes); }
void account::release_evicted(uint64_t bytes) { Task::process().release_evicted(bytes); }
void account::made(uint64_t bytes) { Task::process().made(bytes); }
uint64_t account::in_use() { return Task::process().in_use(); }
uint64_t account::charged() { return Task::process().charged(); }
void account::moved() { show_holdings(); }

} // namespace lazy
