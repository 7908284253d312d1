// memory.cc: device memory as addresses first, memory later.
//
// cuMemAddressReserve needs no context. So the program gets the addresses that it will keep,
// whatever device they lead to, and nested and interior pointers need no rewriting. A large
// allocation has a range of its own; small allocations share ranges of one granule. Each range has
// a margin on both sides. It serves programs that read or write just outside an allocation, where
// under cudaMalloc other memory lies.
//
// Where the scheduler can take memory back (movable), the memory behind a range comes in chunks,
// each with a handle of its own, because a handle is the unit that can be mapped elsewhere.
#include <limits.h>
#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "clock.h"
#include "lock.h"
#include "memory.h"
#include "mode.h"
#include "real.h"
#include "record.h"
#include "report.h"
#include "revoke.h"
#include "swap.h"
#include "task.h"
#include "uses.h"

extern "C" CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);

namespace lazy {

// Chunk is the memory behind some addresses: the device's or, where it has moved, the host's.
struct Chunk {
	CUmemGenericAllocationHandle memory; // of the device
	HostChunk *host;                     // nullptr: it is on the device
};

struct Range {
	uintptr_t base;
	size_t size;
	size_t unit; // of its chunks; the last may be smaller
	std::vector<Chunk> chunks; // in the order of addresses
	bool mapped, shared;
	bool below, above;       // the margins that have memory
	std::vector<bool> taken; // by 512 bytes: where the allocations of a shared range lie
	size_t live;             // allocations in it
	Use *use;                // nullptr: nothing moves
	size_t on_host;          // chunks
	bool wanted;             // by a launch that waits for it
};

// std::map for its order: find looks for the allocation before an address.
static std::map<uintptr_t, Allocation> &allocations()
{
	static auto *const all = new std::map<uintptr_t, Allocation>; // outlives static destructors
	return *all;
}

static std::map<uintptr_t, std::unique_ptr<Range>> &ranges()
{
	static auto *const all = new std::map<uintptr_t, std::unique_ptr<Range>>;
	return *all;
}

// Sums over all ranges, in bytes. A revocation that has to end at once reads them without `lock`.
static struct {
	std::atomic<uint64_t> reserved, resident, movable, away;
} sums;

// moves: chunks of the range can move.
static bool moves(const Range &r) { return !r.shared && r.unit == movable_chunk; }

// on_device notes that the device has so many more bytes of the range's memory.
static void on_device(const Range &r, int64_t bytes)
{
	sums.resident += static_cast<uint64_t>(bytes);
	sums.movable += moves(r) ? static_cast<uint64_t>(bytes) : 0;
	show_holdings();
}
static const size_t alignment = 512; // bytes, as cudaMalloc's addresses have

static CUmemAllocationProp on(int device)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
	return prop;
}

static size_t granularity(const Driver *d)
{
	static const size_t found = [d] {
		const CUmemAllocationProp prop = on(0);
		size_t bytes = 0;
		return d->granularity(&bytes, &prop, 0) == CUDA_SUCCESS ? bytes : 0;
	}();
	return found;
}

// margin is how many addresses, in bytes, are reserved on either side of a range.
static size_t margin(const Driver *d) { return guarded() ? 0 : granularity(d); }

static size_t largest_device(const Driver *d)
{
	static const size_t found = [d] {
		int count = 0;
		size_t most = 0, bytes = 0;
		d->device_count(&count);
		for (int i = 0; i < count; i++)
			if (d->device_total_memory(&bytes, i) == CUDA_SUCCESS && bytes > most)
				most = bytes;
		return most;
	}();
	return found;
}

static Range *new_range(const Driver *d, size_t size, bool shared)
{
	CUdeviceptr start = 0;

	if (d->reserve(&start, size + 2 * margin(d), granularity(d), 0, 0) != CUDA_SUCCESS)
		return nullptr;
	auto range = std::make_unique<Range>();
	Range *made = range.get();
	made->base = static_cast<uintptr_t>(start) + margin(d);
	made->size = size;
	made->unit = movable() ? movable_chunk : size;
	made->shared = shared;
	made->taken.resize(shared ? size / alignment : 0);
	made->use = movable() ? watch(made->base, size) : nullptr;
	ranges()[made->base] = std::move(range);
	sums.reserved += size;
	return made;
}

