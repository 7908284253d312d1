// foreign.cc: programs that use the driver API beside the CUDA runtime.
#include <thread>

#include "program.h"

static CUcontext current()
{
	CUcontext context = nullptr;
	TRY(driver_call<CUresult(CUcontext *)>("cuCtxGetCurrent")(&context));
	return context;
}

static CUcontext create()
{
	CUcontext context = nullptr;
	TRY(driver_call<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0, 0));
	return context;
}

static void use(CUcontext context) { TRY(driver_call<CUresult(CUcontext)>("cuCtxSetCurrent")(context)); }

// driver_after: the driver's calls come right after the device is chosen, which
// has made its context (CUDA 12 and later).
static void driver_after(cudaError_t chosen)
{
	CUdevice on = -1;
	TRY(chosen);
	TRY(driver_call<CUresult(CUdevice *)>("cuCtxGetDevice")(&on));
	say("context %d on %d", current() != nullptr, on);
	state("chosen");
}

void set_device() { driver_after(cudaSetDevice(0)); }

// ask_first: what a device is like comes before any context.
void ask_first()
{
	int value = 0;
	TRY(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
	state("asked");
	driver_after(cudaSetDevice(0));
}

void init_device()
{
	TRY(cudaInitDevice(0, 0, 0));
	state("made");
	driver_after(cudaSetDevice(0));
}

// back_to_primary: cudaSetDevice leaves a context of the program's own.
void back_to_primary()
{
	TRY(cudaSetDevice(0));
	const CUcontext primary = current(), own = create();
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 1, 4000));
	say("own is current %d", current() == own);
	TRY(cudaFree(x));
	TRY(cudaSetDevice(0));
	say("primary is current %d", current() == primary);
	x = device<int>(1000);
	TRY(cudaMemset(x, 1, 4000));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
}

// own_context_in_threads: memory of a context that cuCtxCreate made, and kernels
// of threads that have made it current.
void own_context_in_threads()
{
	TRY(driver_call<CUresult(unsigned)>("cuInit")(0));
	const CUcontext own = create();
	CUdeviceptr memory = 0;
	TRY(driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2")(&memory, 4000));
	int *x = reinterpret_cast<int *>(memory);
	TRY(cudaMemset(x, 0, 4000));
	for (int k = 0; k < 3; k++)
		std::thread([=] {
			use(own);
			TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 5));
			TRY(cudaDeviceSynchronize());
			say("own is current %d", current() == own);
		}).join();
	std::thread([] { // one that has none gets the device's
		int *y = device<int>(1000);
		TRY(cudaMemset(y, 2, 4000));
		say("y %ld", digest(y, 1000));
		TRY(cudaFree(y));
	}).join();
	say("x %ld", digest(x, 1000));
	TRY(driver_call<CUresult(CUdeviceptr)>("cuMemFree_v2")(memory));
	state("after");
}

// ends_contexts: the memory of a context of its own goes with that context.
void ends_contexts()
{
	auto *const allocate = driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2");
	TRY(driver_call<CUresult(unsigned)>("cuInit")(0));
	for (int round = 0; round < 8; round++) {
		const CUcontext own = create();
		CUdeviceptr memory = 0, freed = 0;
		TRY(allocate(&memory, 200 * mib));
		TRY(allocate(&freed, 20 * mib));
		TRY(cudaMemset(reinterpret_cast<void *>(memory), round, 4000));
		say("x %ld", digest(reinterpret_cast<int *>(memory), 1000));
		TRY(driver_call<CUresult(CUdeviceptr)>("cuMemFree_v2")(freed));
		TRY(driver_call<CUresult(CUcontext)>("cuCtxDestroy_v2")(own));
	}
	state("after");
}

// range_of tells where an address lies in its allocation, as the driver has it.
static void range_of(const char *what, CUdeviceptr address)
{
	CUdeviceptr base = 0, start = 0;
	size_t bytes = 0, size = 0;

	TRY(driver_call<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange_v2")(&base, &bytes, address));
	auto *const ask = driver_call<CUresult(void *, int, CUdeviceptr)>("cuPointerGetAttribute");
	TRY(ask(&start, 11, address)); // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
	TRY(ask(&size, 12, address));  // CU_POINTER_ATTRIBUTE_RANGE_SIZE
	int ordinal = -1;
	TRY(ask(&ordinal, 9, address)); // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	say("%s: at %zu of %zu, %zu of %zu", what, static_cast<size_t>(address - base), bytes,
	    static_cast<size_t>(address - start), size);
}

