// ends.cc: what outlives a task, and what happens at its end.
#include <string>

#include "program.h"

static int *worked() // memory that a kernel has worked on
{
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	return x;
}

// after: the program cleans up, and looks at its clocks, when it has freed its memory.
void after(const char *way)
{
	const std::string what = way;
	cudaEvent_t begin, end;
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	void *host = nullptr, *early = nullptr;
	unsigned long long texture = 0;
	float ms = -1;

	TRY(cudaMallocHost(&early, 4000));
	TRY(cudaEventCreate(&begin));
	TRY(cudaEventCreate(&end));
	TRY(cudaStreamCreate(&s));
	TRY(cudaEventRecord(begin, nullptr));
	int *x = worked();
	TRY(cudaEventRecord(end, nullptr));
	TRY(cudaMallocHost(&host, 4000));
	TRY(cudaCreateTextureObject(&texture, nullptr, nullptr, nullptr));
	TRY(cudaStreamBeginCapture(s, 0));
	TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 1));
	TRY(cudaStreamEndCapture(s, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	TRY(cudaDeviceSynchronize());
	TRY(cudaFree(x));
	state("freed");
	if (what == "clocks") {
		TRY(cudaEventElapsedTime(&ms, begin, end));
	} else if (what == "late_clocks") {
		TRY(cudaEventRecord(end, nullptr));
		TRY(cudaEventSynchronize(end));
		TRY(cudaEventElapsedTime(&ms, begin, end));
	} else if (what == "host") {
		TRY(cudaFreeHost(host));
	} else if (what == "graphs") {
		TRY(cudaGraphExecDestroy(executable));
		TRY(cudaGraphDestroy(graph));
	} else if (what == "textures") {
		TRY(cudaDestroyTextureObject(texture));
	} else if (what == "memory") { // a second time
		TRY(cudaFree(x));
		say("last %d", cudaGetLastError());
	} else if (what == "reset") {
		TRY(cudaDeviceReset());
		TRY(cudaFree(x)); // as destructors of the program's do
		say("last %d", cudaGetLastError());
		cudaFreeHost(early);
		return;
	} else {
		exit(2);
	}
	say("timed %d", ms >= 0);
	TRY(cudaEventDestroy(begin));
	TRY(cudaEventDestroy(end));
	TRY(cudaStreamDestroy(s));
}

// set: something of the context's or of a kernel's is set once, for two tasks.
void set(const char *way)
{
	const std::string what = way;
	size_t shared = 0;
	if (what == "attribute") {
		TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributeMaxDynamicSharedMemorySize, shared = 100000));
	} else if (what == "large_attribute") { // not every device allows it
		TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributeMaxDynamicSharedMemorySize, shared = 200000));
	} else if (what == "limit") {
		TRY(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	} else if (what == "preference") {
		TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributePreferredSharedMemoryCarveout, 50));
		TRY(cudaFuncSetCacheConfig(STUB(add), 1));
		TRY(cudaDeviceSetCacheConfig(1));
	} else {
		exit(2);
	}
	for (int task : {1, 2}) {
		size_t stack = 0;
		int *x = device<int>(1000);
		TRY(cudaMemset(x, 0, 4000));
		TRY(LAUNCH(add, grid, block, shared, nullptr, x, 1000, task));
		TRY(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
		say("x %ld stack %zu", digest(x, 1000), stack);
		TRY(cudaFree(x));
	}
}

// reset_after: the device is reset while it may still be at work.
void reset_after(const char *way)
{
	const bool fault = std::string(way) == "fault";
	device<int>(1000);
	if (fault)
		TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	else
		TRY(LAUNCH(notice, grid, block, 0, nullptr));
	say("reset %d", cudaDeviceReset());
	say("last %d", cudaGetLastError());
	state("after");
	if (!fault)
		say("ran %d", noticed);
}