static size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// room_in finds free bytes in a shared range, and returns their offset. The range's size: there are none.
static size_t room_in(const Range &r, size_t bytes)
{
	const size_t slots = whole(bytes, alignment) / alignment;
	size_t free = 0;

	for (size_t i = 0; i < r.taken.size(); i++) {
		free = r.taken[i] ? 0 : free + 1;
		if (free == slots)
			return (i + 1 - slots) * alignment;
	}
	return r.size;
}

static Range *shared_range(size_t bytes, bool mapped)
{
	for (auto &entry : ranges()) {
		Range &r = *entry.second;
		if (r.shared && r.mapped == mapped && room_in(r, bytes) < r.size)
			return &r;
	}
	return nullptr;
}

static void mark(Range &r, uintptr_t base, size_t bytes, bool taken)
{
	const auto first = r.taken.begin() + static_cast<ptrdiff_t>((base - r.base) / alignment);
	std::fill(first, first + static_cast<ptrdiff_t>(whole(bytes, alignment) / alignment), taken);
}

// place makes an allocation in a range that has room for it.
static void *place(Range &r, size_t bytes)
{
	const uintptr_t base = r.base + (r.shared ? room_in(r, bytes) : 0);

	if (r.shared)
		mark(r, base, bytes, true);
	r.live++;
	allocations()[base] = Allocation{base, bytes, &r, nullptr, 0, false};
	return reinterpret_cast<void *>(base);
}

size_t backing_of(size_t bytes) { return small(bytes) ? granularity(driver()) : whole(bytes, granularity(driver())); }

// cudaMallocPitch rounds rows to 512 bytes on every device since 2010.
size_t row_of(size_t width) { return whole(width, 512); }

bool reserve(size_t bytes, void **address)
{
	Locked locked;
	const Driver *d = driver();

	if (d == nullptr || granularity(d) == 0)
		return false;
	const uint64_t most = largest_device(d), held = Task::process().in_use();
	if (bytes > most || held > most - bytes)
		return false;
	Range *r = small(bytes) ? shared_range(bytes, false) : nullptr;
	if (r == nullptr) {
		r = new_range(d, backing_of(bytes), small(bytes));
		if (r == nullptr)
			return false;
		Task::process().count(0, static_cast<int64_t>(r->size));
	}
	*address = place(*r, bytes);
	Task::process().count(1, 0);
	return true;
}

static uintptr_t address_of(const Range &r, size_t chunk) { return r.base + chunk * r.unit; }
static size_t bytes_of(const Range &r, size_t chunk) { return std::min(r.unit, r.size - chunk * r.unit); }

// on_host notes that so many more chunks and bytes of a range are on the host.
static void on_host(Range &r, int64_t chunks, int64_t bytes)
{
	r.on_host += static_cast<size_t>(chunks);
	sums.away += static_cast<uint64_t>(bytes);
	if (r.use != nullptr)
		r.use->on_host = r.on_host > 0;
}

// strip takes the memory behind a range away.
static void strip(Range &r)
{
	const Driver *d = driver();
	uint64_t back = 0;

	for (size_t i = 0; i < r.chunks.size(); i++) {
		const Chunk &c = r.chunks[i];
		d->unmap(address_of(r, i), bytes_of(r, i));
		if (c.host != nullptr) {
			give_host_chunk(c.host);
			back += bytes_of(r, i);
			continue;
		}
		d->release(c.memory);
		on_device(r, -static_cast<int64_t>(bytes_of(r, i)));
	}
	r.chunks.clear();
	r.mapped = false;
	on_host(r, -static_cast<int64_t>(r.on_host), -static_cast<int64_t>(back));
}

// back puts memory of the device behind a range.
static CUresult back(Range &r, int device)
{
	const Driver *d = driver();
	const CUmemAllocationProp prop = on(device);
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result = CUDA_SUCCESS;

	for (size_t at = 0; at < r.size && result == CUDA_SUCCESS; at += r.unit) {
		const size_t bytes = std::min(r.unit, r.size - at);
		CUmemGenericAllocationHandle memory = 0;
		result = d->create(&memory, bytes, &prop, 0);
		if (result != CUDA_SUCCESS)
			break;
		result = d->map(r.base + at, bytes, 0, memory, 0);
		if (result != CUDA_SUCCESS) {
			d->release(memory);
			break;
		}
		r.chunks.push_back({memory, nullptr});
		on_device(r, static_cast<int64_t>(bytes));
	}
	if (result == CUDA_SUCCESS)
		result = d->set_access(r.base, r.size, &access, 1);
	r.mapped = result == CUDA_SUCCESS;
	if (!r.mapped)
		strip(r);
	return result;
}

