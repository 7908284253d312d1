// account.cc: what the scheduler granted and what of it is in use.
//
// Under task binding the process has one task at a time, in slot 0. A pinned
// process has one for each device that it uses, in that device's slot.
//
// Tasks that the program asks for itself cover what is allocated on their device: of that
// the scheduler is asked only for what exceeds them.
#include <inttypes.h>
#include <string.h>

#include <set>

#include "../activity.h"
#include "../client.h"
#include "runtime.h"

extern "C" cudaError_t cudaGetDevice(int *device);

namespace lazy {

static const uint64_t granule = 2 << 20; // bytes; small allocations share it, as in cudaMalloc
static const uint64_t warp = 32;

static uint64_t whole_granules(uint64_t bytes) { return (bytes + granule - 1) / granule * granule; }

// The pools that keep what is freed. Of a pinned process, whose devices they are on is not
// known, so that they count for each.
static std::set<cudaMemPool_t> &keeping()
{
	static auto *const all = new std::set<cudaMemPool_t>;
	return *all;
}

// An account is whole before any constructor runs: those of other libraries may allocate.
struct Account {
	case_task task = {};
	bool held = false;
	uint64_t granted = 0;          // bytes
	uint64_t large = 0, small = 0; // bytes in use, by the size of their allocation
	uint64_t objects = 0;
	uint64_t reserved = 0; // bytes that the program itself keeps for what it is to allocate
	Heap heap;
	uint64_t in_use() const { return large + whole_granules(small) + whole_granules(variable_bytes()); }
	uint64_t wanted(const Cover &c) const
	{
		const uint64_t own = in_use() > c.bytes ? in_use() - c.bytes : 0;
		return own > reserved ? own : reserved;
	}
	// missing is how much of what is in use nobody has granted. What a program asks for is a
	// sum of sizes, so rounding does not count.
	uint64_t missing(const Cover &c, uint64_t more = 0) const
	{
		const uint64_t used = in_use() + more, room = granted + c.bytes;
		return used > room && (c.bytes == 0 || used - room > rounding) ? used - room : 0;
	}
	// heap_missing is the same for the device heap, where it is not the one that all have.
	uint64_t heap_missing(const Cover &c) const
	{
		const uint64_t room = heap.granted + c.heap;
		return heap.limit > Heap().limit && heap.limit > room ? heap.limit - room : 0;
	}
	bool answered(const Cover &c) const { return held || c.tasks > 0; }
	// What is reserved, and what its context has beside objects, stays when the last of these
	// is freed.
	bool lasts() const
	{
		return reserved > 0 || !keeping().empty() || heap.granted > Heap().limit || variable_bytes() > 0;
	}
};

static Account accounts[max_devices];
static std::atomic<uint64_t> announced[max_devices]; // warps of the largest kernel so far
static std::atomic<bool> told[max_devices];          // and a real kernel's occupancy

// One thread at a time asks for a slot's task, or for more in it: growing[slot].lock is
// taken before `lock`, and held while it waits.
struct Growth {
	pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
};
static Growth growing[max_devices];

void renew_growing()
{
	for (Growth &g : growing)
		g = Growth();
}

bool small(size_t bytes) { return bytes < granule / 2; }

int account_device()
{
	int device = 0;

	if (mode() == Mode::pinned)
		REAL(cudaGetDevice)(&device);
	return device >= 0 && device < max_devices ? device : 0;
}

static uint64_t warps(uint64_t blocks, uint32_t threads_per_block)
{
	return blocks * ((threads_per_block + warp - 1) / warp);
}

static uint64_t in_use(int slot)
{
	Locked locked;
	return accounts[slot].in_use();
}

uint64_t charged() { return in_use(0); }

static bool is_open(int slot)
{
	Locked locked;
	return accounts[slot].held;
}

bool task_is_open() { return is_open(0); }

bool covered(int slot, uint64_t more)
{
	Locked locked;
	const Cover c = cover_of(slot);

	return c.tasks > 0 && accounts[slot].missing(c, more) == 0;
}

// heap_to_ask is the limit of the device heap, less what explicit tasks have for it.
static uint64_t heap_to_ask(int slot)
{
	Locked locked;
	const uint64_t limit = accounts[slot].heap.limit, has = cover_of(slot).heap;

	return limit > has ? limit - has : 0;
}

// show_use tells what the tasks have in use, after that has become more. A task of which no
// allocation was seen may be of a program that allocates past this library. The lock is held.
static void show_use()
{
	const int slots = one_device() ? 1 : max_devices;
	uint64_t now = 0;

	for (int slot = 0; slot < slots; slot++)
		if (const Account &a = accounts[slot]; a.answered(cover_of(slot)) && a.in_use() > 0)
			now += a.in_use() + (a.held ? a.heap.granted : a.heap.limit);
	activity_uses(now);
}

static int wait_for_task(const case_need &need, case_task *granted)
{
	Interruptible here;
	return client_ask(&need, granted);
}

// A handler that asks for more of the same task meanwhile is refused (case.c).
static int wait_for_more(Account &a, uint64_t bytes, uint32_t wait_ms = CASE_WAIT_DEFAULT)
{
	Interruptible here;
	return client_grow(&a.task, bytes, wait_ms);
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
	return error == cudaErrorNotReady ? fail(error) : failed_allocation(call, bytes);
}

static cudaError_t open_in(int slot, const Need &need)
{
	Account &a = accounts[slot];
	case_need ask = {};

	ask.bytes = need.bytes > a.reserved ? need.bytes : a.reserved;
	ask.wait_ms = need.wait_ms;
	ask.blocks = need.shape.blocks;
	ask.threads_per_block = need.shape.threads_per_block;
	ask.blocks_per_sm = need.shape.blocks_per_sm;
	ask.heap_bytes = heap_to_ask(slot);
	ask.flags = (need.managed ? CASE_FLAG_MANAGED : 0u) | (need.same_device ? CASE_FLAG_DEVICE : 0u);
	ask.device = need.same_device ? need.device : 0;
	case_task granted = {};
	if (cudaError_t error = error_of(wait_for_task(ask, &granted)); error != cudaSuccess)
		return error;
	Locked locked;
	a.task = granted;
	a.held = true;
	a.granted = ask.bytes;
	a.heap.granted = ask.heap_bytes;
	announced[slot].store(warps(need.shape.blocks, need.shape.threads_per_block));
	told[slot].store(need.shape.blocks_per_sm > 0);
	show_use();
	return cudaSuccess;
}

cudaError_t open_task(const Need &need, case_task *granted)
{
	Locked locked;
	cudaError_t error = open_in(0, need);

	if (error == cudaSuccess)
		*granted = accounts[0].task;
	return error;
}

// open_there asks for the slot's task on the slot's device.
static cudaError_t open_there(int slot, uint64_t bytes, uint32_t wait_ms = CASE_WAIT_DEFAULT)
{
	Need need = {};

	need.bytes = bytes;
	need.wait_ms = wait_ms;
	need.same_device = true;
	need.device = one_device() ? scheduled() : slot;
	return open_in(slot, need);
}

// settled: nothing on the slot's device has to be asked for; *more is how many bytes do.
static bool settled(int slot, uint64_t *more)
{
	Locked locked;
	const Account &a = accounts[slot];
	const Cover c = cover_of(slot);

	*more = a.missing(c);
	return a.answered(c) && *more == 0 && (a.held || a.heap_missing(c) == 0);
}

cudaError_t open_for_launch()
{
	const int slot = account_device();
	Account &a = accounts[slot];
	uint64_t more = 0;

	if (settled(slot, &more))
		return cudaSuccess;
	Locked one_at_a_time(growing[slot].lock);
	if (settled(slot, &more))
		return cudaSuccess;
	if (!is_open(slot))
		return open_there(slot, more);
	cudaError_t error = error_of(wait_for_more(a, more));
	Locked locked;
	if (error == cudaSuccess)
		a.granted += more;
	return error;
}

static void close_in(int slot)
{
	Account &a = accounts[slot];

	if (!a.held)
		return;
	client_free(&a.task);
	a.held = false;
	a.granted = 0;
	announced[slot].store(0);
}

void abandon_task()
{
	Locked locked;
	close_in(0);
}

void reset_account()
{
	Locked locked;
	int slot = account_device();

	close_in(slot);
	accounts[slot] = {};
	if (!one_device())
		return;
	keeping().clear();
	bound.store(false);
}

static void add(Account &a, int objects, int64_t bytes)
{
	uint64_t &sum = small(static_cast<size_t>(bytes < 0 ? -bytes : bytes)) ? a.small : a.large;

	sum += static_cast<uint64_t>(bytes);
	a.objects += static_cast<uint64_t>(static_cast<int64_t>(objects));
}

// end_unused ends the slot's task where nothing is left of it.
static void end_unused(int slot)
{
	const Account &a = accounts[slot];

	if (a.objects > 0 || (a.held && a.lasts()))
		return;
	close_in(slot);
	if (one_device()) {
		bound.store(false, std::memory_order_release);
		forget_record();
	}
}

void count(int slot, int objects, int64_t bytes)
{
	Locked locked;

	add(accounts[slot], objects, bytes);
	if (objects < 0)
		end_unused(slot);
}

// fits adds the bytes where they are granted already.
static bool fits(int slot, uint64_t bytes)
{
	Locked locked;
	Account &a = accounts[slot];

	add(a, 1, static_cast<int64_t>(bytes));
	if (const Cover c = cover_of(slot); a.answered(c) && a.missing(c) == 0) {
		show_use();
		return true;
	}
	add(a, -1, -static_cast<int64_t>(bytes));
	return false;
}

// grow asks for what is missing, or for a task on this device.
static cudaError_t grow(const char *call, int slot, uint64_t bytes)
{
	Account &a = accounts[slot];
	pthread_mutex_lock(&growing[slot].lock);
	cudaError_t error = cudaSuccess;
	uint64_t more = 0;
	bool open, others;
	{
		Locked locked;
		others = a.objects > 0;
		(small(bytes) ? a.small : a.large) += bytes;
		a.objects++;
		open = a.held;
		more = a.missing(cover_of(slot));
	}
	if (!open && one_device() && !bound) { // another thread has just freed the last object
		Locked locked;
		error = bind();
	} else if (!open) { // the first allocation on this device, or that exceeds explicit tasks
		error = covered(slot) ? cudaSuccess : open_there(slot, more);
	} else if (more > 0) {
		error = error_of(wait_for_more(a, more));
		if (error == cudaSuccess) {
			Locked locked;
			a.granted += more;
			show_use();
		}
	}
	pthread_mutex_unlock(&growing[slot].lock);
	if (error == cudaSuccess)
		return cudaSuccess;
	if (others)
		count(slot, -1, -static_cast<int64_t>(bytes)); // the last of them may have been freed
	else
		take_back(slot, bytes);
	return no_growth(error, call, bytes);
}

bool has_slot(int device) { return device >= 0 && device < (one_device() ? 1 : max_devices); }

cudaError_t reserve_ahead(int slot, uint64_t bytes, uint32_t wait_ms)
{
	Account &a = accounts[slot];
	Locked one_at_a_time(growing[slot].lock);
	cudaError_t error = cudaSuccess;
	uint64_t more = 0;
	bool open;
	{
		Locked locked;
		a.reserved += bytes;
		open = a.held;
		const uint64_t wanted = a.wanted(cover_of(slot));
		more = wanted > a.granted ? wanted - a.granted : 0;
	}
	if (!open && one_device()) {
		Locked locked;
		error = ask_ahead(wait_ms);
	} else if (!open) {
		error = open_there(slot, 0, wait_ms);
	} else if (more > 0) {
		error = error_of(wait_for_more(a, more, wait_ms));
	}
	Locked locked;
	if (error != cudaSuccess)
		a.reserved -= bytes;
	else if (open)
		a.granted += more;
	return error;
}

// A task that waits for more takes no other word (wire.h): what is given back then is there
// for what it allocates next.
bool give_ahead(int slot, uint64_t bytes)
{
	const bool alone = pthread_mutex_trylock(&growing[slot].lock) == 0;
	bool there;
	{
		Locked locked;
		Account &a = accounts[slot];
		there = bytes <= a.reserved;
		a.reserved -= there ? bytes : 0;
		if (there && a.held)
			end_unused(slot);
		const uint64_t wanted = a.wanted(cover_of(slot));
		if (there && a.held && alone && a.granted > wanted) {
			client_shrink(&a.task, a.granted - wanted);
			a.granted = wanted;
		}
	}
	if (alone)
		pthread_mutex_unlock(&growing[slot].lock);
	return there;
}

cudaError_t charge(const char *call, uint64_t bytes)
{
	if (mode() == Mode::passive)
		return cudaSuccess;
	const int slot = account_device();
	while (!fits(slot, bytes)) {
		if (!one_device() || task_is_open() || bound)
			return grow(call, slot, bytes);
		// Another thread freed the last object since this call entered.
		Locked locked;
		if (cudaError_t error = bind({}, bytes); error != cudaSuccess)
			return error;
	}
	return cudaSuccess;
}

void uncharge(int slot, uint64_t bytes)
{
	if (mode() != Mode::passive)
		count(slot, -1, -static_cast<int64_t>(bytes));
}

void take_back(int slot, uint64_t bytes)
{
	Locked locked;
	if (mode() != Mode::passive)
		add(accounts[slot], -1, -static_cast<int64_t>(bytes));
}

cudaError_t keep_heap(const char *call, uint64_t bytes, Heap *was)
{
	const int slot = account_device();
	Account &a = accounts[slot];
	uint64_t more = 0;
	bool others = false;
	Locked one_at_a_time(growing[slot].lock);
	{
		Locked locked;
		*was = a.heap;
		const uint64_t has = a.heap.granted + cover_of(slot).heap;
		more = a.held && bytes > has ? bytes - has : 0;
		if (more == 0) {
			a.heap.limit = bytes;
			return cudaSuccess;
		}
		others = a.objects > 0;
		a.objects++; // the task must not end meanwhile
	}
	const cudaError_t error = error_of(wait_for_more(a, more));
	if (others)
		count(slot, -1, 0); // the last of them may have been freed
	else
		take_back(slot, 0);
	if (error != cudaSuccess)
		return no_growth(error, call, more);
	Locked locked;
	a.heap = {bytes, a.heap.granted + more};
	show_use();
	return cudaSuccess;
}

void restore_heap(const Heap &was)
{
	Locked locked;
	Account &a = accounts[account_device()];

	a.heap.limit = was.limit;
	if (!a.held || a.heap.granted <= was.granted)
		return;
	a.granted += a.heap.granted - was.granted;
	a.heap.granted = was.granted;
}

void pool_keeps(cudaMemPool_t pool, bool keeps)
{
	Locked locked;

	if (keeps)
		keeping().insert(pool);
	else
		keeping().erase(pool);
}

bool last_object(int slot)
{
	Locked locked;
	return accounts[slot].objects == 1;
}

cudaError_t cover(uint64_t more)
{
	Locked locked;
	Account &a = accounts[0];
	const uint64_t missing = a.missing(cover_of(0), more);

	if (missing > 0) {
		if (cudaError_t error = error_of(wait_for_more(a, missing)); error != cudaSuccess)
			return no_growth(error, "cudaMalloc", missing);
		a.granted += missing;
	}
	show_use();
	return cudaSuccess;
}

bool is_news(uint64_t blocks, uint32_t threads_per_block)
{
	const int slot = mode() == Mode::pinned ? account_device() : 0;

	return !told[slot].load(std::memory_order_relaxed) ||
	       warps(blocks, threads_per_block) > 2 * announced[slot].load(std::memory_order_relaxed);
}

// A task that waits for memory takes no shape (wire.h); a later launch tells it.
void reshape(const Shape &shape)
{
	const int slot = account_device();
	if (pthread_mutex_trylock(&growing[slot].lock) != 0)
		return;
	{
		Locked locked;
		Account &a = accounts[slot];
		const uint64_t now = warps(shape.blocks, shape.threads_per_block);
		if (now > announced[slot].load())
			announced[slot].store(now);
		told[slot].store(true);
		if (a.held)
			client_shape(&a.task, shape.blocks, shape.threads_per_block, shape.blocks_per_sm);
	}
	pthread_mutex_unlock(&growing[slot].lock);
}

} // namespace lazy
