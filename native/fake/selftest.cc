// selftest.cc: the fakes behave as CUDA does where the lazy runtime relies on it.
// Without an argument it runs each scenario in a process of its own, with the
// environment that the scenario needs.
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cuda_calls.h"

#define CHECK(x)                                                                \
	do {                                                                    \
		if (!(x)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                                \
		}                                                               \
	} while (0)
#define OK(x) CHECK((x) == cudaSuccess)

static const dim3 one = {1, 1, 1};

static void add(int *x, int n, int by)
{
	for (int i = 0; i < n; i++)
		x[i] += by;
}
FAKE_KERNEL(add);

static int table[4] = {1, 2, 3, 4};
FAKE_VARIABLE(table);
static void sum_table(int *out)
{
	int sum = 0;
	for (int i = 0; i < 4; i++)
		sum += kernels::on_device(table)[i];
	*out = sum;
}
FAKE_KERNEL(sum_table);

static void follow(int **list) { *list[0] = 42; }
FAKE_KERNEL(follow);
static void die(int error) { kernels::fail(error); }
FAKE_KERNEL(die, 64, 1024);

template <class T> static T *device(size_t count)
{
	void *p = nullptr;
	OK(cudaMalloc(&p, count * sizeof(T)));
	return static_cast<T *>(p);
}

template <class T> static T fetch(const T *from)
{
	T value;
	OK(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost));
	return value;
}

// touch reads host-side from an address in a child: what a wrong program does.
static bool faults(const volatile void *address)
{
	pid_t child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*static_cast<const volatile char *>(address) == 0 ? 0 : 1);
	}
	int status;
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void contexts()
{
	int n, value;
	char text[2048];
	OK(cudaGetDeviceCount(&n));
	CHECK(n == 2);
	OK(cudaGetDevice(&value));
	OK(cudaGetDeviceProperties(text, 1));
	CHECK(strcmp(text, "Fake GPU 1") == 0);
	OK(cudaDeviceGetAttribute(&value, 16, 0));
	OK(cudaDeviceGetPCIBusId(text, sizeof text, 1));
	OK(cudaDeviceCanAccessPeer(&value, 0, 1));
	OK(cudaGetLastError());
	CHECK(fake_state().contexts == 0);
	OK(cudaSetDevice(1));
	CHECK(fake_state().contexts == (FAKE_NVCC == 13 ? 1 : 0));
	OK(cudaFree(nullptr));
	OK(cudaSetDevice(0));
	OK(cudaFree(nullptr));
	fake_cuda_state s = fake_state();
	CHECK(s.contexts == 2 && s.order[0] == 1 && s.order[1] == 0 && s.used[0] == 8 << 20);
	OK(cudaDeviceReset());
	s = fake_state();
	CHECK(!s.live[0] && s.live[1] && s.used[0] == 0);
	CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
}

static void order()
{
	int n = 5, *pinned, *x = device<int>(n), back[5] = {};
	int pageable[5] = {1, 2, 3, 4, 5};
	cudaStream_t s;
	OK(cudaMallocHost(reinterpret_cast<void **>(&pinned), sizeof back));
	memcpy(pinned, pageable, sizeof back);
	OK(cudaStreamCreate(&s));
	OK(cudaMemcpyAsync(x, pageable, sizeof back, cudaMemcpyHostToDevice, s));
	pageable[0] = 100; // was read at the call
	OK(LAUNCH(add, one, one, 0, s, x, n, 10));
	OK(cudaStreamSynchronize(s));
	CHECK(fetch(x) == 11);
	OK(cudaMemcpyAsync(x, pinned, sizeof back, cudaMemcpyHostToDevice, s));
	pinned[1] = 200; // is read later
	int *result;
	OK(cudaMallocHost(reinterpret_cast<void **>(&result), sizeof back));
	result[0] = -1;
	OK(cudaMemcpyAsync(result, x, sizeof back, cudaMemcpyDeviceToHost, s));
	CHECK(result[0] == -1);
	CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
	OK(cudaStreamSynchronize(s));
	CHECK(result[0] == 1 && result[1] == 200);

	cudaStream_t other;
	cudaEvent_t e;
	float ms;
	OK(cudaStreamCreateWithFlags(&other, 1));
	OK(cudaEventCreate(&e));
	OK(LAUNCH(add, one, one, 0, s, x, n, 1));
	OK(cudaEventRecord(e, s));
	CHECK(cudaEventElapsedTime(&ms, e, e) == cudaErrorNotReady);
	OK(cudaStreamWaitEvent(other, e, 0));
	OK(cudaMemcpyAsync(back, x, sizeof back, cudaMemcpyDeviceToHost, other)); // pageable: waits
	CHECK(back[0] == 2);
	OK(cudaEventElapsedTime(&ms, e, e));
	static int called;
	OK(cudaLaunchHostFunc(s, [](void *p) { ++*static_cast<int *>(p); }, &called));
	CHECK(called == 0);
	OK(cudaDeviceSynchronize());
	CHECK(called == 1);
	// A synchronous copy is over when it returns, unless its source is pageable.
	pinned[0] = 300;
	OK(cudaMemcpy(x, pinned, sizeof back, cudaMemcpyHostToDevice));
	CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
	OK(cudaMemcpy(x, pageable, sizeof back, cudaMemcpyHostToDevice));
	OK(cudaMemcpyAsync(result, x, sizeof back, cudaMemcpyDeviceToHost, other)); // does not wait for it
	OK(cudaStreamSynchronize(other));
	CHECK(result[0] == 300);
	CHECK(fetch(x) == 100);
}

