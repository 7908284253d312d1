// memory.cc: device memory as addresses first, memory later.
//
// cuMemAddressReserve needs no context. So the program gets the addresses that it will keep,
// whatever device they lead to, and nested and interior pointers need no rewriting. A large
// allocation has a chunk of its own; small allocations share chunks of one granule. Each chunk has
// a margin on both sides. It serves programs that read or write just outside an allocation, where
// under cudaMalloc other memory lies.
#include <limits.h>

#include <map>
#include <memory>

#include "lock.h"
#include "memory.h"
#include "mode.h"
#include "real.h"
#include "record.h"
#include "report.h"
#include "task.h"

namespace lazy {

struct Chunk {
	uintptr_t base;
	size_t size;
	CUmemGenericAllocationHandle memory;
	bool mapped, shared;
	bool below, above; // the margins that have memory
	size_t used;       // bytes handed out of a shared chunk
	size_t live;       // allocations in it
};

// std::map for its order: find looks for the allocation before an address.
static std::map<uintptr_t, Allocation> &allocations()
{
	static auto *const all = new std::map<uintptr_t, Allocation>; // outlives static destructors
	return *all;
}

static std::map<uintptr_t, std::unique_ptr<Chunk>> &chunks()
{
	static auto *const all = new std::map<uintptr_t, std::unique_ptr<Chunk>>;
	return *all;
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

// margin is how many addresses, in bytes, are reserved on either side of a chunk.
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

static Chunk *new_chunk(const Driver *d, size_t size, bool shared)
{
	CUdeviceptr start = 0;

	if (d->reserve(&start, size + 2 * margin(d), granularity(d), 0, 0) != CUDA_SUCCESS)
		return nullptr;
	auto chunk = std::make_unique<Chunk>();
	Chunk *made = chunk.get();
	made->base = static_cast<uintptr_t>(start) + margin(d);
	made->size = size;
	made->shared = shared;
	chunks()[made->base] = std::move(chunk);
	Task::process().count(0, static_cast<int64_t>(size));
	return made;
}

static Chunk *shared_chunk(const Driver *d, size_t bytes)
{
	for (auto &entry : chunks()) {
		Chunk &c = *entry.second;
		if (c.shared && !c.mapped && c.size - c.used >= bytes)
			return &c;
	}
	return new_chunk(d, granularity(d), true);
}

bool reserve(size_t bytes, void **address)
{
	Locked locked;
	const Driver *d = driver();

	if (d == nullptr || granularity(d) == 0)
		return false;
	const uint64_t most = largest_device(d), held = Task::process().in_use();
	if (bytes > most || held > most - bytes)
		return false;
	const size_t unit = small(bytes) ? alignment : granularity(d);
	const size_t size = (bytes + unit - 1) / unit * unit;
	Chunk *c = small(bytes) ? shared_chunk(d, size) : new_chunk(d, size, false);
	if (c == nullptr)
		return false;
	const uintptr_t base = c->base + c->used;
	c->used += size;
	c->live++;
	allocations()[base] = Allocation{base, bytes, c, nullptr, 0, false};
	Task::process().count(1, 0);
	*address = reinterpret_cast<void *>(base);
	return true;
}

static void unmap(Chunk &c)
{
	const Driver *d = driver();

	if (c.below)
		d->unmap(c.base - margin(d), margin(d));
	if (c.above)
		d->unmap(c.base + c.size, margin(d));
	c.below = c.above = false;
	if (!c.mapped)
		return;
	d->unmap(c.base, c.size);
	d->release(c.memory);
	c.mapped = false;
}

static void unreserve(const Chunk &c)
{
	const Driver *d = driver();
	d->unreserve(c.base - margin(d), c.size + 2 * margin(d));
}

static void leave(Chunk *c)
{
	if (--c->live > 0)
		return;
	unmap(*c);
	unreserve(*c);
	Task::process().count(0, -static_cast<int64_t>(c->size));
	chunks().erase(c->base);
}

static void erase(Allocation *a)
{
	Chunk *c = a->chunk;

	allocations().erase(a->base);
	if (c != nullptr)
		leave(c);
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

	if (a == nullptr || a->chunk == nullptr || a->chunk->mapped)
		return nullptr;
	return bytes <= a->bytes - (reinterpret_cast<uintptr_t>(address) - a->base) ? a : nullptr;
}

// The chunk whose addresses these are, with those of its margins.
static const Chunk *chunk_at(uintptr_t at)
{
	const uintptr_t around = chunks().empty() ? 0 : margin(driver());
	auto after = chunks().upper_bound(at + around);

	if (after == chunks().begin())
		return nullptr;
	const Chunk *c = std::prev(after)->second.get();
	return at - (c->base - around) < c->size + 2 * around ? c : nullptr;
}

bool strays(const void *address, size_t bytes)
{
	if (mode() != Mode::task || bytes == 0)
		return false;
	Locked locked;
	const uintptr_t at = reinterpret_cast<uintptr_t>(address);
	if (chunk_at(at) == nullptr)
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
	if (a->chunk == nullptr)
		return Holder::runtime;
	return a->chunk->mapped ? Holder::mapped : Holder::reserved;
}

bool withdraw(const void *address, Allocation *was)
{
	Locked locked;
	Allocation *a = at_base(address);

	if (a == nullptr || a->chunk != nullptr)
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
	const bool shared = a->chunk != nullptr && a->chunk->shared;
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

// map_margins puts one granule behind all margins. Programs that stay inside their
// allocations need none, so what the driver refuses is left out. The driver keeps the
// granule as long as it is mapped anywhere.
static void map_margins(int device)
{
	const Driver *d = driver();
	const CUmemAllocationProp prop = on(device);
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle memory = 0;

	if (chunks().empty() || margin(d) == 0 || d->create(&memory, margin(d), &prop, 0) != CUDA_SUCCESS)
		return;
	for (auto &entry : chunks()) {
		Chunk &c = *entry.second;
		c.below = c.below || map_margin(c.base - margin(d), memory, access);
		c.above = c.above || map_margin(c.base + c.size, memory, access);
	}
	d->release(memory);
}

cudaError_t map_all(int device)
{
	const Driver *d = driver();

	for (auto &entry : chunks()) {
		Chunk &c = *entry.second;
		if (c.mapped)
			continue;
		const CUmemAllocationProp prop = on(device);
		const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
		CUresult result = d->create(&c.memory, c.size, &prop, 0);
		if (result == CUDA_SUCCESS) {
			result = d->map(c.base, c.size, 0, c.memory, 0);
			if (result != CUDA_SUCCESS)
				d->release(c.memory);
		}
		if (result == CUDA_SUCCESS) {
			c.mapped = true;
			result = d->set_access(c.base, c.size, &access, 1);
		}
		if (result == CUDA_ERROR_OUT_OF_MEMORY)
			return failed_allocation("cudaMalloc", c.size);
		if (result != CUDA_SUCCESS)
			return seen(result, "cuMemMap");
	}
	map_margins(device); // last: what the program asked for comes first
	return cudaSuccess;
}

void unmap_all()
{
	for (auto &entry : chunks())
		unmap(*entry.second);
}

void forget_memory()
{
	Locked locked;

	allocations().clear();
	for (auto &entry : chunks()) {
		unmap(*entry.second);
		unreserve(*entry.second);
	}
	chunks().clear();
}

} // namespace lazy
