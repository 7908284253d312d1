// main.cc: programs that allocate through the driver alone, as programs with a static CUDA runtime do. They find the
// driver's functions as such a runtime does. The argument names the program.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "../../../fake/fake_cuda.h"

static const size_t mib = 1 << 20;

static void *driver()
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	return library != nullptr ? library : (fprintf(stderr, "%s\n", dlerror()), exit(3), nullptr);
}

static void *found(const char *name)
{
	static auto *const get = reinterpret_cast<CUresult (*)(const char *, void **, int, uint64_t, int *)>(
		dlsym(driver(), "cuGetProcAddress_v2"));
	void *function = nullptr;
	int status = 0;
	return get(name, &function, 13000, 0, &status) == CUDA_SUCCESS ? function : (fprintf(stderr, "no %s\n", name), exit(3), nullptr);
}

template <class... A> static CUresult call(const char *name, A... with)
{
	return reinterpret_cast<CUresult (*)(A...)>(found(name))(with...);
}

static void tried(const char *what, int error)
{
	if (error != 0)
		printf("%s: error %d\n", what, error);
}
#define TRY(x) tried(#x, x)

static CUcontext begin()
{
	CUcontext context = nullptr;
	TRY(call("cuInit", 0u));
	TRY(call("cuDevicePrimaryCtxRetain", &context, 0));
	TRY(call("cuCtxSetCurrent", context));
	return context;
}

// say is how much the device has in use beside the context.
static void say(const char *when)
{
	static uint64_t context;
	fake_cuda_state s = {};
	reinterpret_cast<void (*)(fake_cuda_state *)>(dlsym(driver(), "fake_cuda_read"))(&s);
	if (context == 0)
		context = s.used[s.order[0]];
	printf("%s %zu MiB violations %u\n", when, static_cast<size_t>(s.used[s.order[0]] - context) / mib, s.violations);
}

static CUdeviceptr allocated(size_t bytes)
{
	CUdeviceptr memory = 0;
	TRY(call("cuMemAlloc", &memory, bytes));
	return memory;
}

static void freed(CUdeviceptr memory) { TRY(call("cuMemFree", memory)); }

static CUmemAllocationProp on_device()
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	return prop;
}

static CUmemGenericAllocationHandle created(size_t bytes)
{
	const CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle handle = 0;
	TRY(call("cuMemCreate", &handle, bytes, &prop, 0ull));
	return handle;
}

static CUdeviceptr reserved(size_t bytes)
{
	CUdeviceptr at = 0;
	TRY(call("cuMemAddressReserve", &at, bytes, size_t{0}, CUdeviceptr{0}, 0ull));
	return at;
}

static void mapped(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	TRY(call("cuMemMap", at, bytes, size_t{0}, handle, 0ull));
	TRY(call("cuMemSetAccess", at, bytes, &access, size_t{1}));
}

static void unmapped(CUdeviceptr at, size_t bytes) { TRY(call("cuMemUnmap", at, bytes)); }
static void released(CUmemGenericAllocationHandle handle) { TRY(call("cuMemRelease", handle)); }

// ---- the programs

// linear: what was freed serves what is allocated next.
static void linear()
{
	begin();
	say("context");
	const CUdeviceptr x = allocated(20 * mib), y = allocated(40 * mib);
	say("two");
	freed(x);
	say("one");
	const CUdeviceptr z = allocated(20 * mib);
	freed(y);
	freed(z);
	say("none");
}

// kinds: memory of other kinds.
static void kinds()
{
	begin();
	say("context");
	struct {
		size_t width, height;
		int format;
		unsigned channels;
	} const description = {1 << 20, 4, 0x20, 2}; // 32 MiB
	void *array = nullptr;
	size_t pitch = 0;
	CUdeviceptr rows = 0, managed = 0;
	TRY(call("cuArrayCreate", &array, static_cast<const void *>(&description)));
	TRY(call("cuMemAllocPitch", &rows, &pitch, size_t{1000}, size_t{16} << 10, 4u)); // 16 MiB
	TRY(call("cuMemAllocManaged", &managed, 8 * mib, 1u));
	say("three");
	TRY(call("cuArrayDestroy", array));
	freed(rows);
	freed(managed);
	freed(allocated(56 * mib));
	say("none");
}

