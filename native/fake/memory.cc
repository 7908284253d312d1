// memory.cc: "device" memory is the host's, readable only while work of a device
// that may touch it runs. Anything else that touches it faults, as on a GPU.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "machine.h"

namespace fake {

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
static uint64_t bit(int device) { return 1ull << (device == the_host ? 63 : device); }
static void *at(uintptr_t address) { return reinterpret_cast<void *>(address); }

// room is how many bytes on either side of a segment may be touched too: allocations of cudaMalloc
// lie in blocks of the driver, beside other allocations.
static size_t room(Segment::Kind kind) { return kind == Segment::device_memory ? granule : 0; }

OwnFile::OwnFile(int number) : number_(number)
{
	struct stat about = {};

	if (number < 0 || fstat(number, &about) != 0)
		number_ = -1;
	device_ = about.st_dev;
	inode_ = about.st_ino;
}

int OwnFile::number() const
{
	struct stat about;

	if (number_ < 0 || fstat(number_, &about) != 0 || about.st_dev != device_ || about.st_ino != inode_)
		return -1;
	return number_;
}

void OwnFile::close()
{
	if (const int mine = number(); mine >= 0)
		::close(mine);
	number_ = -1;
}

// Under valgrind, which preloads a library of its own, mprotect takes milliseconds for each MiB, and
// mappings are made anew. Elsewhere that takes longer, because each page then faults again.
static bool makes_anew()
{
	static const bool valgrind = [] {
		const char *preloaded = getenv("LD_PRELOAD");
		return preloaded != nullptr && strstr(preloaded, "vgpreload") != nullptr;
	}();
	return valgrind;
}

void Machine::protect(const Segment &s, bool readable)
{
	const bool host = s.kind == Segment::mapping && (s.access & bit(the_host)) != 0;
	const int how = readable || host ? PROT_READ | PROT_WRITE : PROT_NONE;

	const int file = s.kind == Segment::mapping && makes_anew() ? handles.at(s.handle).file.number() : -1;
	if (file >= 0)
		mmap(at(s.base), s.bytes, how, MAP_SHARED | MAP_FIXED, file, 0);
	else
		mprotect(at(s.base), round_up(s.bytes, 4096), how);
}

// New memory begins with a pattern, so that a program that relies on zeros, or a
// fill that is lost, shows.
static const std::vector<char> &pattern()
{
	static const auto &all = *new std::vector<char>(64 << 10, static_cast<char>(0xa5));
	return all;
}
static void scribble(void *memory, size_t bytes) { memcpy(memory, pattern().data(), std::min(bytes, pattern().size())); }

int Machine::allocate(Segment::Kind kind, int device, size_t bytes, void **out)
{
	Device &d = devices[static_cast<size_t>(device)];
	const bool counted = kind == Segment::device_memory;
	const size_t cost = round_up(bytes, 512);

	if (bytes == 0) {
		*out = nullptr;
		return 0;
	}
	if (counted && (bytes > d.total || cost > d.total - d.used))
		return CUDA_ERROR_OUT_OF_MEMORY;
	void *wide = mmap(nullptr, round_up(bytes, 4096) + 2 * room(kind), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (wide == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	void *base = static_cast<char *>(wide) + room(kind);
	Segment s = {kind, reinterpret_cast<uintptr_t>(base), bytes, device, kind >= Segment::pinned ? ~0ull :
	             bit(device), 0};
	scribble(base, bytes);
	if (s.on_device())
		protect(s, false);
	if (counted) {
		take(d, cost);
		s.context = current();
	}
	segments[s.base] = s;
	*out = base;
	return 0;
}

int Machine::adopt_host(void *base, size_t bytes, int device)
{
	const uintptr_t start = reinterpret_cast<uintptr_t>(base);

	if (base == nullptr || bytes == 0)
		return cudaErrorInvalidValue;
	if (find(base) != nullptr)
		return 712; // cudaErrorHostMemoryAlreadyRegistered
	segments[start] = {Segment::registered, start, bytes, device, ~0ull, 0};
	return 0;
}

void Machine::erase(const Segment &s)
{
	const Segment gone = s;

	segments.erase(gone.base);
	if (const auto from = drawn.find(gone.base); from != drawn.end()) { // the pool keeps it
		from->second->used -= round_up(gone.bytes, 512);
		drawn.erase(from);
	} else if (gone.kind == Segment::device_memory) {
		give(devices[static_cast<size_t>(gone.device)], round_up(gone.bytes, 512));
	}
	if (gone.kind == Segment::mapping) {
		mmap(at(gone.base), gone.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		     -1, 0);
		let_go(gone.handle);
	} else if (gone.kind != Segment::registered) {
		munmap(at(gone.base - room(gone.kind)), round_up(gone.bytes, 4096) + 2 * room(gone.kind));
	}
}

int Machine::release(void *base, std::initializer_list<Segment::Kind> kinds)
{
	const Segment *s = find(base);

	if (s != nullptr && s->base == reinterpret_cast<uintptr_t>(base))
		for (Segment::Kind kind : kinds)
			if (s->kind == kind) {
				erase(*s);
				return 0;
			}
	return cudaErrorInvalidValue;
}

const Segment *Machine::find(const void *address)
{
	const uintptr_t a = reinterpret_cast<uintptr_t>(address);
	auto it = segments.upper_bound(a);

	if (it == segments.begin())
		return nullptr;
	--it;
	return a - it->second.base < it->second.bytes ? &it->second : nullptr;
}

std::vector<const Segment *> Machine::cover(const void *address, size_t bytes)
{
	const uintptr_t start = reinterpret_cast<uintptr_t>(address), end = start + bytes;
	std::vector<const Segment *> all;

	if (end < start)
		return all;
	for (const Segment *s = find(address); s != nullptr; s = find(at(s->base + s->bytes))) {
		all.push_back(s);
		if (s->base + s->bytes >= end)
			return all;
		if (s->kind != Segment::mapping)
			break;
	}
	return {};
}

// Host memory that is mapped opens when a kernel touches it, so that this is counted.
static bool opens_at_touch(const Segment &s) { return s.kind == Segment::mapping && s.device == the_host; }

// As on a GPU, another context of the same device is out of a kernel's reach.
void Machine::open(int device, CUcontext context, bool readable)
{
	for (auto &[base, s] : segments) {
		bool mine = (s.access & bit(device)) != 0 && (s.context == nullptr || s.context == context);
		if (s.kind == Segment::device_memory && devices[static_cast<size_t>(device)].peers.count(s.device) != 0)
			mine = true;
		if (s.on_device() && mine)
			protect(s, readable && !opens_at_touch(s));
	}
}

bool Machine::touches_host(int device, const void *address)
{
	const Segment *s = find(address);

	if (s == nullptr || !opens_at_touch(*s) || (s->access & bit(device)) == 0)
		return false;
	host_touches++;
	protect(*s, true);
	return true;
}

// may_touch: plain allocations are in reach of every device's copies (CUDA's
// unified addressing); mappings only of the devices that cuMemSetAccess named,
// unless the copy names both devices. Memory the fake does not know is the host's.
bool Machine::may_touch(int device, bool peer, const void *address, size_t bytes)
{
	const Segment *first = find(address);

	if (first == nullptr) {
		auto r = reservations.upper_bound(reinterpret_cast<uintptr_t>(address));
		if (r == reservations.begin())
			return true;
		--r;
		return reinterpret_cast<uintptr_t>(address) - r->first >= r->second.bytes;
	}
	if (!first->on_device())
		return true;
	std::vector<const Segment *> all = cover(address, bytes);
	for (const Segment *s : all)
		if (s->access == 0 || (s->kind == Segment::mapping && !peer && (s->access & bit(device)) == 0))
			return false;
	return !all.empty();
}

static size_t extent(size_t pitch, size_t slice, const Copy &c)
{
	return (c.depth - 1) * slice + (c.height - 1) * pitch + c.width;
}

int Machine::copy(int device, bool peer, const Copy &c)
{
	const size_t to = extent(c.to_pitch, c.to_slice, c), from = extent(c.from_pitch, c.from_slice, c);

	if (!may_touch(device, peer, c.to, to) || !may_touch(device, peer, c.from, from))
		return cudaErrorIllegalAddress;
	std::vector<const Segment *> touched = cover(c.to, to);
	for (const Segment *s : cover(c.from, from))
		touched.push_back(s);
	for (const Segment *s : touched)
		if (s->on_device())
			protect(*s, true);
	for (size_t z = 0; z < c.depth; z++)
		for (size_t y = 0; y < c.height; y++)
			memmove(c.to + z * c.to_slice + y * c.to_pitch, c.from + z * c.from_slice + y * c.from_pitch,
			        c.width);
	for (const Segment *s : touched)
		if (s->on_device())
			protect(*s, false);
	return 0;
}

int Machine::fill(int device, const Copy &c, unsigned value, unsigned width)
{
	std::vector<char> row(c.width);

	for (size_t i = 0; i < row.size(); i++)
		row[i] = reinterpret_cast<const char *>(&value)[i % width];
	Copy from = c;
	from.from = row.data();
	from.from_pitch = from.from_slice = 0;
	return copy(device, false, from);
}

void Machine::add_variable(const void *host, size_t bytes) { variables[host] = bytes; }

int Machine::variable(const void *host, int device, void **out, size_t *bytes)
{
	auto v = variables.find(host);

	if (v == variables.end())
		return 13; // cudaErrorInvalidSymbol
	*bytes = v->second;
	void *&instance = instances[{host, device}];
	if (instance == nullptr) { // starts as the program's initializer, which nvcc keeps in the module
		int error = allocate(Segment::variable, device, v->second, &instance);
		if (error != 0)
			return error;
		copy(device, false, {static_cast<char *>(instance), 0, 0, static_cast<const char *>(host), 0, 0,
		                     v->second, 1, 1});
	}
	*out = instance;
	return 0;
}

Pool *Machine::default_pool(int device)
{
	defaults[device].device = device;
	pools.insert(&defaults[device]);
	return &defaults[device];
}

Pool *Machine::current_pool(int device) { return chosen[device] != nullptr ? chosen[device] : default_pool(device); }

void Machine::choose_pool(int device, Pool *pool) { chosen[device] = pool; }

Pool *Machine::make_pool(int device)
{
	Pool *const made = *pools.insert(new Pool).first;
	made->device = device;
	return made;
}

int Machine::end_pool(Pool *pool)
{
	if (pool == &defaults[pool->device])
		return cudaErrorInvalidValue;
	for (Pool *&c : chosen) // "the default mempool for the device" takes its place
		c = c == pool ? nullptr : c;
	trim(pool, 0);
	pools.erase(pool);
	delete pool;
	return 0;
}

int Machine::pool(const void *handle, Pool **out)
{
	*out = static_cast<Pool *>(const_cast<void *>(handle));
	return pools.count(*out) != 0 ? 0 : violation("use of a handle that is not a pool: " + text(handle));
}

int Machine::draw(Pool *pool, size_t bytes, void **out)
{
	Device &d = devices[static_cast<size_t>(pool->device)];
	const uint64_t cost = round_up(bytes, 512), had = pool->reserved - pool->used;

	give(d, had);
	const int error = allocate(Segment::device_memory, pool->device, bytes, out);
	if (error != 0 || bytes == 0) {
		take(d, had);
		return error;
	}
	drawn[reinterpret_cast<uintptr_t>(*out)] = pool;
	pool->used += cost;
	pool->reserved = std::max<uint64_t>(pool->reserved, round_up(pool->used, granule));
	take(d, pool->reserved - pool->used);
	return 0;
}

void Machine::trim(Pool *pool, uint64_t keep)
{
	const uint64_t now = std::max<uint64_t>(round_up(pool->used, granule), std::min(pool->reserved, keep));

	give(devices[static_cast<size_t>(pool->device)], pool->reserved - now);
	pool->reserved = now;
}

void Machine::waited(int device)
{
	for (Pool *p : pools)
		if (p->device == device)
			trim(p, p->threshold);
}

int Machine::attribute(Pool *pool, int which, void *value, bool set)
{
	enum { threshold = 4, reserved = 5, used = 7 }; // CUmemPool_attribute
	uint64_t *const bytes = static_cast<uint64_t *>(value);

	if (set && which == threshold)
		pool->threshold = *bytes;
	else if (!set)
		*bytes = which == threshold ? pool->threshold : which == reserved ? pool->reserved : which == used ? pool->used : 0;
	return 0;
}

void Machine::note_mapped()
{
	std::ifstream maps("/proc/self/maps");
	std::string line;
	uintptr_t first, beyond;

	while (std::getline(maps, line))
		if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &first, &beyond) == 2)
			mapped_before[beyond] = first;
}

// gives: the driver gives the address that the caller names. It does so for whole blocks of 32 MiB, in a process without a context, where
// nothing was mapped when the driver was initialized (seen on an H200 with driver 580).
bool Machine::gives(uintptr_t hint, size_t bytes)
{
	const auto next = mapped_before.upper_bound(hint);

	if (hint == 0 || hint % (32 << 20) != 0 || contexts > 0 || (next != mapped_before.end() && next->second < hint + bytes))
		return false;
	void *const found = mmap(at(hint), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (found != MAP_FAILED && found != at(hint))
		munmap(found, bytes);
	return found == at(hint);
}

int Machine::reserve(size_t bytes, uintptr_t hint, uintptr_t *out)
{
	if (bytes == 0 || bytes % granule != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (gives(hint, bytes)) {
		reservations[hint] = {bytes, hint, bytes};
		*out = hint;
		return 0;
	}
	const size_t length = bytes + 3 * granule;
	void *wide = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (wide == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	const uintptr_t start = reinterpret_cast<uintptr_t>(wide), base = round_up(start + granule, granule);
	reservations[base] = {bytes, start, length};
	*out = base;
	return 0;
}

int Machine::unreserve(uintptr_t base, size_t bytes)
{
	auto r = reservations.find(base);

	if (r == reservations.end() || r->second.bytes != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	auto s = segments.lower_bound(base);
	if (s != segments.end() && s->first < base + bytes) {
		violation("cuMemAddressFree of a range with memory mapped in it");
		return CUDA_ERROR_INVALID_VALUE;
	}
	munmap(at(r->second.start), r->second.length);
	reservations.erase(r);
	return 0;
}

// Files of memory say in their names where the memory is, for those who import them: by the device's number on the node, because
// another process may count devices otherwise.
static const char file_name[] = "fake CUDA memory of ";

int Machine::create(int device, size_t bytes, bool exportable, unsigned long long *out)
{
	if (device != the_host && (device < 0 || static_cast<size_t>(device) >= devices.size()))
		return cudaErrorInvalidDevice;
	Device *d = device == the_host ? nullptr : &devices[static_cast<size_t>(device)];

	if (bytes == 0 || bytes % granule != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (d != nullptr && bytes > d->total - d->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	int file = memfd_create((file_name + std::to_string(d == nullptr ? the_host : d->physical)).c_str(), MFD_CLOEXEC);
	if (file < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (ftruncate(file, static_cast<off_t>(bytes)) != 0 || pwrite(file, pattern().data(), pattern().size(), 0) < 0) {
		close(file);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (d != nullptr)
		take(*d, bytes);
	*out = next_handle++;
	handles[*out] = {OwnFile(file), device, bytes, 1, exportable};
	return 0;
}

int Machine::to_file(unsigned long long handle, int *out)
{
	auto h = handles.find(handle);

	if (h == handles.end() || !h->second.exportable)
		return CUDA_ERROR_INVALID_VALUE;
	*out = fcntl(h->second.file.number(), F_DUPFD_CLOEXEC, 0);
	return *out < 0 ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}

// Memory that another process has made is charged there.
int Machine::from_file(int file, unsigned long long *out)
{
	char name[200] = "";
	struct stat about;
	int device;
	const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), name, sizeof name - 1);
	const char *const said = length < 0 ? nullptr : strstr(name, file_name);

	if (said == nullptr || sscanf(said + sizeof file_name - 1, "%d", &device) != 1 || fstat(file, &about) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (device != the_host) {
		const auto seen = std::find_if(devices.begin(), devices.end(), [=](const Device &d) { return d.physical == device; });
		if (seen == devices.end())
			return cudaErrorInvalidDevice;
		device = static_cast<int>(seen - devices.begin());
	}
	const int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = next_handle++;
	handles[*out] = {OwnFile(own), device, static_cast<size_t>(about.st_size), 1, false};
	handles[*out].imported = true;
	return 0;
}

void Machine::let_go(unsigned long long handle)
{
	Handle &h = handles.at(handle);

	if (--h.references > 0)
		return;
	h.file.close();
	if (h.device != the_host && !h.imported)
		give(devices[static_cast<size_t>(h.device)], h.bytes);
	handles.erase(handle);
}

int Machine::drop_handle(unsigned long long handle)
{
	auto h = handles.find(handle);
	unsigned mapped = 0;

	for (auto &[base, s] : segments)
		mapped += s.kind == Segment::mapping && s.handle == handle;
	if (h == handles.end() || h->second.references == mapped) {
		violation("cuMemRelease of a handle that is not held");
		return CUDA_ERROR_INVALID_VALUE;
	}
	let_go(handle);
	return 0;
}

int Machine::location(unsigned long long handle, int *device)
{
	const auto h = handles.find(handle);

	if (h == handles.end())
		return CUDA_ERROR_INVALID_VALUE;
	*device = h->second.device;
	return 0;
}

int Machine::hold_handle(const void *address, unsigned long long *out)
{
	const Segment *s = find(address);

	if (s == nullptr || s->kind != Segment::mapping)
		return CUDA_ERROR_INVALID_VALUE;
	handles.at(s->handle).references++;
	*out = s->handle;
	return 0;
}

int Machine::map(uintptr_t base, size_t bytes, size_t offset, unsigned long long handle)
{
	auto h = handles.find(handle);
	auto r = reservations.upper_bound(base);

	if (h == handles.end() || bytes == 0 || bytes % granule != 0 || base % granule != 0 || r == reservations.begin())
		return CUDA_ERROR_INVALID_VALUE;
	if (offset != 0 || bytes != h->second.bytes) // as driver 580 answers
		return CUDA_ERROR_NOT_SUPPORTED;
	--r;
	auto next = segments.lower_bound(base);
	if (base + bytes > r->first + r->second.bytes || find(at(base)) != nullptr ||
	    (next != segments.end() && next->first < base + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (mmap(at(base), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, h->second.file.number(), 0) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->second.references++;
	segments[base] = {Segment::mapping, base, bytes, h->second.device, 0, handle};
	return 0;
}

// exactly returns the mappings that make up the range, or nothing.
static std::vector<const Segment *> exactly(Machine &m, uintptr_t base, size_t bytes)
{
	std::vector<const Segment *> all = m.cover(at(base), bytes);

	if (all.empty() || all.front()->base != base || all.back()->base + all.back()->bytes != base + bytes)
		return {};
	for (const Segment *s : all)
		if (s->kind != Segment::mapping)
			return {};
	return all;
}

int Machine::unmap(uintptr_t base, size_t bytes)
{
	std::vector<const Segment *> all = exactly(*this, base, bytes);

	if (all.empty())
		return CUDA_ERROR_INVALID_VALUE;
	for (const Segment *s : all)
		erase(*s);
	return 0;
}

int Machine::set_access(uintptr_t base, size_t bytes, int device, int flags)
{
	std::vector<const Segment *> all = exactly(*this, base, bytes);

	if (all.empty() || (device != the_host && (device < 0 || static_cast<size_t>(device) >= devices.size())))
		return CUDA_ERROR_INVALID_VALUE;
	static const bool peers = getenv("FAKE_CUDA_PEERS") == nullptr || strcmp(getenv("FAKE_CUDA_PEERS"), "0") != 0;
	for (const Segment *s : all)
		if (!peers && device != the_host && s->device != the_host && s->device != device)
			return 217; // CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
	for (const Segment *s : all) {
		uint64_t &access = segments[s->base].access;
		access = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? access | bit(device) : access & ~bit(device);
		if (device == the_host)
			protect(*s, false);
	}
	return 0;
}

} // namespace fake