static void strip_margins(Range &r)
{
	const Driver *d = driver();

	if (r.below)
		d->unmap(r.base - margin(d), margin(d));
	if (r.above)
		d->unmap(r.base + r.size, margin(d));
	r.below = r.above = false;
}

static void unreserve(Range &r)
{
	const Driver *d = driver();

	if (r.use != nullptr)
		unwatch(r.base);
	r.use = nullptr;
	d->unreserve(r.base - margin(d), r.size + 2 * margin(d));
	sums.reserved -= r.size;
}

// The granule behind all margins.
static struct {
	bool made;
	CUmemGenericAllocationHandle memory;
} margins;

static void drop_margins()
{
	if (margins.made)
		driver()->release(margins.memory);
	margins.made = false;
}

// give_back ends a range without allocations.
static void give_back(const Range *r)
{
	Range &gone = *ranges().at(r->base);

	const uint64_t before = sums.away;
	strip_margins(gone);
	strip(gone);
	const uint64_t away = before - sums.away;
	unreserve(gone);
	Task::process().count(0, -static_cast<int64_t>(gone.size));
	if (away > 0)
		Task::process().forgo(away);
	ranges().erase(gone.base);
	if (std::none_of(ranges().begin(), ranges().end(), [](const auto &entry) { return entry.second->mapped; }))
		drop_margins();
}

// spares are shared ranges with memory and without allocations. One stays, because the next small
// allocation would make it anew.
static void drop_spares(const Range *but)
{
	std::vector<const Range *> gone;

	for (auto &entry : ranges())
		if (const Range *r = entry.second.get(); r->shared && r->mapped && r->live == 0 && r != but)
			gone.push_back(r);
	for (const Range *r : gone)
		give_back(r);
}

void drop_spares() { drop_spares(nullptr); }

static void leave(Range *r)
{
	if (--r->live > 0)
		return;
	if (r->shared && r->mapped && movable())
		drop_spares(r);
	else
		give_back(r);
}

static void erase(Allocation *a)
{
	Range *r = a->range;

	if (r != nullptr && r->shared)
		mark(*r, a->base, a->bytes, false);
	allocations().erase(a->base);
	if (r != nullptr)
		leave(r);
}

Allocation *find(const void *address)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(address);
	auto after = allocations().upper_bound(at);

	if (after == allocations().begin())
		return nullptr;
	Allocation &a = std::prev(after)->second;
	return !a.freed && at - a.base < (a.bytes > 0 ? a.bytes : 1) ? &a : nullptr;
}

Allocation *pending(const void *address, size_t bytes)
{
	Allocation *a = find(address);

	if (a == nullptr || a->range == nullptr || a->range->mapped)
		return nullptr;
	return bytes <= a->bytes - (reinterpret_cast<uintptr_t>(address) - a->base) ? a : nullptr;
}

// The range whose addresses these are, with those of its margins.
static const Range *range_at(uintptr_t at)
{
	const uintptr_t around = ranges().empty() ? 0 : margin(driver());
	auto after = ranges().upper_bound(at + around);

	if (after == ranges().begin())
		return nullptr;
	const Range *r = std::prev(after)->second.get();
	return at - (r->base - around) < r->size + 2 * around ? r : nullptr;
}

bool strays(const void *address, size_t bytes)
{
	if (mode() != Mode::task || bytes == 0)
		return false;
	Locked locked;
	const uintptr_t at = reinterpret_cast<uintptr_t>(address);
	if (range_at(at) == nullptr)
		return false;
	const Allocation *a = find(address);
	return a == nullptr || bytes > a->bytes - (at - a->base);
}

bool strays(const cudaPitchedPtr &memory, const cudaPos &at, const cudaExtent &box)
{
	const size_t slice = memory.pitch * memory.ysize;

	if (box.width == 0 || box.height == 0 || box.depth == 0 || (memory.pitch < box.width && box.height > 1))
		return false;
	return strays(static_cast<char *>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x,
	              (box.depth - 1) * slice + (box.height - 1) * memory.pitch + box.width);
}

void adopt(void *address, size_t bytes, Task *task)
{
	if (mode() == Mode::passive)
		return;
	Locked locked;
	const uintptr_t base = reinterpret_cast<uintptr_t>(address);
	allocations()[base] = Allocation{base, bytes, nullptr, task, 0, false};
}