// handles: memory lasts until its last handle is released and its last mapping is gone.
static void handles()
{
	begin();
	say("context");
	const CUdeviceptr at = reserved(64 * mib);
	CUmemGenericAllocationHandle first = created(20 * mib), again = 0;
	mapped(at, 20 * mib, first);
	released(first);
	say("mapped");
	TRY(call("cuMemsetD32", at, 7u, 5 * mib));
	TRY(call("cuCtxSynchronize"));
	TRY(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void *>(at + 3 * mib)));
	unmapped(at, 20 * mib);
	say("retained");
	mapped(at + 20 * mib, 20 * mib, again);
	freed(allocated(10 * mib)); // beside it
	released(again);
	unmapped(at + 20 * mib, 20 * mib);
	freed(allocated(30 * mib)); // in its place
	say("none");
}

// shared: what is exported stays the process's, and what is imported is another's.
static void shared()
{
	begin();
	say("context");
	CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle own = 0, other = 0;
	int file = -1;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	TRY(call("cuMemCreate", &own, 20 * mib, static_cast<const CUmemAllocationProp *>(&prop), 0ull));
	TRY(call("cuMemExportToShareableHandle", static_cast<void *>(&file), own, 1, 0ull));
	TRY(call("cuMemImportFromShareableHandle", &other, reinterpret_cast<void *>(static_cast<intptr_t>(file)), 1));
	close(file);
	released(other);
	released(own);
	freed(allocated(20 * mib));
	say("none");
}

// on_host: memory of the host is not the device's.
static void on_host()
{
	begin();
	say("context");
	CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle handle = 0;
	prop.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
	TRY(call("cuMemCreate", &handle, 20 * mib, static_cast<const CUmemAllocationProp *>(&prop), 0ull));
	released(handle);
	freed(allocated(4 * mib));
	say("none");
}

// expandable: segments as PyTorch's allocator makes them. Memory comes in pieces behind one range of addresses, and
// leaves from its end.
static void expandable()
{
	begin();
	say("context");
	const size_t small = 2 * mib, large = 20 * mib;
	for (int round = 0; round < 3; round++)
		for (const size_t piece : {small, large}) {
			std::vector<CUmemGenericAllocationHandle> pieces;
			const CUdeviceptr at = reserved(80 * mib);
			for (int i = 0; i < 4; i++) {
				pieces.push_back(created(piece));
				mapped(at + i * piece, piece, pieces.back());
			}
			TRY(call("cuMemsetD32", at + piece / 2, 7u, 3 * piece / 4));
			TRY(call("cuCtxSynchronize"));
			for (int i = 3; i >= 0; i--) {
				unmapped(at + i * piece, piece);
				released(pieces[i]);
			}
			TRY(call("cuMemAddressFree", at, 80 * mib));
		}
	say("none");
}

static CUdeviceptr ordered(size_t bytes, cudaMemPool_t pool = nullptr)
{
	CUdeviceptr at = 0;
	const cudaStream_t stream = nullptr;
	TRY(pool == nullptr ? call("cuMemAllocAsync", &at, bytes, stream) : call("cuMemAllocFromPoolAsync", &at, bytes, pool, stream));
	return at;
}

// contexts: memory goes with the context that it is in. What has a handle stays.
static void contexts()
{
	CUcontext own = nullptr;
	const CUcontext primary = begin();
	say("context");
	TRY(call("cuCtxCreate", &own, static_cast<void *>(nullptr), 0u, 0));
	allocated(40 * mib);
	const CUmemGenericAllocationHandle handle = created(20 * mib);
	TRY(call("cuCtxDestroy", own));
	TRY(call("cuCtxSetCurrent", primary));
	freed(allocated(40 * mib));
	allocated(40 * mib);
	ordered(20 * mib);
	TRY(call("cuDevicePrimaryCtxReset", 0));
	begin();
	TRY(call("cuCtxSynchronize"));
	freed(allocated(40 * mib));
	released(handle);
	freed(allocated(60 * mib));
	puts("end");
}

