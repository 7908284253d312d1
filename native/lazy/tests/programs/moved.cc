// moved.cc: programs that the scheduler moves to another device while they wait for a line. Each has another kind of state.
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <functional>

#include "program.h"

static const int n = 3 << 20; // ints: two chunks of 8 MiB

// Uses is what a program does later with the state that it has made.
using Uses = std::function<void()>;

static Uses streams_and_events()
{
	static cudaStream_t low, high;
	static cudaEvent_t begin, end, plain;
	static int *x;
	TRY(cudaStreamCreateWithFlags(&low, 1));
	TRY(cudaStreamCreateWithPriority(&high, 0, -3));
	TRY(cudaEventCreate(&begin));
	TRY(cudaEventCreate(&end));
	TRY(cudaEventCreateWithFlags(&plain, 2));
	x = device<int>(1000);
	TRY(cudaMemsetAsync(x, 0, 4000, low));
	TRY(cudaEventRecord(begin, low));
	TRY(LAUNCH(add, grid, block, 0, low, x, 1000, 1));
	TRY(cudaEventRecord(plain, low));
	TRY(cudaStreamWaitEvent(high, plain, 0));
	return [] {
		unsigned flags[2] = {9, 9};
		int priorities[2] = {9, 9};
		float ms = -1, none = -1;
		say("reached %d %d %d", cudaEventSynchronize(plain), cudaEventQuery(begin), cudaStreamSynchronize(high));
		TRY(LAUNCH(add, grid, block, 0, high, x, 1000, 2));
		TRY(cudaEventRecord(end, high));
		TRY(cudaEventSynchronize(end));
		TRY(cudaEventElapsedTime(&ms, begin, end));
		TRY(cudaEventElapsedTime(&none, begin, begin));
		for (int i : {0, 1}) {
			TRY(cudaStreamGetFlags(i == 0 ? low : high, &flags[i]));
			TRY(cudaStreamGetPriority(i == 0 ? low : high, &priorities[i]));
		}
		say("flags %u %u priorities %d %d timed %d %d x %ld", flags[0], flags[1], priorities[0], priorities[1], ms > 0, none == 0, digest(x, 1000));
		for (cudaEvent_t e : {begin, end, plain})
			TRY(cudaEventDestroy(e));
		for (cudaStream_t s : {low, high})
			TRY(cudaStreamDestroy(s));
		TRY(cudaFree(x));
	};
}

static Uses variables()
{
	static int *x, *counted;
	register_variables();
	x = device<int>(8);
	counted = device<int>(1);
	const int values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	TRY(cudaMemcpyToSymbol(static_cast<const void *>(table), values, sizeof values, 0, cudaMemcpyHostToDevice));
	TRY(cudaMemset(x, 0, 32));
	TRY(LAUNCH(step_counter, grid, block, 0, nullptr, counted));
	return [] {
		int back[8] = {}, count = 0;
		TRY(LAUNCH(use_table, grid, block, 0, nullptr, x, 8));
		TRY(LAUNCH(step_counter, grid, block, 0, nullptr, counted));
		TRY(cudaMemcpy(&count, counted, 4, cudaMemcpyDeviceToHost));
		TRY(cudaMemcpyFromSymbol(back, static_cast<const void *>(table), sizeof back, 0, cudaMemcpyDeviceToHost));
		say("x %ld counted %d table %d %d", digest(x, 8), count, back[0], back[7]);
		TRY(cudaFree(x));
		TRY(cudaFree(counted));
	};
}

static Uses pointers() // in memory of the device
{
	static int **lists, *parts[3];
	for (int *&part : parts) {
		part = device<int>(500);
		TRY(cudaMemset(part, 0, 2000));
	}
	lists = device<int *>(3);
	TRY(cudaMemcpy(lists, parts, sizeof parts, cudaMemcpyHostToDevice));
	return [] {
		TRY(LAUNCH(follow, grid, block, 0, nullptr, lists, 3, 500));
		say("parts %ld %ld", digest(parts[1], 500), digest(parts[2], 500));
		for (int *part : parts)
			TRY(cudaFree(part));
		TRY(cudaFree(lists));
	};
}