static std::atomic<int> counted;
static void count(void *) { counted++; }

// waiting: what only waits for an event is work of its stream, for all that waits for the stream.
static void waiting()
{
	cudaStream_t s, t, there;
	cudaEvent_t e, behind, far;
	int expected = 0;

	OK(cudaStreamCreateWithFlags(&s, 1));
	OK(cudaStreamCreate(&t));
	OK(cudaEventCreate(&e));
	OK(cudaEventCreate(&behind));
	OK(cudaSetDevice(1));
	OK(cudaStreamCreateWithFlags(&there, 1));
	OK(cudaEventCreate(&far));
	OK(cudaSetDevice(0));
	auto *const by_driver = driver_call<CUresult(cudaStream_t, cudaEvent_t, unsigned)>("cuStreamWaitEvent");
	auto *const driver_waits = driver_call<CUresult(cudaStream_t)>("cuStreamSynchronize");
	auto *const driver_event = driver_call<CUresult(cudaEvent_t)>("cuEventSynchronize");
	auto *const driver_drains = driver_call<CUresult()>("cuCtxSynchronize");
	const std::function<void()> ways[] = {
		[&] { OK(cudaStreamSynchronize(t)); },
		[&] {
			while (cudaStreamQuery(t) == cudaErrorNotReady)
				sched_yield();
		},
		[&] { OK(cudaDeviceSynchronize()); },
		[&] {
			OK(cudaEventRecord(behind, t));
			OK(cudaEventSynchronize(behind));
		},
		[&] {
			OK(cudaEventRecord(behind, nullptr));
			OK(cudaEventSynchronize(behind));
		},
		[&] {
			OK(cudaEventRecord(behind, t));
			while (cudaEventQuery(behind) == cudaErrorNotReady)
				sched_yield();
		},
		[&] { OK(driver_waits(t)); },
		[&] { OK(driver_drains()); },
		[&] {
			OK(cudaEventRecord(behind, t));
			OK(driver_event(behind));
		},
	};
	for (const bool driver : {false, true})
		for (const bool from_afar : {false, true})
			for (const auto &way : ways) {
				const cudaEvent_t event = from_afar ? far : e;
				const cudaStream_t stream = from_afar ? there : s;
				OK(cudaSetDevice(from_afar ? 1 : 0));
				OK(cudaLaunchHostFunc(stream, count, nullptr));
				OK(cudaEventRecord(event, stream));
				OK(cudaSetDevice(0));
				OK(driver ? by_driver(t, event, 0) : cudaStreamWaitEvent(t, event, 0));
				way();
				CHECK(counted == ++expected);
			}
}

// settings: of a context. Another device's context, and the next context, do not have them.
static void settings()
{
	size_t bytes = 0;
	for (int round = 0; round < 2; round++) {
		OK(cudaSetDevice(0));
		CHECK(LAUNCH(sum_table, one, one, 60000, nullptr, device<int>(1)) == 9);
		OK(cudaFuncSetAttribute(STUB(sum_table), cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
		OK(LAUNCH(sum_table, one, one, 60000, nullptr, device<int>(1)));
		OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
		OK(cudaSetDevice(1));
		CHECK(LAUNCH(sum_table, one, one, 60000, nullptr, device<int>(1)) == 9);
		OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
		CHECK(bytes == 1024);
		OK(cudaSetDevice(0));
		OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
		CHECK(bytes == 4096);
		OK(cudaDeviceReset());
	}
}

// The driver's calls for memory that is mapped.
struct Mapped {
	CUresult (*init)(unsigned) = driver_call<CUresult(unsigned)>("cuInit");
	CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long) =
		driver_call<CUresult(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)>("cuMemAddressReserve");
	CUresult (*unreserve)(CUdeviceptr, size_t) = driver_call<CUresult(CUdeviceptr, size_t)>("cuMemAddressFree");
	CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long) =
		driver_call<CUresult(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)>("cuMemCreate");
	CUresult (*release)(CUmemGenericAllocationHandle) = driver_call<CUresult(CUmemGenericAllocationHandle)>("cuMemRelease");
	CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) =
		driver_call<CUresult(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)>("cuMemMap");
	CUresult (*unmap)(CUdeviceptr, size_t) = driver_call<CUresult(CUdeviceptr, size_t)>("cuMemUnmap");
	CUresult (*allow)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) =
		driver_call<CUresult(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)>("cuMemSetAccess");
	CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr) =
		driver_call<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange_v2");
	CUresult (*to_file)(void *, CUmemGenericAllocationHandle, int, unsigned long long) =
		driver_call<CUresult(void *, CUmemGenericAllocationHandle, int, unsigned long long)>("cuMemExportToShareableHandle");
	CUresult (*from_file)(CUmemGenericAllocationHandle *, void *, int) =
		driver_call<CUresult(CUmemGenericAllocationHandle *, void *, int)>("cuMemImportFromShareableHandle");
};