// in_turn: what is refused is the allocation's error, and the program goes on.
static void in_turn()
{
	begin();
	const CUmemAllocationProp prop = on_device();
	CUdeviceptr memory = 0;
	CUmemGenericAllocationHandle handle = 0;
	for (int i = 0; i < 2; i++) {
		printf("allocate %d\n", call("cuMemAlloc", &memory, 20 * mib));
		printf("create %d\n", call("cuMemCreate", &handle, 40 * mib, &prop, 0ull));
	}
}

// holds: it has memory until it reads a line from a pipe.
static void holds(const char *pipe)
{
	char line[100];
	begin();
	const CUmemGenericAllocationHandle handle = created(24 * mib);
	FILE *const file = fopen(pipe, "r");
	if (file == nullptr || fgets(line, sizeof line, file) == nullptr)
		exit(3);
	fclose(file);
	released(handle);
}

// takes: it needs memory that holds has.
static void takes()
{
	begin();
	freed(allocated(20 * mib));
}

static uint64_t of_pool(cudaMemPool_t pool, int attribute)
{
	uint64_t bytes = 0;
	TRY(call("cuMemPoolGetAttribute", pool, attribute, static_cast<void *>(&bytes)));
	return bytes;
}

static cudaMemPool_t devices_pool()
{
	cudaMemPool_t pool = nullptr;
	TRY(call("cuDeviceGetMemPool", &pool, 0));
	return pool;
}

static void keep(cudaMemPool_t pool, uint64_t bytes) { TRY(call("cuMemPoolSetAttribute", pool, 4, static_cast<void *>(&bytes))); }

static void free_ordered(CUdeviceptr at) { TRY(call("cuMemFreeAsync", at, cudaStream_t{})); }

// pools: what a pool keeps is not free for others, and serves what it is asked for next.
static void pools()
{
	begin();
	say("context");
	const CUdeviceptr x = ordered(19 * mib + 1); // in whole granules
	free_ordered(x);
	freed(allocated(4 * mib)); // beside what the pool has until the program waits
	TRY(call("cuCtxSynchronize"));
	freed(allocated(24 * mib)); // in its place
	keep(devices_pool(), 100 * mib);
	free_ordered(ordered(20 * mib));
	TRY(call("cuCtxSynchronize"));
	freed(allocated(10 * mib)); // beside it
	free_ordered(ordered(18 * mib));
	TRY(call("cuCtxSynchronize"));
	TRY(call("cuMemPoolTrimTo", devices_pool(), size_t{0}));
	freed(allocated(30 * mib));
	cudaMemPoolProps props = {};
	cudaMemPool_t own = nullptr;
	props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	TRY(call("cuMemPoolCreate", &own, static_cast<const cudaMemPoolProps *>(&props)));
	free_ordered(ordered(30 * mib, own));
	TRY(call("cuCtxSynchronize"));
	TRY(call("cuMemPoolDestroy", own));
	freed(allocated(30 * mib));
	say("none");
}

// lasting_pool: a pool that the driver does not destroy has what it had.
static void lasting_pool()
{
	begin();
	const CUdeviceptr x = ordered(20 * mib);
	printf("destroyed: %d\n", call("cuMemPoolDestroy", devices_pool()));
	freed(allocated(20 * mib)); // beside it
	free_ordered(x);
	TRY(call("cuCtxSynchronize"));
	freed(allocated(40 * mib)); // in its place
}

// seems: what is said of a device's memory.
static void seems()
{
	size_t free = 0, total = 0, bytes = 0;
	CUdeviceptr memory = 0;
	begin();
	TRY(call("cuDeviceTotalMem", &total, 0));
	printf("total %zu MiB\n", total / mib);
	allocated(64 * mib);
	TRY(call("cuMemGetInfo", &free, &total));
	printf("free %zu of %zu MiB\n", free / mib, total / mib);
	TRY(call("cuMemAlloc", &memory, free - 2 * mib));
	TRY(call("cuMemGetInfo", &bytes, &total));
	printf("then %zu of %zu MiB\n", bytes / mib, total / mib);
}