static Uses page_locked()
{
	static int *made, mine[1000], *mapped, *seen, *seen_mine;
	static int *x;
	TRY(cudaMallocHost(reinterpret_cast<void **>(&made), 4000));
	TRY(cudaHostRegister(mine, sizeof mine, 0));
	TRY(cudaHostAlloc(reinterpret_cast<void **>(&mapped), 4000, 2)); // cudaHostAllocMapped
	TRY(cudaHostGetDevicePointer(reinterpret_cast<void **>(&seen), mapped, 0));
	TRY(cudaHostGetDevicePointer(reinterpret_cast<void **>(&seen_mine), mine, 0));
	x = device<int>(1000);
	for (int i = 0; i < 1000; i++)
		made[i] = mapped[i] = mine[i] = i;
	TRY(LAUNCH(add, grid, block, 0, nullptr, seen, 1000, 1));
	return [] {
		TRY(LAUNCH(add, grid, block, 0, nullptr, seen, 1000, 1)); // as each device sees it
		TRY(LAUNCH(add, grid, block, 0, nullptr, seen_mine, 1000, 3));
		TRY(cudaDeviceSynchronize());
		say("mapped %d mine %d", mapped[999], mine[999]);
		TRY(cudaFreeHost(mapped));
		TRY(cudaMemcpyAsync(x, made, 4000, cudaMemcpyHostToDevice, nullptr));
		TRY(cudaMemcpyAsync(mine, x, 4000, cudaMemcpyDeviceToHost, nullptr));
		TRY(cudaDeviceSynchronize());
		say("mine %d", mine[999]);
		TRY(cudaHostUnregister(mine));
		TRY(cudaFreeHost(made));
		TRY(cudaFree(x));
	};
}

static Uses in_order_of_a_stream()
{
	static cudaStream_t s;
	static void *left;
	void *gone;
	TRY(cudaStreamCreate(&s));
	TRY(cudaMallocAsync(&gone, 4 << 20, s));
	TRY(cudaMallocAsync(&left, 4 << 20, s));
	TRY(cudaMemsetAsync(left, 1, 4000, s));
	TRY(cudaFreeAsync(gone, s));
	return [] {
		void *again;
		TRY(cudaMallocAsync(&again, 4 << 20, s));
		TRY(cudaMemcpyAsync(again, left, 4000, cudaMemcpyDeviceToDevice, s));
		say("again %ld", digest(static_cast<int *>(again), 1000));
		TRY(cudaFreeAsync(again, s));
		TRY(cudaFreeAsync(left, s));
		TRY(cudaStreamSynchronize(s));
		TRY(cudaStreamDestroy(s));
	};
}

static Uses beyond() // what is read and written beside an allocation
{
	static int *x;
	x = device<int>(1 << 20);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x - 8, 4, 3));
	return [] {
		TRY(LAUNCH(add, grid, block, 0, nullptr, x - 8, 4, -3));
		say("beside %d", cudaDeviceSynchronize());
		TRY(cudaFree(x));
	};
}

