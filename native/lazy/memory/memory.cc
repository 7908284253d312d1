// memory.cc: device memory as addresses first, memory later.
//
// cuMemAddressReserve needs no context. So the program gets the addresses that it will keep,
// whatever device they lead to, and nested and interior pointers need no rewriting. A large
// allocation has a range of its own; small allocations share ranges of one granule. Each range has
// a margin on both sides. It serves programs that read or write just outside an allocation, where
// under cudaMalloc other memory lies.
//
// Where the scheduler can take memory back (movable), the memory behind a range comes in chunks,
// each with a handle of its own, because a handle is the unit that can be mapped elsewhere (evict.cc).
#include <limits.h>
#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/addresses.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/driver.h"
#include "probe/client.h"
#include "program/mode.h"
#include "account.h"
#include "last_use.h"
#include "memory.h"
#include "ranges.h"
#include "swap.h"

namespace lazy {

// std::map for its order: find looks for the allocation before an address.
static std::map<uintptr_t, Allocation> &allocations()
{
	static auto *const all = new std::map<uintptr_t, Allocation>; // outlives static destructors
	return *all;
}

std::map<uintptr_t, std::unique_ptr<Range>> &ranges()
{
	static auto *const all = new std::map<uintptr_t, std::unique_ptr<Range>>;
	return *all;
}

// The shared ranges, by whether they have memory, by their largest gap, and by address. With many allocations nobody
// can look at each range.
static std::set<std::tuple<bool, size_t, uintptr_t>> &shared_ranges()
{
	static auto *const all = new std::set<std::tuple<bool, size_t, uintptr_t>>;
	return *all;
}

static size_t with_memory = 0; // ranges

// change_place changes what a range's place among the shared ranges depends on.
template <typename Change> static void change_place(Range &r, Change change)
{
	if (r.shared)
		shared_ranges().erase({r.mapped, r.largest_gap, r.base});
	change();
	if (r.shared)
		shared_ranges().insert({r.mapped, r.largest_gap, r.base});
}

static void set_mapped(Range &r, bool mapped)
{
	if (r.mapped == mapped)
		return;
	change_place(r, [&] { r.mapped = mapped; });
	mapped ? with_memory++ : with_memory--;
}

// Sums over all ranges, in bytes. A revocation that has to end at once reads them without `lock`.
static struct {
	std::atomic<uint64_t> reserved, resident, movable, away;
} sums;

static bool moves(const Range &r) { return r.use != nullptr && !r.shared; }

bool moves(const Range &r, size_t chunk)
{
	const size_t bytes = bytes_of(r, chunk);
	return moves(r) && (bytes == r.unit || (!guarded() && bytes >= r.unit / 4));
}

void on_device(const Range &r, size_t chunk, int64_t bytes)
{
	sums.resident += static_cast<uint64_t>(bytes);
	sums.movable += moves(r, chunk) ? static_cast<uint64_t>(bytes) : 0;
	account::moved();
}

void on_host(Range &r, int64_t chunks, int64_t bytes)
{
	r.on_host += static_cast<size_t>(chunks);
	sums.away += static_cast<uint64_t>(bytes);
	if (r.use != nullptr)
		r.use->on_host = r.on_host > 0;
}

static const size_t alignment = 512; // bytes, as cudaMalloc's addresses have

CUmemAllocationProp memory_on(int device)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
	return prop;
}

// granularity is asked of the driver, unless that may have to wait for the device.
static size_t granularity()
{
	static const size_t found = [] {
		const CUmemAllocationProp prop = memory_on(0);
		size_t bytes = 0;
		if (has_instances())
			return size_t{granule};
		return driver() != nullptr && driver()->granularity(&bytes, &prop, 0) == CUDA_SUCCESS ? bytes : 0;
	}();
	return found;
}

// margin is how many addresses, in bytes, are reserved on either side of a range.
static size_t margin() { return guarded() ? 0 : granularity(); }