// registered_before_reset: a reset ends the registration of host memory, which is then pageable: an
// asynchronous copy has read it when the call returns.
void registered_before_reset()
{
	for (bool bound : {false, true}) {
		std::vector<int> host(1000, 7);
		TRY(cudaHostRegister(host.data(), 4000, 0));
		if (bound)
			TRY(LAUNCH(nothing, grid, block, 0, nullptr));
		say("reset %d", cudaDeviceReset());
		int *x = device<int>(1000);
		TRY(cudaMemcpyAsync(x, host.data(), 4000, cudaMemcpyHostToDevice, nullptr));
		host.assign(1000, 0);
		say("copied %ld", digest(x, 1000));
		say("unregister %d", cudaHostUnregister(host.data()));
		say("last %d", cudaGetLastError());
		TRY(cudaFree(x));
		say("reset %d", cudaDeviceReset());
	}
}

// page_locked_beside: host memory that one task page-locked, and that another task and a reset find.
void page_locked_beside()
{
	std::vector<int> host(1000, 7);
	int *made = nullptr;
	auto task = [&](const char *which, auto &&meanwhile) {
		int *x = device<int>(1000);
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 5));
		meanwhile();
		TRY(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
		say("%s %ld", which, digest(x, 1000));
		TRY(cudaFree(x));
	};
	task("locks", [&] {
		TRY(cudaHostRegister(host.data(), 4000, 0));
		TRY(cudaMallocHost(reinterpret_cast<void **>(&made), 4000));
	});
	task("asks", [&] {
		for (const int *memory : {host.data(), made}) {
			cudaPointerAttributes a[4] = {}; // CUDA 13's are larger
			TRY(cudaPointerGetAttributes(a, memory));
			say("type %d device %d", a->type, a->device);
		}
	});
	say("reset %d", cudaDeviceReset());
	task("locks again", [&] { TRY(cudaHostRegister(host.data(), 4000, 0)); });
	say("reset %d", cudaDeviceReset());
	state("after");
}

// variable_by_address: device memory that no task holds.
void variable_by_address()
{
	void *there = nullptr;
	register_variables();
	TRY(cudaFree(nullptr));
	TRY(cudaGetSymbolAddress(&there, table));
	for (int round : {1, 2}) {
		int *x = device<int>(8);
		TRY(cudaMemcpy(x, there, sizeof table, cudaMemcpyDefault));
		say("%d: %ld", round, digest(x, 8));
		TRY(cudaFree(x));
		TRY(cudaMemcpyToSymbol(table, static_cast<char *>(there) + 16, 16, 0, cudaMemcpyDefault));
	}
}

// heap_later: the device heap is made larger when there is a task.
void heap_later()
{
	size_t heap = 0;
	int *x = worked();
	say("set %d", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * mib));
	TRY(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
	say("heap %zu", heap / mib);
	TRY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * mib)); // no more than that
	TRY(cudaFree(x));
	x = worked(); // the next task's
	TRY(cudaFree(x));
}

// heap_refused: the device heap cannot be made larger, and then the program allocates as much.
void heap_refused()
{
	int *x = worked();
	say("set %d", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * mib));
	int *y = device<int>(48 * mib / sizeof(int));
	TRY(cudaMemset(y, 0, 48 * mib));
	TRY(cudaFree(y));
	TRY(cudaFree(x));
}

// own_pool: the device's pool is the program's own.
void own_pool()
{
	cudaStream_t s;
	cudaMemPool_t pool;
	cudaMemPoolProps props = {};
	void *memory = nullptr;
	uint64_t used = 0;
	int *x = device<int>(1000);

	props.allocType = 1; // cudaMemAllocationTypePinned
	props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaMemPoolCreate(&pool, &props));
	TRY(cudaDeviceSetMemPool(0, pool));
	TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 1));
	for (int round = 0; round < 2; round++) { // the second in the next task
		TRY(cudaMallocAsync(&memory, 4 * mib, s));
		TRY(cudaMemPoolGetAttribute(pool, 7, &used)); // cudaMemPoolAttrUsedMemCurrent
		say("used %lu", static_cast<unsigned long>(used));
		TRY(cudaFreeAsync(memory, s));
		TRY(cudaStreamSynchronize(s));
		if (round == 0)
			TRY(cudaFree(x));
	}
	TRY(cudaMemPoolDestroy(pool));
	TRY(cudaStreamDestroy(s));
	state("after");
}

// late_memory: a kernel is launched before anything is allocated.
void late_memory()
{
	void *p = nullptr;
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	say("first %d", cudaMalloc(&p, 64 * mib));
	say("second %d", cudaMalloc(&p, 4 * mib));
	TRY(cudaFree(p));
}
