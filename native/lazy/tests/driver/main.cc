// main.cc: programs that allocate through the driver alone, as programs with a static CUDA runtime do. They find the
// driver's functions as such a runtime does. The argument names the program.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	TRY(call("cuDevicePrimaryCtxReset", 0));
	begin();
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

int main(int count, char **arguments)
{
	const struct {
		const char *name;
		void (*run)();
	} programs[] = {{"linear", linear}, {"kinds", kinds}, {"handles", handles}, {"shared", shared}, {"on_host", on_host},
	                {"expandable", expandable}, {"contexts", contexts}, {"in_turn", in_turn}};

	setvbuf(stdout, nullptr, _IOLBF, 0);
	for (const auto &p : programs)
		if (count == 2 && strcmp(arguments[1], p.name) == 0)
			return p.run(), 0;
	return 2;
}