// ---- random sequences of calls, after each of which what is charged is compared with what there is. What is charged is
// what cuMemGetInfo says is not free.

namespace {

class Sequence {
public:
	explicit Sequence(unsigned seed) : random_(seed) {}
	bool run(int steps)
	{
		for (int i = 0; i < steps; i++)
			if (step(below(13)); !right())
				return false;
		while (!mappings_.empty())
			unmap();
		while (!handles_.empty())
			release();
		while (!allocations_.empty())
			deallocate();
		while (!ordered_.empty())
			free_ordered(take(ordered_));
		keep(devices_pool(), 0);
		TRY(call("cuCtxSynchronize"));
		return right() && charged() == 0;
	}
	static uint64_t nothing; // free, where nothing is allocated

private:
	struct Memory {
		uint64_t bytes;
		int references;
	};
	struct Mapping {
		CUdeviceptr at;
		size_t range;
		int memory;
	};
	struct Allocation {
		CUdeviceptr at;
		uint64_t bytes;
		bool array;
	};
	std::mt19937 random_;
	std::vector<Memory> memories_;
	std::vector<std::pair<CUmemGenericAllocationHandle, int>> handles_; // one for each time that it is held
	std::vector<Mapping> mappings_;
	std::vector<Allocation> allocations_;
	std::vector<CUdeviceptr> ordered_;

	unsigned below(size_t n) { return static_cast<unsigned>(random_() % n); }
	template <class T> T take(std::vector<T> &from)
	{
		std::swap(from[below(from.size())], from.back());
		const T taken = from.back();
		from.pop_back();
		return taken;
	}

	static uint64_t granules(uint64_t bytes) { return (bytes + 2 * mib - 1) / (2 * mib) * (2 * mib); }

	// charged is what the program has, in whole granules where allocations share them.
	uint64_t charged() const
	{
		uint64_t large = 0, small = 0;
		for (const Allocation &a : allocations_)
			(a.bytes < mib ? small : large) += a.bytes;
		for (const Memory &m : memories_)
			large += m.references > 0 ? m.bytes : 0;
		return large + granules(small) + granules(of_pool(devices_pool(), 5));
	}
	bool right() const
	{
		size_t free = 0, total = 0;
		TRY(call("cuMemGetInfo", &free, &total));
		if (free + charged() == nothing)
			return true;
		printf("%zu bytes are charged, %zu allocated\n", static_cast<size_t>(nothing - free), static_cast<size_t>(charged()));
		return false;
	}