static Allocation *at_base(const void *address)
{
	auto at = allocations().find(reinterpret_cast<uintptr_t>(address));
	return at == allocations().end() || at->second.freed ? nullptr : &at->second;
}

Holder holder_of(const void *address)
{
	Locked locked;
	const Allocation *a = at_base(address);

	if (a == nullptr)
		return Holder::unknown;
	if (a->range == nullptr)
		return Holder::runtime;
	return a->range->mapped ? Holder::mapped : Holder::reserved;
}

bool allocation_at(const void *address, uintptr_t *base, size_t *bytes)
{
	Locked locked;
	const Allocation *a = find(address);

	if (a == nullptr || a->range == nullptr || !a->range->mapped)
		return false;
	*base = a->base;
	*bytes = a->bytes;
	return true;
}

bool withdraw(const void *address, Allocation *was)
{
	Locked locked;
	Allocation *a = at_base(address);

	if (a == nullptr || a->range != nullptr)
		return false;
	*was = *a;
	erase(a);
	return true;
}

void drop(const void *address)
{
	Locked locked;
	Allocation *a = at_base(address);

	if (a == nullptr)
		return;
	const bool shared = a->range != nullptr && a->range->shared;
	a->freed = a->recorded > 0; // its memory is still written, and perhaps read, in the replay
	if (!a->freed)
		erase(a);
	else if (!shared)
		forget_unread(*a);
	Task::process().count(-1, 0);
}

Allocation *recorded_at(uintptr_t base)
{
	auto at = allocations().find(base);
	return at == allocations().end() ? nullptr : &at->second;
}

void release_recorded(Allocation *a)
{
	if (--a->recorded == 0 && a->freed)
		erase(a);
}

static bool map_margin(uintptr_t base, CUmemGenericAllocationHandle memory, const CUmemAccessDesc &access)
{
	const Driver *d = driver();

	if (d->map(base, margin(d), 0, memory, 0) != CUDA_SUCCESS)
		return false;
	if (d->set_access(base, margin(d), &access, 1) == CUDA_SUCCESS)
		return true;
	d->unmap(base, margin(d));
	return false;
}

// back_margins puts one granule behind the margins that have no memory. Programs that stay inside
// their allocations need none, so what the driver refuses is left out. The granule is made for the
// first margin, and goes with the last range that has memory.
static void back_margins(int device)
{
	const Driver *d = driver();
	const CUmemAllocationProp prop = on(device);
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	if (ranges().empty() || margin(d) == 0)
		return;
	if (!margins.made && d->create(&margins.memory, margin(d), &prop, 0) != CUDA_SUCCESS)
		return;
	margins.made = true;
	for (auto &entry : ranges()) {
		Range &r = *entry.second;
		if (!r.mapped)
			continue;
		r.below = r.below || map_margin(r.base - margin(d), margins.memory, access);
		r.above = r.above || map_margin(r.base + r.size, margins.memory, access);
	}
}

cudaError_t map_all(int device)
{
	for (auto &entry : ranges()) {
		Range &r = *entry.second;
		if (r.mapped)
			continue;
		const CUresult result = back(r, device);
		if (result == CUDA_ERROR_OUT_OF_MEMORY)
			return failed_allocation("cudaMalloc", r.size);
		if (result != CUDA_SUCCESS)
			return seen(result, "cuMemMap");
	}
	back_margins(device); // last: what the program asked for comes first
	return cudaSuccess;
}

bool allocate_beside(size_t bytes, void **address)
{
	Locked locked;
	Range *const r = small(bytes) ? shared_range(bytes, true) : nullptr;

	if (r == nullptr)
		return false;
	*address = place(*r, bytes);
	Task::process().count(1, 0);
	return true;
}