static Uses limits_and_attributes()
{
	static int *x;
	x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 7 << 20));
	TRY(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	TRY(cudaDeviceSetLimit(5, 64)); // cudaLimitMaxL2FetchGranularity
	TRY(cudaSetDeviceFlags(4)); // cudaDeviceScheduleBlockingSync
	TRY(cudaDeviceSetCacheConfig(1));
	TRY(cudaFuncSetCacheConfig(STUB(add), 2));
	TRY(cudaDeviceSetSharedMemConfig(2)); // cudaSharedMemBankSizeEightByte
	TRY(cudaFuncSetSharedMemConfig(STUB(add), 1));
	TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributeMaxDynamicSharedMemorySize, 90000));
	TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributeMaxDynamicSharedMemorySize, 100000)); // the last counts
	return [] {
		size_t heap = 0, stack = 0, granularity = 0;
		TRY(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
		TRY(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
		TRY(cudaDeviceGetLimit(&granularity, 5));
		TRY(LAUNCH(add, grid, block, 100000, nullptr, x, 1000, 1));
		say("heap %zu stack %zu granularity %zu x %ld", heap, stack, granularity, digest(x, 1000));
		TRY(cudaFree(x));
	};
}

static Uses nothing_more() { return [] {}; }

// What keeps a program on its device.
static Uses array()
{
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	static cudaArray_t made;
	TRY(cudaMallocArray(&made, &ints, 1 << 10, 1 << 10, 0));
	return [] { TRY(cudaFreeArray(made)); };
}

static Uses texture()
{
	static unsigned long long made;
	TRY(cudaCreateTextureObject(&made, nullptr, nullptr, nullptr));
	return [] { TRY(cudaDestroyTextureObject(made)); };
}

static Uses graph()
{
	static cudaGraph_t made;
	static cudaGraphExec_t executable;
	TRY(cudaGraphCreate(&made, 0));
	TRY(cudaGraphInstantiate(&executable, made, 0, nullptr, 0));
	return [] {
		TRY(cudaGraphLaunch(executable, nullptr));
		TRY(cudaGraphExecDestroy(executable));
		TRY(cudaGraphDestroy(made));
	};
}

static Uses pool()
{
	cudaMemPool_t pool;
	uint64_t keep = 1 << 20;
	TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
	TRY(cudaMemPoolSetAttribute(pool, 4, &keep)); // cudaMemPoolAttrReleaseThreshold
	return nothing_more();
}

static Uses managed_memory()
{
	static void *made;
	TRY(cudaMallocManaged(&made, 4000, 1));
	return [] { TRY(cudaFree(made)); };
}

static Uses symbol()
{
	void *there = nullptr;
	register_variables();
	TRY(cudaGetSymbolAddress(&there, table));
	return nothing_more();
}

static Uses capture()
{
	static cudaStream_t s;
	TRY(cudaStreamCreate(&s));
	TRY(cudaStreamBeginCapture(s, 2));
	return [] {
		cudaGraph_t made;
		TRY(cudaStreamEndCapture(s, &made));
		TRY(cudaGraphDestroy(made));
		TRY(cudaStreamDestroy(s));
	};
}

static Uses own_context_there()
{
	static CUcontext own;
	TRY(driver_call<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2")(&own, 0, 0));
	TRY(cudaSetDevice(0)); // whose context is the thread's again
	return [] { TRY(driver_call<CUresult(CUcontext)>("cuCtxDestroy_v2")(own)); };
}

static std::atomic<bool> moves, exits;
static const int last_at_exit = atexit([] { exits = true; }); // it was registered first

// ends: the program ends while it is moved, and its exit waits for that.
static Uses ends()
{
	meanwhile("cuMemAddressReserve", FAKE_CUDA_BEFORE, [] {
		moves = true;
		for (int ms = 0; ms < 100 && !exits; ms++)
			usleep(1000);
		say(exits ? "the exit does not wait" : "the exit waits");
	});
	return [] {
		while (!moves)
			usleep(1000);
		exit(0);
	};
}

static const struct {
	const char *name;
	Uses (*begin)();
} ways[] = {{"memory", nothing_more}, {"streams", streams_and_events}, {"variables", variables}, {"pointers", pointers}, {"page_locked", page_locked},
            {"in_order", in_order_of_a_stream}, {"settings", limits_and_attributes}, {"beyond", beyond}, {"array", array}, {"texture", texture}, {"graph", graph}, {"pool", pool},
            {"managed", managed_memory}, {"symbol", symbol}, {"capture", capture}, {"own_context", own_context_there}, {"ends", ends}};

// moved: the test moves the program when it says "bound", and perhaps again after each line.
void moved(const char *way)
{
	for (const auto &w : ways) {
		if (strcmp(w.name, way) != 0)
			continue;
		const std::vector<int> host = numbers(n, 7);
		int *x = device<int>(n), *y = device<int>(1000);
		TRY(cudaMemcpy(x, host.data(), host.size() * sizeof(int), cudaMemcpyHostToDevice));
		TRY(cudaMemset(y, 0, 4000));
		TRY(LAUNCH(add, grid, block, 0, nullptr, y, 1000, 1));
		const Uses uses = w.begin();
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1)); // under way
		wait_after("bound");
		uses();
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 2));
		wait_after("computed");
		TRY(LAUNCH(add, grid, block, 0, nullptr, y, 1000, 3));
		say("x %ld y %ld", digest(x, n), digest(y, 1000));
		TRY(cudaFree(x));
		TRY(cudaFree(y));
		TRY(cudaGetLastError());
		state("after");
		return;
	}
	exit(2);
}