	void step(unsigned what)
	{
		if (what < 2)
			allocate();
		else if (what == 2 && !allocations_.empty())
			deallocate();
		else if (what == 3)
			create();
		else if (what == 4 && !handles_.empty())
			map();
		else if (what == 5 && !mappings_.empty())
			unmap();
		else if (what == 6 && !handles_.empty())
			release();
		else if (what == 7 && !mappings_.empty())
			retain();
		else if (what == 8)
			end_context();
		else if (what == 9)
			fail();
		else if (what == 10)
			ordered_.push_back(::ordered(1 + below(20 * mib)));
		else if (what == 11 && !ordered_.empty())
			free_ordered(take(ordered_));
		else if (what == 12)
			wait();
	}
	void allocate()
	{
		struct {
			size_t width, height;
			int format;
			unsigned channels;
		} const description = {(1 + below(4)) << 18, 0, 0x20, 1}; // whole MiB
		const bool array = below(4) == 0;
		const size_t bytes = array ? 4 * description.width : below(3) == 0 ? 1 + below(mib - 1) : mib * (1 + below(30));
		CUdeviceptr at = 0;
		if (array) {
			void *made = nullptr;
			TRY(call("cuArrayCreate", &made, static_cast<const void *>(&description)));
			at = reinterpret_cast<CUdeviceptr>(made);
		} else {
			TRY(call("cuMemAlloc", &at, bytes));
		}
		allocations_.push_back({at, bytes, array});
	}
	void deallocate()
	{
		const Allocation a = take(allocations_);
		TRY(a.array ? call("cuArrayDestroy", reinterpret_cast<void *>(a.at)) : call("cuMemFree", a.at));
	}
	void create()
	{
		memories_.push_back({2 * mib * (1 + below(10)), 1});
		handles_.push_back({created(memories_.back().bytes), static_cast<int>(memories_.size()) - 1});
	}
	void map()
	{
		const auto h = handles_[below(handles_.size())];
		const size_t bytes = memories_[static_cast<size_t>(h.second)].bytes;
		const CUdeviceptr at = reserved(2 * bytes);
		mapped(at, bytes, h.first);
		memories_[static_cast<size_t>(h.second)].references++;
		mappings_.push_back({at, 2 * bytes, h.second});
	}
	void unmap()
	{
		const Mapping m = take(mappings_);
		unmapped(m.at, m.range / 2);
		TRY(call("cuMemAddressFree", m.at, m.range));
		memories_[static_cast<size_t>(m.memory)].references--;
	}
	void release()
	{
		const auto h = take(handles_);
		released(h.first);
		memories_[static_cast<size_t>(h.second)].references--;
	}
	void retain()
	{
		const Mapping m = mappings_[below(mappings_.size())];
		CUmemGenericAllocationHandle again = 0;
		TRY(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void *>(m.at + below(m.range / 2))));
		handles_.push_back({again, m.memory});
		memories_[static_cast<size_t>(m.memory)].references++;
	}
	// What is allocated in a context goes with it.
	void end_context()
	{
		CUcontext primary = nullptr, own = nullptr;
		TRY(call("cuCtxGetCurrent", &primary));
		TRY(call("cuCtxCreate", &own, static_cast<void *>(nullptr), 0u, 0));
		::allocated(mib * (1 + below(20)));
		freed(::allocated(1000));
		::allocated(1000);
		TRY(call("cuCtxDestroy", own));
		TRY(call("cuCtxSetCurrent", primary));
	}
	// The pool lets go what it need not keep.
	void wait()
	{
		keep(devices_pool(), below(2) * 40 * mib);
		if (below(2) == 0)
			TRY(call("cuMemPoolTrimTo", devices_pool(), below(20) * mib));
		else
			TRY(call("cuCtxSynchronize"));
	}
	// What the driver refuses is not charged.
	void fail()
	{
		const CUmemAllocationProp prop = on_device();
		CUmemGenericAllocationHandle handle = 0;
		TRY(call("cuMemCreate", &handle, 4 * mib + 1, &prop, 0ull) != CUDA_ERROR_INVALID_VALUE);
		TRY(call("cuMemRelease", handle) == CUDA_SUCCESS);
		TRY(call("cuMemFree", CUdeviceptr{64}) == CUDA_SUCCESS);
	}
};

uint64_t Sequence::nothing;

} // namespace

static void random_sequences()
{
	size_t total = 0;
	begin();
	say("context");
	TRY(call("cuMemGetInfo", &Sequence::nothing, &total));
	for (unsigned seed = 0; seed < 1000; seed++)
		if (!Sequence(seed).run(12))
			printf("sequence %u\n", seed);
	say("none");
}

int main(int count, char **arguments)
{
	const struct {
		const char *name;
		void (*run)();
	} programs[] = {{"linear", linear}, {"kinds", kinds}, {"handles", handles}, {"shared", shared}, {"on_host", on_host},
	                {"expandable", expandable}, {"contexts", contexts}, {"in_turn", in_turn}, {"takes", takes}, {"seems", seems}, {"pools", pools}, {"lasting_pool", lasting_pool}, {"random", random_sequences}};

	setvbuf(stdout, nullptr, _IOLBF, 0);
	if (count == 3 && strcmp(arguments[1], "holds") == 0)
		return holds(arguments[2]), 0;
	for (const auto &p : programs)
		if (count == 2 && strcmp(arguments[1], p.name) == 0)
			return p.run(), 0;
	return 2;
}