// The driver gives the address that is named, unless it was taken when the driver was initialized.
static void addresses()
{
	const Mapped cu;
	const uintptr_t free = uintptr_t{0x40} << 40, taken = free + (64 << 20);
	const size_t bytes = 32 << 20;
	void *const mapped = mmap(reinterpret_cast<void *>(taken), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr at = 0, other = 0;

	OK(cu.init(0));
	CHECK(mapped == reinterpret_cast<void *>(taken) && munmap(mapped, bytes) == 0);
	OK(cu.reserve(&at, bytes, 0, free, 0));
	OK(cu.reserve(&other, bytes, 0, taken, 0));
	CHECK(at == free && other != taken && faults(reinterpret_cast<int *>(at)));
	OK(cu.reserve(&other, bytes, 0, free + (2 << 20), 0));
	CHECK(other != free + (2 << 20));
	OK(cu.unreserve(at, bytes));
}

static void memory()
{
	const Mapped cu;
	CUdeviceptr at;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = {};
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t bytes = 4 << 20;
	prop.location = access.location;

	CHECK(cu.reserve(&at, bytes, 0, 0, 0) == 3); // before cuInit
	OK(cu.init(0));
	CHECK(cu.reserve(&at, 4096, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cu.reserve(&at, bytes, 0, 0, 0));
	int *p = reinterpret_cast<int *>(at);
	CHECK(fake_state().contexts == 0 && fake_state().reservations == 1 && faults(p));
	OK(cu.create(&h, bytes, &prop, 0));
	CHECK(cu.map(at, bytes / 2, 0, h, 0) == CUDA_ERROR_NOT_SUPPORTED && cu.map(at, bytes / 2, bytes / 2, h, 0) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cu.map(at, bytes, 0, h, 0));
	OK(cu.release(h));
	OK(cudaSetDevice(1));
	CHECK(LAUNCH(add, one, one, 0, nullptr, p, 1, 1) == cudaSuccess &&
	      cudaDeviceSynchronize() == cudaErrorIllegalAddress); // no access yet
	OK(cudaDeviceReset());
	OK(cu.allow(at, bytes, &access, 1));
	OK(cudaMemset(p, 0, 8));
	OK(LAUNCH(add, one, one, 0, nullptr, p, 2, 7));
	CHECK(fetch(p + 1) == 7);
	CHECK(faults(p)); // the host has no business there
	CHECK(fake_state().used[1] == bytes + (8 << 20) && fake_state().handles == 1);
	OK(cudaSetDevice(0));
	int value;
	CHECK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress); // mapped for device 1 alone
	OK(cudaDeviceReset());
	CHECK(cu.unmap(at, bytes / 2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cu.unreserve(at, bytes) == CUDA_ERROR_INVALID_VALUE && fake_state().violations == 1);
	OK(cu.unmap(at, bytes));
	OK(cu.unreserve(at, bytes));
	fake_cuda_state s = fake_state();
	CHECK(s.handles == 0 && s.mappings == 0 && s.reservations == 0 && s.used[1] == 8 << 20);
}

// aliased: one piece of memory at two addresses, and nothing beside them.
static void aliased()
{
	const Mapped cu;
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t granule = 2 << 20;
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;

	prop.location = access.location;
	OK(cudaSetDevice(0));
	OK(cudaFree(nullptr));
	OK(cu.reserve(&at, 3 * granule, 0, 0, 0));
	OK(cu.create(&h, granule, &prop, 0));
	for (CUdeviceptr there : {at, at + 2 * granule}) {
		OK(cu.map(there, granule, 0, h, 0));
		OK(cu.allow(there, granule, &access, 1));
	}
	OK(cu.release(h));
	int *below = reinterpret_cast<int *>(at), *above = reinterpret_cast<int *>(at + 2 * granule);
	OK(cudaMemset(below, 0, 4));
	OK(LAUNCH(add, one, one, 0, nullptr, above, 1, 7));
	CHECK(fetch(below) == 7 && fake_state().used[0] == granule + (8 << 20));
	OK(cu.unmap(at + 2 * granule, granule));
	CHECK(fetch(below) == 7 && fake_state().handles == 1);
	for (int *outside : {below - 1, above - 1, above, above + granule / sizeof(int)}) {
		CHECK(LAUNCH(add, one, one, 0, nullptr, outside, 1, 7) == cudaSuccess);
		CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
		OK(cudaDeviceReset());
		OK(cudaFree(nullptr));
	}
	OK(cu.unmap(at, granule));
	CHECK(fake_state().handles == 0 && fake_state().used[0] == 8 << 20);
}

// outside: a kernel that leaves an allocation of cudaMalloc by little finds memory. A copy or a set
// does not, whatever lies beside the allocation.
static void outside()
{
	const size_t bytes = 1 << 20;
	char *all[4];

	for (char *&p : all)
		p = device<char>(bytes);
	for (char *p : all) {
		OK(LAUNCH(add, one, one, 0, nullptr, reinterpret_cast<int *>(p) - 384, 384, 1));
		OK(LAUNCH(add, one, one, 0, nullptr, reinterpret_cast<int *>(p + bytes), 384, 1));
		OK(cudaDeviceSynchronize());
		OK(cudaMemset(p, 1, bytes));
		CHECK(cudaMemset(p, 1, bytes + 1) == cudaErrorInvalidValue);
		CHECK(cudaMemset(p - 1, 1, 2) == cudaErrorInvalidValue);
		CHECK(cudaMemcpy(all[0], p + 4, bytes, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
	}
}

// sides: memory of cuMemCreate on the host, mapped where device memory was, and as a file.
static void sides()
{
	const Mapped cu;
	const size_t granule = 2 << 20;
	const CUmemAccessDesc device_0 = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const CUmemAccessDesc host = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAllocationProp there = {}, here = {};
	CUmemGenericAllocationHandle on_device, on_host, again;
	CUdeviceptr at, other, base;
	cudaPointerAttributes about;
	size_t bytes;
	int file = -1;

	there.location = device_0.location;
	here.location = host.location;
	here.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cudaSetDevice(0));
	OK(cudaFree(nullptr));
	OK(cu.reserve(&at, 2 * granule, 0, 0, 0));
	OK(cu.reserve(&other, granule, 0, 0, 0));
	OK(cu.create(&on_device, granule, &there, 0));
	OK(cu.create(&on_host, granule, &here, 0));
	CHECK(fake_state().used[0] == granule + (8 << 20));
	OK(cu.map(at, granule, 0, on_device, 0));
	OK(cu.map(at + granule, granule, 0, on_host, 0));
	OK(cu.allow(at, 2 * granule, &device_0, 1));
	int *moving = reinterpret_cast<int *>(at), *kept = reinterpret_cast<int *>(at + granule);
	OK(cudaMemset(moving, 0, 2 * granule)); // both at once
	OK(LAUNCH(add, one, one, 0, nullptr, moving, 1, 7));
	OK(LAUNCH(add, one, one, 0, nullptr, kept, 1, 3));
	CHECK(fetch(moving) == 7 && fetch(kept) == 3 && faults(kept));
	OK(cudaPointerGetAttributes(&about, kept));
	CHECK(about.type == cudaMemoryTypeHost);
	OK(cu.range(&base, &bytes, at + granule + 8));
	CHECK(base == at + granule && bytes == granule);
	OK(cu.allow(at + granule, granule, &host, 1));
	CHECK(*kept == 3);

	// The contents move, under their address.
	OK(cudaMemcpy(kept, moving, granule, cudaMemcpyDefault));
	OK(cudaDeviceSynchronize());
	OK(cu.unmap(at, granule));
	OK(cu.release(on_device));
	CHECK(fake_state().used[0] == 8 << 20);
	OK(cu.map(at, granule, 0, on_host, 0));
	OK(cu.allow(at, granule, &device_0, 1));
	OK(LAUNCH(add, one, one, 0, nullptr, moving, 1, 1));
	CHECK(fetch(moving) == 8);

	CHECK(cu.to_file(&file, on_device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != cudaSuccess);
	OK(cu.to_file(&file, on_host, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cu.from_file(&again, reinterpret_cast<void *>(static_cast<intptr_t>(file)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	CHECK(cu.from_file(&again, reinterpret_cast<void *>(static_cast<intptr_t>(0)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != cudaSuccess);
	close(file);
	OK(cu.map(other, granule, 0, again, 0));
	OK(cu.allow(other, granule, &host, 1));
	CHECK(*reinterpret_cast<int *>(other) == 8);
}

// closed: a program that closes descriptors that are not its own, and makes others of the same numbers,
// keeps the others. Memory that is mapped stays.
static void closed()
{
	const Mapped cu;
	const size_t granule = 2 << 20;
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle h[2];
	CUdeviceptr at;
	int file;

	prop.location = access.location;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cudaSetDevice(0));
	OK(cudaFree(nullptr));
	OK(cu.reserve(&at, 2 * granule, 0, 0, 0));
	for (auto &one_of_two : h)
		OK(cu.create(&one_of_two, granule, &prop, 0));
	OK(cu.map(at, granule, 0, h[0], 0));
	OK(cu.allow(at, granule, &access, 1));
	int *const x = reinterpret_cast<int *>(at);
	OK(cudaMemset(x, 0, 4));
	OK(cudaDeviceSynchronize());
	for (int i = 3; i < 100; i++)
		close(i);
	std::vector<int> own;
	while (own.empty() || own.back() < 99) {
		own.push_back(memfd_create("the program's", 0));
		CHECK(own.back() >= 0 && ftruncate(own.back(), granule) == 0);
	}
	OK(LAUNCH(add, one, one, 0, nullptr, x, 1, 7));
	CHECK(fetch(x) == 7 && faults(x));
	CHECK(cu.to_file(&file, h[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != cudaSuccess);
	CHECK(cu.map(at + granule, granule, 0, h[1], 0) != cudaSuccess);
	OK(cu.unmap(at, granule));
	for (auto one_of_two : h)
		OK(cu.release(one_of_two));
	CHECK(fake_state().handles == 0);
	for (int i : own) {
		int first = -1;
		CHECK(pread(i, &first, sizeof first, 0) == sizeof first && first == 0);
	}
}

static sem_t gate;
static void wait_at_gate(void *) { sem_wait(&gate); }
static void open_gate() { CHECK(sem_post(&gate) == 0); }

// by_itself: streams execute without anybody who waits for them, side by side.
// What is done meanwhile is done once, at its moment, and may call CUDA.
static void interrupted()
{
	static int *x, before, after;

	x = device<int>(1);
	OK(cudaMemset(x, 0, 4));
	meanwhile("cudaDeviceSynchronize", FAKE_CUDA_BEFORE, [] {
		OK(LAUNCH(add, one, one, 0, nullptr, x, 1, 1));
		before++;
	});
	meanwhile("cudaDeviceSynchronize", FAKE_CUDA_AFTER, [] {
		OK(cudaMemcpy(&after, x, 4, cudaMemcpyDeviceToHost));
		OK(cudaDeviceSynchronize());
	});
	OK(cudaDeviceSynchronize());
	CHECK(before == 1 && after == 1);
	OK(cudaDeviceSynchronize());
	CHECK(before == 1 && after == 1);
	OK(cudaFree(x));
}

static void by_itself()
{
	const Mapped cu;
	const size_t granule = 2 << 20;
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	cudaStream_t s, t;
	cudaEvent_t from, to;
	float ms;

	CHECK(sem_init(&gate, 0, 0) == 0);
	OK(cudaStreamCreateWithFlags(&s, 1));
	OK(cudaStreamCreateWithFlags(&t, 1));
	OK(cudaEventCreate(&from));
	OK(cudaEventCreate(&to));
	int *x = device<int>(1), *y = device<int>(1);
	OK(cudaMemset(x, 0, 4));
	OK(cudaMemset(y, 0, 4));
	OK(cudaDeviceSynchronize());
	OK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
	OK(LAUNCH(add, one, one, 0, s, x, 1, 1));
	OK(cudaEventRecord(from, t));
	OK(LAUNCH(add, one, one, 0, t, y, 1, 2));
	OK(cudaEventRecord(to, t));
	while (cudaEventQuery(to) == cudaErrorNotReady)
		sched_yield();
	CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
	OK(cudaEventElapsedTime(&ms, from, to));
	CHECK(ms >= 20);
	std::thread opens(open_gate);
	OK(cudaStreamSynchronize(s)); // the other thread's calls go on meanwhile
	opens.join();
	CHECK(fetch(x) == 1 && fetch(y) == 2 && faults(x));

	// A stream that only waits for an event is not idle.
	OK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
	OK(cudaEventRecord(to, s));
	OK(cudaStreamWaitEvent(t, to, 0));
	OK(cudaEventRecord(from, t));
	for (int i = 0; i < 3; i++)
		CHECK(cudaStreamQuery(t) == cudaErrorNotReady && cudaEventQuery(from) == cudaErrorNotReady);
	std::thread opens_again(open_gate);
	OK(cudaStreamSynchronize(t));
	CHECK(cudaEventQuery(to) == cudaSuccess);
	opens_again.join();

	// What a kernel under way needs is taken away.
	prop.location = access.location;
	OK(cu.reserve(&at, granule, 0, 0, 0));
	OK(cu.create(&h, granule, &prop, 0));
	OK(cu.map(at, granule, 0, h, 0));
	OK(cu.allow(at, granule, &access, 1));
	OK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
	OK(LAUNCH(add, one, one, 0, s, reinterpret_cast<int *>(at), 1, 1));
	OK(cu.unmap(at, granule)); // does not wait
	open_gate();
	CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);

	const auto before = std::chrono::steady_clock::now();
	cudaGetDeviceCount(reinterpret_cast<int *>(&ms));
	CHECK(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(5));
}

static void faulty()
{
	int *mine = device<int>(1), value;
	OK(cudaSetDevice(1));
	int *other = device<int>(1), *list = device<int>(2);
	OK(LAUNCH(die, one, one, 0, nullptr, 719));
	CHECK(cudaDeviceSynchronize() == 719 && cudaMalloc(reinterpret_cast<void **>(&value), 4) == 719);
	CHECK(cudaGetLastError() == 719 && cudaGetLastError() == 719);
	OK(cudaSetDevice(0)) ;
	OK(LAUNCH(add, one, one, 0, nullptr, mine, 1, 1)); // the other device's context is well
	OK(cudaDeviceSynchronize());
	OK(cudaSetDevice(0));
	CHECK(cudaMemcpy(mine, other, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
	OK(LAUNCH(add, one, one, 0, nullptr, other, 1, 1)); // memory of device 1
	CHECK(cudaMemcpy(&value, mine, 4, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
	OK(cudaDeviceReset());
	OK(cudaGetLastError());
	static_cast<void>(list);
}

// The runtime works in the thread's own context. Kernels of the primary context cannot reach its
// memory.
static void own_context()
{
	auto *current = driver_call<CUresult(CUcontext *)>("cuCtxGetCurrent");
	int *first = device<int>(1);
	CUcontext own = nullptr, now = nullptr;
	OK(driver_call<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2")(&own, 0, 0));
	int *mine = device<int>(1);
	OK(LAUNCH(add, one, one, 0, nullptr, mine, 1, 1));
	OK(cudaDeviceSynchronize());
	OK(current(&now));
	CHECK(now == own && fake_state().contexts == 2 && fake_state().used[0] == (16 << 20) + 1024);
	OK(cudaSetDevice(0));
	OK(current(&now));
	CHECK(now != own && now != nullptr);
	OK(LAUNCH(add, one, one, 0, nullptr, first, 1, 1));
	OK(cudaDeviceSynchronize());
	OK(LAUNCH(add, one, one, 0, nullptr, mine, 1, 1));
	CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
	OK(driver_call<CUresult(CUcontext)>("cuCtxDestroy_v2")(own));
	CHECK(fake_state().used[0] == (8 << 20) + 512 && fake_state().violations == 0);
}

static void handles()
{
	cudaStream_t s;
	cudaEvent_t e;
	OK(cudaStreamCreate(&s));
	OK(cudaEventCreate(&e));
	OK(cudaSetDevice(1));
	int *x = device<int>(1);
	CHECK(LAUNCH(add, one, one, 0, s, x, 1, 1) == 400); // a stream of device 0
	cudaStream_t t;
	OK(cudaStreamCreate(&t));
	CHECK(cudaEventRecord(e, t) == 400);
	OK(cudaStreamDestroy(t));
	CHECK(cudaStreamSynchronize(t) == 400);
	CHECK(cudaMemsetAsync(x, 0, 4, reinterpret_cast<cudaStream_t>(x)) == 400);
	CHECK(fake_state().violations == 4 && fake_state().streams == 1);
}

static void shapes()
{
	int *x = device<int>(16);
	int in[16], out[16] = {};
	for (int i = 0; i < 16; i++)
		in[i] = i;
	OK(cudaMemset(x, 0, 64));
	OK(cudaMemcpy2D(x, 16, in, 8, 8, 3, cudaMemcpyHostToDevice));
	OK(cudaMemcpy(out, x, 64, cudaMemcpyDefault));
	CHECK(out[0] == 0 && out[1] == 1 && out[2] == 0 && out[4] == 2 && out[9] == 5);
	cudaArray_t a;
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	OK(cudaMallocArray(&a, &ints, 4, 4, 0));
	OK(cudaMemcpy2DToArray(a, 4, 1, in, 8, 8, 2, cudaMemcpyHostToDevice));
	OK(cudaMemcpy2DFromArray(out, 8, a, 8, 2, 4, 1, cudaMemcpyDeviceToHost));
	CHECK(out[0] == 3);
	OK(cudaFreeArray(a));

	int values[4] = {10, 20, 30, 40}, *sum = device<int>(1);
	OK(LAUNCH(sum_table, one, one, 0, nullptr, sum));
	CHECK(fetch(sum) == 10);
	OK(cudaMemcpyToSymbol(table, values, 16, 0, cudaMemcpyHostToDevice));
	OK(LAUNCH(sum_table, one, one, 0, nullptr, sum));
	CHECK(fetch(sum) == 100);
	OK(cudaSetDevice(1));
	int *there = device<int>(1);
	OK(LAUNCH(sum_table, one, one, 0, nullptr, there)); // an instance for each device
	CHECK(fetch(there) == 10);

	int **list = device<int *>(1), *leaf = device<int>(1);
	OK(cudaMemcpy(list, &leaf, sizeof leaf, cudaMemcpyHostToDevice));
	OK(LAUNCH(follow, one, one, 0, nullptr, list));
	CHECK(fetch(leaf) == 42);

	cudaStream_t s;
	cudaGraph_t g;
	cudaGraphExec_t executable;
	OK(cudaStreamCreate(&s));
	OK(cudaStreamBeginCapture(s, 0));
	OK(LAUNCH(add, one, one, 0, s, leaf, 1, 1));
	OK(cudaStreamEndCapture(s, &g));
	CHECK(fetch(leaf) == 42);
	OK(cudaGraphInstantiate(&executable, g, 0, nullptr, 0));
	OK(cudaGraphLaunch(executable, s));
	OK(cudaGraphLaunch(executable, s));
	CHECK(fetch(leaf) == 44);
	int blocks;
	OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, STUB(die), 256, 0));
	CHECK(blocks == 4); // 65536 / (64 registers x 256 threads)
	void *values_of_add[] = {&leaf, &blocks, &blocks};
	CHECK(cudaLaunchCooperativeKernel(STUB(add), one, {2048, 1, 1}, values_of_add, 0, nullptr) == 9);
}

static void capacity()
{
	void *p;
	size_t free_bytes, total;
	OK(cudaMalloc(&p, 40 << 20));
	CHECK(cudaMalloc(&p, 40 << 20) == cudaErrorMemoryAllocation);
	CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
	OK(cudaMemGetInfo(&free_bytes, &total));
	CHECK(total == 64 << 20 && free_bytes == 16 << 20);
}

static void injected()
{
	void *p;
	OK(cudaMalloc(&p, 4));
	CHECK(cudaMalloc(&p, 8) == 2);
	OK(cudaMalloc(&p, 8));
	CHECK(cudaMemset(p, 0, 8) == 719 && cudaMemset(p, 0, 8) == 719);
}

static void visible()
{
	char text[2048];
	int n;
	OK(cudaGetDeviceCount(&n));
	OK(cudaGetDeviceProperties(text, 0));
	CHECK(n == 1 && strcmp(text, "Fake GPU 1") == 0);
}

// A device is listed twice.
static void twice() { CHECK(Mapped().init(0) == cudaErrorNoDevice); }

// Another process takes what this one has on devices, and brings it back.
static void checkpointed()
{
	struct Request {
		char call[32];
		unsigned timeout_ms[16];
	};
	int there[2], back[2];
	CHECK(pipe(there) == 0 && pipe(back) == 0);
	if (fork() == 0) { // before CUDA, which a child does not inherit
		Request r;
		close(there[1]);
		CHECK(driver_call<int(unsigned)>("cuInit")(0) == 0);
		while (read(there[0], &r, sizeof r) == sizeof r) {
			const int error = driver_call<int(int, void *)>(r.call)(getppid(), r.timeout_ms);
			const int said[2] = {error, static_cast<int>(r.timeout_ms[0])};
			CHECK(write(back[1], said, sizeof said) == sizeof said);
		}
		_exit(0);
	}
	const auto ask = [&](const char *what, unsigned timeout_ms = 0) -> std::pair<int, int> {
		Request r = {};
		int said[2];
		snprintf(r.call, sizeof r.call, "cuCheckpointProcess%s", what);
		r.timeout_ms[0] = timeout_ms;
		CHECK(write(there[1], &r, sizeof r) == sizeof r && read(back[0], said, sizeof said) == sizeof said);
		return {said[0], said[1]};
	};
	const std::pair<int, int> runs = {0, 0}, locked = {0, 1}, saved = {0, 2};
	CHECK(ask("Lock").first == 1); // it does not use CUDA yet
	CHECK(sem_init(&gate, 0, 0) == 0);
	int *x = device<int>(1);
	OK(cudaMemset(x, 0, 4));
	OK(cudaLaunchHostFunc(nullptr, wait_at_gate, nullptr));
	OK(LAUNCH(add, one, one, 0, nullptr, x, 1, 1));
	CHECK(ask("Checkpoint").first == 401 && ask("Restore").first == 401 && ask("Unlock").first == 401);
	CHECK(ask("Lock", 10).first == 600 && ask("GetState") == runs);
	const size_t used = fake_state().used[0];
	open_gate();
	CHECK(ask("Lock").first == 0 && ask("GetState") == locked && ask("Lock").first == 401);
	std::atomic<bool> called{false};
	std::thread calls([&] {
		CHECK(fetch(x) == 1);
		called = true;
	});
	CHECK(ask("Checkpoint").first == 0 && ask("GetState") == saved && ask("Unlock").first == 401);
	CHECK(!called);
	CHECK(ask("Restore").first == 0 && ask("GetState") == locked && !called);
	CHECK(ask("Unlock").first == 0 && ask("GetState") == runs);
	calls.join();
	CHECK(fake_state().used[0] == used);
	void *managed;
	OK(cudaMallocManaged(&managed, 4, 1));
	CHECK(ask("Lock").first == 801 && ask("GetState") == runs);
	OK(cudaFree(managed));
	OK(cudaFree(x));
}

static void killed() { cudaMalloc(reinterpret_cast<void **>(&table), 4); }

static const struct {
	const char *name;
	void (*run)();
	std::vector<std::string> environment;
	int status; // as wait gives it
} scenarios[] = {
	{"contexts", contexts, {}, 0},
	{"order", order, {}, 0},
	{"waiting", waiting, {}, 0},
	{"waiting by itself", waiting, {"FAKE_CUDA_KERNEL_US=0"}, 0},
	{"settings", settings, {}, 0},
	{"addresses", addresses, {}, 0},
	{"memory", memory, {}, 0},
	{"aliased", aliased, {}, 0},
	{"outside", outside, {}, 0},
	{"sides", sides, {}, 0},
	{"closed", closed, {}, 0},
	{"by itself", by_itself, {"FAKE_CUDA_KERNEL_US=7,add=20000", "FAKE_CUDA_DELAY_US=cudaGetDeviceCount=5000"}, 0},
	{"interrupted", interrupted, {}, 0},
	{"faulty", faulty, {}, 0},
	{"own context", own_context, {}, 0},
	{"handles", handles, {}, 0},
	{"shapes", shapes, {}, 0},
	{"capacity", capacity, {"FAKE_CUDA_MEMORY=67108864"}, 0},
	{"injected", injected, {"FAKE_CUDA_FAIL=cudaMalloc:2=2,cudaMemset:1=719"}, 0},
	{"visible", visible, {"CUDA_VISIBLE_DEVICES=GPU-ca5e0000-0000-0000-0000-000000000001,7"}, 0},
	{"twice", twice, {"CUDA_VISIBLE_DEVICES=1,0,1"}, 0},
	{"one instance", visible, {"FAKE_MIG=2", "CUDA_VISIBLE_DEVICES=MIG-ca5e0000-0000-0000-0000-000000000001,MIG-ca5e0000-0000-0000-0000-000000000000"}, 0},
	{"whole and instance", visible, {"FAKE_MIG=1", "CUDA_VISIBLE_DEVICES=GPU-ca5e0000-0000-0000-0000-000000000001,MIG-ca5e0000-0000-0000-0000-000000000000"}, 0},
	{"checkpointed", checkpointed, {"FAKE_CUDA_CHECKPOINT=1", "FAKE_CUDA_KERNEL_US=0"}, 0},
	{"killed", killed, {"FAKE_CUDA_KILL=cuDevicePrimaryCtxRetain:1"}, SIGKILL},
};

// in_process runs a scenario. Its output is kept in a file, because misuse that a scenario provokes
// is expected.
static int in_process(const char *self, const char *name, const std::vector<std::string> &environment,
                      const std::string &trace, const std::string &said)
{
	pid_t child = fork();
	if (child == 0) {
		for (const std::string &e : environment)
			putenv(const_cast<char *>(e.c_str()));
		setenv("FAKE_CUDA_TRACE", trace.c_str(), 1);
		if (freopen(said.c_str(), "w", stderr) != nullptr)
			execl(self, self, name, nullptr);
		_exit(127);
	}
	int status = -1;
	waitpid(child, &status, 0);
	return status;
}

int main(int count, char **arguments)
{
	if (count > 1) {
		for (const auto &s : scenarios)
			if (strcmp(s.name, arguments[1]) == 0)
				s.run();
		return 0;
	}
	char directory[] = "/tmp/fake-cuda-XXXXXX";
	if (mkdtemp(directory) == nullptr) {
		perror("fake CUDA: mkdtemp");
		return 1;
	}
	const std::string trace = std::string(directory) + "/trace", said = std::string(directory) + "/said";
	int failed = 0;
	for (const auto &s : scenarios) {
		int status = in_process(arguments[0], s.name, s.environment, trace, said);
		if (status != s.status) {
			std::ifstream in(said);
			std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
			fprintf(stderr, "fake CUDA %d: %s: status %d, want %d\n%s", FAKE_NVCC, s.name, status, s.status,
			        text.c_str());
			failed++;
		}
	}
	std::string line, last, before;
	for (std::ifstream in(trace); std::getline(in, line); last = line)
		before = last;
	if (before != "cudaMalloc 4" || last != "cuDevicePrimaryCtxRetain 0") {
		fprintf(stderr, "fake CUDA: trace ends with %s, %s\n", before.c_str(), last.c_str());
		failed++;
	}
	unlink(trace.c_str());
	unlink(said.c_str());
	rmdir(directory);
	if (failed == 0)
		printf("fake CUDA %d: ok\n", FAKE_NVCC);
	return failed == 0 ? 0 : 1;
}