// largest_device is in bytes; before the driver starts, more than any device has.
static size_t largest_device()
{
	if (awaits_device())
		return SIZE_MAX / 2;
	static const size_t found = [d = driver()] {
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

static size_t whole(size_t bytes, size_t unit) { return sum(bytes, unit - 1) / unit * unit; }

static Range *new_range(size_t size, bool shared)
{
	CUdeviceptr start = 0;

	const size_t reserved = movable() && !shared ? whole(size, largest_chunk) : size;
	if (!reserve_addresses(reserved + 2 * margin(), granularity(), &start))
		return nullptr;
	auto range = std::make_unique<Range>();
	Range *made = range.get();
	made->base = static_cast<uintptr_t>(start) + margin();
	made->size = size;
	made->reserved = reserved;
	made->unit = size;
	made->shared = shared;
	made->use = movable() ? watch(made->base, size) : nullptr;
	ranges()[made->base] = std::move(range);
	if (shared)
		change_place(*made, [=] { made->gaps[0] = made->largest_gap = size; });
	sums.reserved += size;
	return made;
}

// shared_range is the shared range with the smallest gap that bytes fit in, by the largest gap of each.
static Range *shared_range(size_t bytes, bool mapped)
{
	const auto at = shared_ranges().lower_bound({mapped, whole(bytes, alignment), 0});

	return at != shared_ranges().end() && std::get<0>(*at) == mapped ? ranges().at(std::get<2>(*at)).get() : nullptr;
}

static void measure_gaps(Range &r)
{
	size_t largest = 0;

	for (const auto &gap : r.gaps)
		largest = std::max(largest, gap.second);
	change_place(r, [&] { r.largest_gap = largest; });
}

// take finds a place in a shared range that has room, and returns its offset.
static size_t take(Range &r, size_t bytes)
{
	const size_t taken = whole(bytes, alignment);
	const auto at = std::find_if(r.gaps.begin(), r.gaps.end(), [=](const auto &gap) { return gap.second >= taken; });
	const size_t offset = at->first, left = at->second - taken;

	r.gaps.erase(at);
	if (left > 0)
		r.gaps[offset + taken] = left;
	measure_gaps(r);
	return offset;
}

// free_place is the opposite. Gaps that touch become one.
static void free_place(Range &r, size_t offset, size_t bytes)
{
	const auto at = r.gaps.emplace(offset, whole(bytes, alignment)).first, next = std::next(at);

	if (next != r.gaps.end() && next->first == at->first + at->second) {
		at->second += next->second;
		r.gaps.erase(next);
	}
	if (at != r.gaps.begin())
		if (const auto before = std::prev(at); before->first + before->second == at->first) {
			before->second += at->second;
			r.gaps.erase(at);
		}
	measure_gaps(r);
}

// place makes an allocation in a range that has room for it.
static void *place(Range &r, size_t bytes)
{
	const uintptr_t base = r.base + (r.shared ? take(r, bytes) : 0);

	r.live++;
	allocations()[base] = Allocation{base, bytes, &r, 0, 0, false, nullptr, nullptr};
	return reinterpret_cast<void *>(base);
}

bool small(size_t bytes) { return bytes < granule / 2; }

size_t backing_of(size_t bytes) { return small(bytes) ? granularity() : whole(bytes, granularity()); }

// cudaMallocPitch rounds rows to 512 bytes on every device since 2010.
size_t row_of(size_t width) { return whole(width, 512); }

bool reserve(size_t bytes, void **address)
{
	Locked locked;

	if ((driver() == nullptr && !awaits_device()) || granularity() == 0)
		return false;
	const uint64_t most = room().device > 0 ? room().device + room().host : largest_device(), held = account::in_use();
	if (bytes > most || held > most - bytes)
		return false;
	Range *r = small(bytes) ? shared_range(bytes, false) : nullptr;
	if (r == nullptr) {
		r = new_range(backing_of(bytes), small(bytes));
		if (r == nullptr)
			return false;
		account::count(0, static_cast<int64_t>(r->size));
	}
	*address = place(*r, bytes);
	account::count(1, 0);
	return true;
}

// drop_layout forgets chunks without memory behind their addresses, from this one on.
static void drop_layout(Range &r, size_t from)
{
	for (size_t i = from; i < r.chunks.size(); i++)
		if (r.chunks[i].host != nullptr)
			give_host_chunk(r.chunks[i].host);
	r.chunks.resize(from);
}

// strip takes the memory behind a range away.
static void strip(Range &r)
{
	const Driver *d = driver();
	uint64_t back = 0;

	for (size_t i = 0; i < r.chunks.size(); i++) {
		const Chunk &c = r.chunks[i];
		if (!c.bare)
			d->unmap(address_of(r, i), mapped_bytes(r, i));
		if (c.host != nullptr) {
			give_host_chunk(c.host);
			back += bytes_of(r, i);
			continue;
		}
		d->release(c.memory);
		on_device(r, i, -static_cast<int64_t>(bytes_of(r, i)));
	}
	r.chunks.clear();
	set_mapped(r, false);
	on_host(r, -static_cast<int64_t>(r.on_host), -static_cast<int64_t>(back));
}

void lay_out(Range &r)
{
	if (!r.chunks.empty())
		return;
	r.unit = moves(r) ? movable_chunk() : r.size;
	r.chunks.resize((r.size + r.unit - 1) / r.unit);
}

// back_chunk puts memory behind a chunk: the host's, if it has some already, else the device's.
static CUresult back_chunk(Range &r, size_t i, const CUmemAllocationProp &prop)
{
	const Driver *d = driver();
	Chunk &c = r.chunks[i];

	if (c.host != nullptr) {
		const CUresult result = d->map(address_of(r, i), mapped_bytes(r, i), 0, c.host->memory, 0);
		if (result == CUDA_SUCCESS)
			on_host(r, 1, static_cast<int64_t>(bytes_of(r, i)));
		return result;
	}
	if (const CUresult result = d->create(&c.memory, bytes_of(r, i), &prop, 0); result != CUDA_SUCCESS)
		return result;
	if (const CUresult result = d->map(address_of(r, i), bytes_of(r, i), 0, c.memory, 0); result != CUDA_SUCCESS) {
		d->release(c.memory);
		return result;
	}
	on_device(r, i, static_cast<int64_t>(bytes_of(r, i)));
	return CUDA_SUCCESS;
}

// back puts memory behind a range.
static CUresult back(Range &r, int device)
{
	const CUmemAllocationProp prop = memory_on(device);
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result = CUDA_SUCCESS;
	size_t done = 0;

	lay_out(r);
	for (; done < r.chunks.size() && result == CUDA_SUCCESS; done += result == CUDA_SUCCESS)
		result = back_chunk(r, done, prop);
	if (result == CUDA_SUCCESS) {
		const size_t last = r.chunks.size() - 1;
		result = driver()->set_access(r.base, address_of(r, last) + mapped_bytes(r, last) - r.base, &access, 1);
	}
	set_mapped(r, result == CUDA_SUCCESS);
	if (!r.mapped) {
		drop_layout(r, done);
		strip(r);
	}
	return result;
}

void strip_above(Range &r)
{
	const Driver *d = driver();

	if (r.above)
		d->unmap(r.base + r.size, margin());
	r.above = false;
}

static void strip_margins(Range &r)
{
	const Driver *d = driver();

	if (r.below)
		d->unmap(r.base - margin(), margin());
	r.below = false;
	strip_above(r);
}

// ends_on_host: the addresses of the upper margin have memory of the host, with the last chunk.
static bool ends_on_host(const Range &r)
{
	return r.chunks.back().host != nullptr && bytes_of(r, r.chunks.size() - 1) < r.unit;
}

static void unreserve(Range &r)
{
	if (r.use != nullptr)
		unwatch(r.base);
	r.use = nullptr;
	if (r.shared)
		shared_ranges().erase({r.mapped, r.largest_gap, r.base});
	free_addresses(r.base - margin(), r.reserved + 2 * margin());
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
	account::count(0, -static_cast<int64_t>(gone.size));
	if (away > 0)
		account::release_evicted(away);
	ranges().erase(gone.base);
	if (with_memory == 0)
		drop_margins();
}

// spares are shared ranges with memory and without allocations. One stays, because the next small
// allocation would make it anew.
static void drop_spares(const Range *but)
{
	std::vector<const Range *> gone;

	for (auto at = shared_ranges().lower_bound({true, backing_of(1), 0}); at != shared_ranges().end(); ++at) // one gap
		if (const Range *r = ranges().at(std::get<2>(*at)).get(); r != but)
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
		free_place(*r, a->base - r->base, a->bytes);
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
	const uintptr_t around = ranges().empty() ? 0 : margin();
	auto after = ranges().upper_bound(at + around);

	if (after == ranges().begin())
		return nullptr;
	const Range *r = std::prev(after)->second.get();
	return at - (r->base - around) < r->reserved + 2 * around ? r : nullptr;
}

bool out_of_bounds(const void *address, size_t bytes)
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

bool out_of_bounds(const cudaPitchedPtr &memory, const cudaPos &at, const cudaExtent &box)
{
	const size_t slice = product(memory.pitch, memory.ysize);

	if (box.width == 0 || box.height == 0 || box.depth == 0 || (memory.pitch < box.width && box.height > 1))
		return false;
	return out_of_bounds(static_cast<char *>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x,
	              sum(sum(product(box.depth - 1, slice), product(box.height - 1, memory.pitch)), box.width));
}

void adopt(void *address, size_t bytes, int charged_to, cudaMemPool_t pool)
{
	if (mode() == Mode::passive)
		return;
	Locked locked;
	const uintptr_t base = reinterpret_cast<uintptr_t>(address);
	allocations()[base] = Allocation{base, bytes, nullptr, charged_to, 0, false, pool, pool != nullptr ? nullptr : program_context()};
}

void readopt(const Allocation &was)
{
	Locked locked;
	allocations()[was.base] = was;
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

cudaMemPool_t pool_behind(const void *address)
{
	Locked locked;
	const Allocation *a = at_base(address);

	return a != nullptr ? a->pool : nullptr;
}

std::vector<Allocation> withdraw_all(CUcontext ends_with, int charged_to)
{
	Locked locked;
	std::vector<Allocation> all;

	for (auto at = allocations().begin(); at != allocations().end();) {
		const Allocation &a = at->second;
		const bool in_it = a.range == nullptr && a.ends_with == ends_with && (ends_with != nullptr || a.charged_to == charged_to);
		if (in_it)
			all.push_back(a);
		at = in_it ? allocations().erase(at) : std::next(at);
	}
	return all;
}

std::vector<uint64_t> outlasting(int charged_to)
{
	Locked locked;
	std::vector<uint64_t> all;

	for (const auto &[base, a] : allocations())
		if (a.range == nullptr && a.ends_with != nullptr && a.charged_to == charged_to)
			all.push_back(a.bytes);
	return all;
}

bool drop(const void *address, const Allocation **recorded)
{
	Allocation *a = at_base(address);

	*recorded = nullptr;
	if (a == nullptr)
		return false;
	a->freed = a->recorded > 0; // its memory is still written, and perhaps read, in the replay
	if (!a->freed)
		erase(a);
	else if (a->range == nullptr || !a->range->shared)
		*recorded = a;
	return true;
}

bool retire(const void *address)
{
	Locked locked;
	Allocation *a = at_base(address);

	if (a == nullptr || a->recorded > 0)
		return false;
	a->freed = true;
	return true;
}

void drop_retired(uintptr_t base) { erase(recorded_at(base)); }

bool can_renew(uintptr_t base, size_t bytes)
{
	const Allocation &a = *recorded_at(base);

	if (a.range->shared)
		return small(bytes) && whole(bytes, alignment) == whole(a.bytes, alignment);
	return !small(bytes) && bytes <= a.range->size && bytes >= a.range->size / 2;
}

void *renew(uintptr_t base, size_t bytes)
{
	Allocation &a = *recorded_at(base);

	a.bytes = bytes;
	a.freed = false;
	return reinterpret_cast<void *>(base);
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

	if (d->map(base, margin(), 0, memory, 0) != CUDA_SUCCESS)
		return false;
	if (d->set_access(base, margin(), &access, 1) == CUDA_SUCCESS)
		return true;
	d->unmap(base, margin());
	return false;
}

static void back_margins(Range &r, const CUmemAccessDesc &access)
{
	if (!r.mapped)
		return;
	r.below = r.below || map_margin(r.base - margin(), margins.memory, access);
	r.above = r.above || (!ends_on_host(r) && map_margin(r.base + r.size, margins.memory, access));
}

// back_margins puts one granule behind the margins that have no memory. Programs that stay inside
// their allocations need none, so what the driver refuses is left out. The granule is made for the
// first margin, and goes with the last range that has memory.
void back_margins(int device, Range *added)
{
	const Driver *d = driver();
	const CUmemAllocationProp prop = memory_on(device);
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	if (ranges().empty() || margin() == 0)
		return;
	if (margins.made && added != nullptr)
		return back_margins(*added, access);
	if (!margins.made && d->create(&margins.memory, margin(), &prop, 0) != CUDA_SUCCESS)
		return;
	margins.made = true;
	for (auto &entry : ranges())
		back_margins(*entry.second, access);
}

bool margin_memory(CUmemGenericAllocationHandle *memory, CUdeviceptr *at, size_t *bytes)
{
	*memory = margins.memory;
	*bytes = margin();
	for (const auto &entry : ranges()) {
		const Range &r = *entry.second;
		*at = r.below ? r.base - margin() : r.base + r.size;
		if (margins.made && (r.below || r.above))
			return true;
	}
	return false;
}

void change_margins(CUmemGenericAllocationHandle memory, int device)
{
	for (auto &entry : ranges())
		strip_margins(*entry.second);
	margins.memory = memory;
	back_margins(device);
}

bool has_fixed_memory()
{
	return std::any_of(allocations().begin(), allocations().end(), [](const auto &entry) { return entry.second.range == nullptr; });
}

CUresult map_all(int device, size_t *refused)
{
	for (auto &entry : ranges()) {
		Range &r = *entry.second;
		if (r.mapped)
			continue;
		*refused = r.size;
		if (const CUresult result = back(r, device); result != CUDA_SUCCESS)
			return result;
	}
	back_margins(device); // last: what the program asked for comes first
	return CUDA_SUCCESS;
}

bool allocate_beside(size_t bytes, void **address)
{
	Locked locked;
	Range *const r = small(bytes) ? shared_range(bytes, true) : nullptr;

	if (r == nullptr)
		return false;
	*address = place(*r, bytes);
	account::count(1, 0);
	return true;
}

CUresult allocate_backed(size_t bytes, int device, void **address)
{
	Locked locked;
	Range *const r = new_range(backing_of(bytes), small(bytes));

	account::made(backing_of(bytes));
	if (r == nullptr)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (const CUresult result = back(*r, device); result != CUDA_SUCCESS) {
		unreserve(*r);
		ranges().erase(r->base);
		return result;
	}
	back_margins(device, r);
	*address = place(*r, bytes);
	return CUDA_SUCCESS;
}

uint64_t range_bytes() { return sums.reserved; }
uint64_t resident_bytes() { return sums.resident; }
uint64_t movable_bytes() { return sums.movable; }
uint64_t away_bytes() { return sums.away; }

void unmap_all()
{
	for (auto &entry : ranges()) {
		strip_margins(*entry.second);
		if (!entry.second->mapped)
			drop_layout(*entry.second, 0);
		strip(*entry.second);
	}
	drop_margins();
}

void forget_memory()
{
	Locked locked;

	for (auto at = allocations().begin(); at != allocations().end();)
		at = at->second.range != nullptr ? allocations().erase(at) : std::next(at);
	unmap_all();
	for (auto &entry : ranges())
		unreserve(*entry.second);
	ranges().clear();
}

} // namespace lazy