// driver_memory: the runtime and the driver each allocate, free what the other has allocated, and
// are asked for ranges.
void driver_memory()
{
	const int n = 5 << 20; // 20 MiB
	auto *const allocate = driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2");
	auto *const release = driver_call<CUresult(CUdeviceptr)>("cuMemFree_v2");
	CUdeviceptr memory = 0, small = 0;

	TRY(cudaSetDevice(0));
	int *x = device<int>(n);
	TRY(allocate(&memory, n * sizeof(int)));
	TRY(allocate(&small, 1000));
	int *y = reinterpret_cast<int *>(memory);
	TRY(cudaMemset(x, 0, n * sizeof(int)));
	TRY(cudaMemset(y, 0, n * sizeof(int)));
	TRY(cudaMemset(reinterpret_cast<void *>(small), 1, 1000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 3));
	TRY(LAUNCH(add, grid, block, 0, nullptr, y, n, 4));
	TRY(cudaMemcpy(x, y + n / 2, n / 4, cudaMemcpyDeviceToDevice));
	say("x %ld y %ld small %ld", digest(x, n), digest(y, n), digest(reinterpret_cast<int *>(small), 250));
	range_of("x", reinterpret_cast<CUdeviceptr>(x + n / 2));
	range_of("y", memory + 18 * mib);
	range_of("small", small + 999);
	state("allocated");
	TRY(release(reinterpret_cast<CUdeviceptr>(x)));
	TRY(cudaFree(y));
	TRY(release(small));
	say("again %d", release(small) != 0);
	state("after");
}

// driver_captures: the driver captures a stream, in which it allocates and frees, while the stream of an
// earlier free has work.
void driver_captures()
{
	auto *const allocate = driver_call<CUresult(CUdeviceptr *, size_t, cudaStream_t)>("cuMemAllocAsync");
	auto *const release = driver_call<CUresult(CUdeviceptr, cudaStream_t)>("cuMemFreeAsync");
	cudaStream_t s, t;
	CUdeviceptr before = 0, inside = 0;
	void *graph = nullptr;

	for (cudaStream_t *stream : {&s, &t})
		TRY(cudaStreamCreateWithFlags(stream, 1));
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(allocate(&before, 4 * mib, t));
	TRY(LAUNCH(add, grid, block, 0, t, reinterpret_cast<int *>(before), 1000, 1));
	TRY(driver_call<CUresult(cudaStream_t, int)>("cuStreamBeginCapture_v2")(s, 0));
	TRY(release(before, t));
	TRY(allocate(&inside, 4 * mib, s));
	TRY(release(inside, s));
	TRY(driver_call<CUresult(cudaStream_t, void **)>("cuStreamEndCapture")(s, &graph));
	say("graph %d", graph != nullptr);
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	for (cudaStream_t stream : {s, t})
		TRY(cudaStreamDestroy(stream));
	state("after");
}

// driver_refused: the driver's errors are not the runtime's last error, and what the driver answers the runtime is.
void driver_refused()
{
	auto *const allocate = driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2");
	int *x = device<int>(1000);
	CUdeviceptr memory = 0;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	say("refused %d", allocate(&memory, SIZE_MAX / 2));
	say("last %d", cudaGetLastError());
	say("wrong %d", cudaMemset(x, 0, 4001));
	say("refused %d", allocate(&memory, SIZE_MAX / 2));
	say("last %d", cudaGetLastError());
	TRY(cudaFree(x));
}

// late_refusal: the test lets the driver refuse what is allocated after a launch.
void late_refusal()
{
	int *x = device<int>(1000);
	void *memory = nullptr;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("refused %d", cudaMalloc(&memory, 4 * mib));
	say("last %d", cudaGetLastError());
	TRY(cudaFree(x));
	state("after");
}

// immense: more bytes than there are, also where their product or the whole granules of them need more than 64 bits.
void immense()
{
	auto *const allocate = driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2");
	int *x = device<int>(1000);
	for (const char *when : {"before", "bound"}) {
		void *p = nullptr;
		CUdeviceptr d = 0;
		size_t pitch = 0;
		cudaPitchedPtr box = {};
		for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX - 2 * mib + 1, SIZE_MAX / 2 + 1}) {
			const cudaError_t linear = cudaMalloc(&p, bytes), ordered = cudaMallocAsync(&p, bytes, nullptr);
			say("%s: %d %d %d", when, linear, ordered, allocate(&d, bytes));
		}
		const cudaError_t rows = cudaMallocPitch(&p, &pitch, size_t{1} << 33, size_t{1} << 31);
		say("%s: %d %d", when, rows, cudaMalloc3D(&box, {size_t{1} << 20, size_t{1} << 20, size_t{1} << 24}));
		say("%s: %d", when, cudaMemset2D(x, size_t{1} << 63, 0, 4, 3));
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	}
	TRY(cudaFree(x));
	state("after");
}
