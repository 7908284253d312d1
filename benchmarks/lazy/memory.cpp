/* Memory that a part allocates through the driver alone, of each kind: which its argument names, or all kinds in turn.
 * `memory KIND SECONDS` holds the memory for so long. */
#include <string.h>
#include <unistd.h>

#include "driver.h"

static const size_t mib = 1 << 20;
static unsigned seconds;

/* use writes memory of the device, and adds some of it to the sum. */
static void use(CUdeviceptr x, size_t bytes, digest *sum)
{
	std::vector<uint32_t> back(1000);

	DRIVER(cuMemsetD32(x, static_cast<unsigned>(bytes / mib), bytes / 4));
	DRIVER(cuMemcpyDtoH(back.data(), x + bytes - 4000, 4000));
	sum->add(back);
	sleep(seconds);
}

static CUmemAllocationProp on_device()
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 0;
	return prop;
}

static CUmemGenericAllocationHandle created(size_t bytes)
{
	const CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle handle;
	DRIVER(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static void mapped(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {};
	access.location = on_device().location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DRIVER(cuMemMap(at, bytes, 0, handle, 0));
	DRIVER(cuMemSetAccess(at, bytes, &access, 1));
}

static void linear(digest *sum)
{
	CUdeviceptr x;
	DRIVER(cuMemAlloc(&x, 512 * mib));
	use(x, 512 * mib, sum);
	DRIVER(cuMemFree(x));
}

static void pitched(digest *sum)
{
	CUdeviceptr x;
	size_t pitch;
	DRIVER(cuMemAllocPitch(&x, &pitch, 10000, 32 << 10, 4));
	use(x, pitch * (32 << 10) / 4 * 4, sum);
	DRIVER(cuMemFree(x));
}

static void array(digest *sum)
{
	CUDA_ARRAY_DESCRIPTOR d = {8192, 8192, CU_AD_FORMAT_FLOAT, 1};
	CUarray a;
	const std::vector<uint32_t> host = numbers(8192, 7);
	std::vector<uint32_t> back(8192);
	CUDA_MEMCPY2D in = {}, out = {};
	in.srcMemoryType = out.dstMemoryType = CU_MEMORYTYPE_HOST;
	in.dstMemoryType = out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	in.WidthInBytes = out.WidthInBytes = 4 * 8192;
	in.Height = out.Height = 1;
	in.srcHost = host.data();
	out.dstHost = back.data();
	DRIVER(cuArrayCreate(&a, &d));
	in.dstArray = out.srcArray = a;
	DRIVER(cuMemcpy2D(&in));
	DRIVER(cuMemcpy2D(&out));
	sum->add(back);
	sleep(seconds);
	DRIVER(cuArrayDestroy(a));
}

static void from_pool(CUmemoryPool pool, digest *sum)
{
	CUdeviceptr x[4];
	for (CUdeviceptr &at : x) {
		if (pool == nullptr)
			DRIVER(cuMemAllocAsync(&at, 128 * mib, nullptr));
		else
			DRIVER(cuMemAllocFromPoolAsync(&at, 128 * mib, pool, nullptr));
	}
	use(x[3], 128 * mib, sum);
	for (CUdeviceptr at : x)
		DRIVER(cuMemFreeAsync(at, nullptr));
	DRIVER(cuCtxSynchronize());
}

static void ordered(digest *sum) { from_pool(nullptr, sum); }

/* kept: what is freed stays the pool's. */
static void kept(digest *sum)
{
	CUmemoryPool pool;
	cuuint64_t keep = UINT64_MAX;
	DRIVER(cuDeviceGetDefaultMemPool(&pool, 0));
	DRIVER(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	from_pool(nullptr, sum);
	sleep(seconds);
	keep = 0;
	DRIVER(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	DRIVER(cuMemPoolTrimTo(pool, 0));
}

static void own_pool(digest *sum)
{
	CUmemoryPool pool;
	CUmemPoolProps props = {};
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location = on_device().location;
	DRIVER(cuMemPoolCreate(&pool, &props));
	from_pool(pool, sum);
	DRIVER(cuMemPoolDestroy(pool));
}

/* handles: memory lasts until its last handle is released and its last mapping is gone. */
static void handles(digest *sum)
{
	const size_t bytes = 256 * mib;
	CUdeviceptr at;
	CUmemGenericAllocationHandle again;
	DRIVER(cuMemAddressReserve(&at, 2 * bytes, 0, 0, 0));
	const CUmemGenericAllocationHandle first = created(bytes);
	mapped(at, bytes, first);
	DRIVER(cuMemRelease(first));
	DRIVER(cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(at + mib)));
	DRIVER(cuMemUnmap(at, bytes));
	mapped(at + bytes, bytes, again);
	use(at + bytes, bytes, sum);
	DRIVER(cuMemUnmap(at + bytes, bytes));
	DRIVER(cuMemRelease(again));
	DRIVER(cuMemAddressFree(at, 2 * bytes));
}

/* shared: a handle that other processes can have. */
static void shared(digest *sum)
{
	const size_t bytes = 256 * mib;
	CUmemAllocationProp prop = on_device();
	CUmemGenericAllocationHandle handle, imported;
	CUdeviceptr at;
	int file;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	DRIVER(cuMemCreate(&handle, bytes, &prop, 0));
	DRIVER(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRIVER(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(file)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	DRIVER(cuMemAddressReserve(&at, bytes, 0, 0, 0));
	mapped(at, bytes, imported);
	use(at, bytes, sum);
	DRIVER(cuMemUnmap(at, bytes));
	DRIVER(cuMemRelease(imported));
	DRIVER(cuMemRelease(handle));
	DRIVER(cuMemAddressFree(at, bytes));
}

/* expandable: segments as PyTorch's allocator makes them with expandable_segments:True. */
static void expandable(digest *sum)
{
	for (const size_t piece : {2 * mib, 20 * mib}) {
		std::vector<CUmemGenericAllocationHandle> pieces;
		CUdeviceptr at;
		DRIVER(cuMemAddressReserve(&at, 4096 * mib, 0, 0, 0));
		for (size_t i = 0; i < 25; i++) {
			pieces.push_back(created(piece));
			mapped(at + i * piece, piece, pieces.back());
		}
		use(at + piece, 24 * piece, sum);
		for (size_t i = pieces.size(); i-- > 0;) {
			DRIVER(cuMemUnmap(at + i * piece, piece));
			DRIVER(cuMemRelease(pieces[i]));
		}
		DRIVER(cuMemAddressFree(at, 4096 * mib));
	}
}

/* contexts: what is in a context goes with it. */
static void contexts(digest *sum)
{
	for (int round = 0; round < 4; round++) {
		CUcontext own;
		CUdeviceptr x;
#if CUDA_VERSION >= 13000
		DRIVER(cuCtxCreate(&own, nullptr, 0, 0));
#else
		DRIVER(cuCtxCreate(&own, 0, 0));
#endif
		DRIVER(cuMemAlloc(&x, 256 * mib));
		use(x, 256 * mib, sum);
		DRIVER(cuCtxDestroy(own));
	}
}

/* room: what is said to be free can be allocated. It prints other numbers where a run limits the program. */
static void room(digest *sum)
{
	size_t free, total, device;
	CUdeviceptr x;
	DRIVER(cuDeviceTotalMem(&device, 0));
	DRIVER(cuMemGetInfo(&free, &total));
	printf("device %zu MiB, free %zu of %zu MiB\n", device / mib, free / mib, total / mib);
	expect(free <= total && total <= device, "free <= total");
	DRIVER(cuMemAlloc(&x, free - 4 * mib));
	use(x, 4 * mib, sum);
	DRIVER(cuMemFree(x));
}

extern "C" void part(int count, char **arguments)
{
	const struct {
		const char *name;
		void (*run)(digest *sum);
	} kinds[] = {{"linear", linear}, {"pitched", pitched}, {"array", array}, {"ordered", ordered}, {"kept", kept}, {"own_pool", own_pool},
	             {"handles", handles}, {"shared", shared}, {"expandable", expandable}, {"contexts", contexts}, {"room", room}};
	CUcontext context;
	digest sum;

	seconds = count > 2 ? static_cast<unsigned>(atoi(arguments[2])) : 0;
	DRIVER(cuInit(0));
	DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
	DRIVER(cuCtxSetCurrent(context));
	for (const auto &k : kinds)
		if (count > 1 ? strcmp(arguments[1], k.name) == 0 : k.run != room) {
			k.run(&sum);
			DRIVER(cuCtxSetCurrent(context));
		}
	DRIVER(cuDevicePrimaryCtxRelease(0));
	sum.print();
}