CUresult allocate_backed(size_t bytes, int device, void **address)
{
	Locked locked;
	Range *const r = new_range(driver(), backing_of(bytes), small(bytes));

	if (r == nullptr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (const CUresult result = back(*r, device); result != CUDA_SUCCESS) {
		unreserve(*r);
		ranges().erase(r->base);
		return result;
	}
	back_margins(device);
	*address = place(*r, bytes);
	return CUDA_SUCCESS;
}

static CUresult access_to(uintptr_t at, size_t bytes, int device)
{
	const CUmemAccessDesc access = {on(device).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return driver()->set_access(at, bytes, &access, 1);
}

// remap puts memory at addresses that have other memory. If the driver refuses, the other memory comes
// back.
static bool remap(uintptr_t at, size_t bytes, CUmemGenericAllocationHandle to, CUmemGenericAllocationHandle from, int device)
{
	const Driver *d = driver();

	if (d->unmap(at, bytes) != CUDA_SUCCESS)
		return false;
	if (d->map(at, bytes, 0, to, 0) == CUDA_SUCCESS) {
		if (access_to(at, bytes, device) == CUDA_SUCCESS)
			return true;
		d->unmap(at, bytes);
	}
	if (d->map(at, bytes, 0, from, 0) == CUDA_SUCCESS)
		access_to(at, bytes, device);
	return false;
}

static bool move_out(Range &r, size_t i, HostChunk *host, int device, uint64_t *copy_ns)
{
	Chunk &c = r.chunks[i];
	const uint64_t began = now_ns();
	const CUresult copied = REAL_DRIVER(cuMemcpy)(host->window, address_of(r, i), bytes_of(r, i));

	*copy_ns += now_ns() - began;
	if (copied != CUDA_SUCCESS || !remap(address_of(r, i), bytes_of(r, i), host->memory, c.memory, device))
		return false;
	driver()->release(c.memory);
	c.host = host;
	on_device(r, -static_cast<int64_t>(bytes_of(r, i)));
	on_host(r, 1, static_cast<int64_t>(bytes_of(r, i)));
	return true;
}

// by_use are the ranges that can move, the least recently referenced first.
static std::vector<Range *> by_use()
{
	std::vector<Range *> all;

	for (auto &entry : ranges())
		if (moves(*entry.second))
			all.push_back(entry.second.get());
	std::stable_sort(all.begin(), all.end(), [](const Range *a, const Range *b) { return a->use->launch < b->use->launch; });
	return all;
}

// chunks_to_move is how many chunks have to leave the device for at least `bytes`.
static size_t chunks_to_move(uint64_t bytes)
{
	uint64_t moved = 0;
	size_t chunks = 0;

	for (const Range *r : by_use())
		for (size_t i = 0; moved < bytes && i < r->chunks.size(); i++)
			if (r->chunks[i].host == nullptr) {
				moved += bytes_of(*r, i);
				chunks++;
			}
	return chunks;
}

static uint64_t await_out(uint64_t bytes, int device, uint64_t *copy_ns)
{
	size_t left = chunks_to_move(bytes);
	uint64_t moved = 0;

	for (Range *r : by_use())
		for (size_t i = 0; moved < bytes && i < r->chunks.size(); i++) {
			if (r->chunks[i].host != nullptr)
				continue;
			HostChunk *const host = await_host_chunk(device, left--);
			if (host == nullptr)
				return moved;
			if (!move_out(*r, i, host, device, copy_ns)) {
				give_host_chunk(host);
				return moved;
			}
			moved += bytes_of(*r, i);
		}
	return moved;
}

uint64_t await_moved_out(uint64_t bytes, int device, uint64_t *copy_ns)
{
	const uint64_t moved = await_out(bytes, device, copy_ns);
	return moved;
}

static CUresult move_in(Range &r, size_t i, int device, uint64_t *copy_ns)
{
	const Driver *d = driver();
	const CUmemAllocationProp prop = on(device);
	Chunk &c = r.chunks[i];

	if (const CUresult result = d->create(&c.memory, bytes_of(r, i), &prop, 0); result != CUDA_SUCCESS)
		return result;
	if (!remap(address_of(r, i), bytes_of(r, i), c.memory, c.host->memory, device)) {
		d->release(c.memory);
		return CUDA_ERROR_INVALID_VALUE;
	}
	const uint64_t began = now_ns();
	const CUresult copied = REAL_DRIVER(cuMemcpy)(address_of(r, i), c.host->window, bytes_of(r, i));
	*copy_ns += now_ns() - began;
	if (copied != CUDA_SUCCESS) {
		if (remap(address_of(r, i), bytes_of(r, i), c.host->memory, c.memory, device))
			d->release(c.memory);
		return copied;
	}
	give_host_chunk(c.host);
	c.host = nullptr;
	on_device(r, static_cast<int64_t>(bytes_of(r, i)));
	on_host(r, -1, -static_cast<int64_t>(bytes_of(r, i)));
	return CUDA_SUCCESS;
}

static bool full = false; // the device has refused what the scheduler counts

uint64_t move_in(uint64_t room, int device, uint64_t *copy_ns)
{
	const std::vector<Range *> all = by_use();
	uint64_t moved = 0;

	full = false;
	for (auto r = all.rbegin(); r != all.rend() && recent(*(*r)->use); ++r)
		for (size_t i = 0; i < (*r)->chunks.size(); i++) {
			if ((*r)->chunks[i].host == nullptr || bytes_of(**r, i) > room - moved)
				continue;
			if (move_in(**r, i, device, copy_ns) != CUDA_SUCCESS)
				return moved;
			moved += bytes_of(**r, i);
		}
	return moved;
}

// make_room moves one chunk out that nobody waits for, and returns its bytes.
static uint64_t make_room(int device)
{
	uint64_t copy_ns = 0;

	for (Range *r : by_use())
		for (size_t i = 0; !r->wanted && i < r->chunks.size(); i++) {
			if (r->chunks[i].host != nullptr)
				continue;
			HostChunk *const host = unused_host_chunk(device);
			const bool moved = host != nullptr && move_out(*r, i, host, device, &copy_ns);
			if (host != nullptr && !moved)
				give_host_chunk(host);
			return moved ? bytes_of(*r, i) : 0;
		}
	return 0;
}

// A launch may reference more than can be on the device together. Then a part of it comes, and the rest of it
// stays mapped from the host. The next launch of the same memory finds nothing to bring (can_bring), so it moves
// nothing and does not wait. Launches that reference other memory in turn do move it each time, because each of
// them would be slow without.
void bring(uint64_t room, int device)
{
	uint64_t copy_ns = 0;

	for (auto &entry : ranges()) {
		Range &r = *entry.second;
		for (size_t i = 0; r.wanted && i < r.chunks.size(); i++) {
			if (r.chunks[i].host == nullptr)
				continue;
			for (;;) {
				const bool fits = bytes_of(r, i) <= room;
				const CUresult result = fits ? move_in(r, i, device, &copy_ns) : CUDA_ERROR_OUT_OF_MEMORY;
				if (result == CUDA_SUCCESS)
					break;
				const uint64_t more = result == CUDA_ERROR_OUT_OF_MEMORY ? make_room(device) : 0;
				if (more == 0) {
					full = fits; // later launches need not try
					return;
				}
				room += more;
			}
			room -= bytes_of(r, i);
		}
	}
}

uint64_t range_bytes() { return sums.reserved; }
uint64_t resident_bytes() { return sums.resident; }
uint64_t movable_bytes() { return sums.movable; }
uint64_t away_bytes() { return sums.away; }

void want(const std::vector<uintptr_t> &addresses)
{
	for (auto &entry : ranges())
		entry.second->wanted = false;
	for (const uintptr_t address : addresses)
		if (const Allocation *a = find(reinterpret_cast<const void *>(address)); a != nullptr && a->range != nullptr)
			a->range->wanted = true;
}

bool can_bring(uint64_t room)
{
	size_t least = SIZE_MAX; // bytes of a chunk that is to come
	bool others = false;     // that could go

	for (auto &entry : ranges()) {
		const Range &r = *entry.second;
		for (size_t i = 0; i < r.chunks.size(); i++)
			if (r.wanted && r.chunks[i].host != nullptr)
				least = std::min(least, bytes_of(r, i));
			else if (!r.wanted && moves(r) && r.chunks[i].host == nullptr)
				others = true;
	}
	return least != SIZE_MAX && ((least <= room && !full) || (others && has_unused_host_chunk()));
}

uint64_t referenced_bytes()
{
	uint64_t sum = 0;

	for (auto &entry : ranges())
		if (const Range &r = *entry.second; r.use != nullptr && recent(*r.use))
			sum += r.size;
	return sum;
}

uint64_t wanted_bytes()
{
	uint64_t sum = 0;

	for (const Range *r : by_use())
		for (size_t i = 0; recent(*r->use) && i < r->chunks.size(); i++)
			if (r->chunks[i].host != nullptr)
				sum += bytes_of(*r, i);
	return sum;
}

void unmap_all()
{
	for (auto &entry : ranges()) {
		strip_margins(*entry.second);
		strip(*entry.second);
	}
	drop_margins();
}

void forget_memory()
{
	Locked locked;

	allocations().clear();
	unmap_all();
	for (auto &entry : ranges())
		unreserve(*entry.second);
	ranges().clear();
}

} // namespace lazy
