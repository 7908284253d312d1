// locations.cc: memory locations and devices in what came with CUDA 12 and 13.
#include "program.h"

const CUmemLocation device_0 = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {2, 0}; // cudaMemLocationTypeHost

static void copy_batch(const void **to, const void **from, const size_t *bytes, size_t count,
                       cudaMemcpyAttributes *attributes, size_t *first, size_t kinds, cudaStream_t s)
{
#if FAKE_NVCC == 13
	TRY(cudaMemcpyBatchAsync(to, from, bytes, count, attributes, first, kinds, s));
#else
	size_t failed = 17;
	TRY(cudaMemcpyBatchAsync(to, from, bytes, count, attributes, first, kinds, &failed, s));
	say("failed %zu", failed);
#endif
}

static void copy_3d_batch(size_t count, cudaMemcpy3DBatchOp *copies, cudaStream_t s)
{
#if FAKE_NVCC == 13
	TRY(cudaMemcpy3DBatchAsync(count, copies, 0, s));
#else
	size_t failed = 17;
	TRY(cudaMemcpy3DBatchAsync(count, copies, &failed, 0, s));
	say("failed %zu", failed);
#endif
}

// batches: copies in batches, in a stream that is older than the device.
void batches()
{
	cudaStream_t s;
	std::vector<int> a = numbers(1000, 3), b = numbers(1000, 40), back(1000);
	TRY(cudaStreamCreateWithFlags(&s, 1));
	int *x = device<int>(1000), *y = device<int>(1000), *z = device<int>(1000);
	TRY(cudaMemset(z, 1, 4000));
	state("before");
	const void *to[] = {x, y}, *from[] = {a.data(), b.data()};
	size_t bytes[] = {4000, 4000}, first[] = {0, 1};
	cudaMemcpyAttributes attributes[] = {{1, host, device_0, 0}, {1, device_0, device_0, 0}};
	copy_batch(to, from, bytes, 2, attributes, first, 2, s);
	say("in the stream: %d", cudaStreamQuery(s) == cudaErrorNotReady);
	TRY(cudaStreamSynchronize(s));
	say("x %ld y %ld z %ld", digest(x, 1000), digest(y, 1000), digest(z, 1000));
	cudaMemcpy3DBatchOp rows[2] = {};
	for (cudaMemcpy3DBatchOp &op : rows) {
		op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
		op.src.op.ptr = {x, 100, 4, device_0};
		op.dst.op.ptr = {&op == rows ? y : z, 200, 4, device_0};
		op.extent = {40, 4, 2};
		op.srcAccessOrder = 1;
	}
	copy_3d_batch(2, rows, s);
	say("in the stream: %d", cudaStreamQuery(s) == cudaErrorNotReady);
	TRY(cudaStreamSynchronize(s));
	say("y %ld z %ld", digest(y, 1000), digest(z, 1000));
#if FAKE_NVCC == 13
	TRY(cudaMemcpyWithAttributesAsync(back.data(), y, 4000, attributes + 1, s));
	TRY(cudaStreamSynchronize(s));
	say("back %d %d", back[0], back[60]);
	rows[1].src.op.ptr.ptr = y;
	TRY(cudaMemcpy3DWithAttributesAsync(rows + 1, 0, s));
	TRY(cudaStreamSynchronize(s));
	say("z %ld", digest(z, 1000));
#endif
	say("still the program's: %d", attributes[1].srcLocHint.id == 0 && rows[1].dst.op.ptr.locHint.id == 0);
	for (int *p : {x, y, z})
		TRY(cudaFree(p));
	TRY(cudaStreamDestroy(s));
	state("after");
}

// prefetches: managed memory, in batches.
void prefetches()
{
#if FAKE_NVCC == 13
	cudaStream_t s;
	void *x = nullptr, *y = nullptr;
	int place = -3;
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaMallocManaged(&x, mib, 1));
	TRY(cudaMallocManaged(&y, mib, 1));
	void *ranges[] = {x, y};
	size_t bytes[] = {mib, mib}, first[] = {0, 1};
	CUmemLocation to[] = {host, device_0};
	TRY(cudaMemPrefetchBatchAsync(ranges, bytes, 2, to, first, 2, 0, s));
	TRY(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributeLastPrefetchLocation, x, mib));
	say("x on %d", place);
	TRY(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributeLastPrefetchLocation, y, mib));
	say("y on %d", place);
	TRY(cudaMemDiscardAndPrefetchBatchAsync(ranges, bytes, 2, to + 1, first, 1, 0, s));
	TRY(cudaMemRangeGetAttribute(&place, sizeof place, cudaMemRangeAttributeLastPrefetchLocation, x, mib));
	say("x on %d, still the program's: %d", place, to[1].id == 0);
	TRY(cudaMemDiscardBatchAsync(ranges, bytes, 2, 0, s));
	TRY(cudaStreamSynchronize(s));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(cudaStreamDestroy(s));
	state("after");
#endif
}

// execution_contexts: a green context on the device, and the device's own.
void execution_contexts()
{
#if FAKE_NVCC == 13
	long resource[32] = {}; // larger than cudaDevResource
	void *description = nullptr, *green = nullptr, *own = nullptr;
	cudaEvent_t event;
	cudaStream_t s;
	int on = -1;
	TRY(cudaEventCreate(&event));
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 1, 4000));
	TRY(cudaDeviceGetDevResource(0, resource, 1)); // cudaDevResourceTypeSm
	TRY(cudaDevResourceGenerateDesc(&description, resource, 1));
	TRY(cudaGreenCtxCreate(&green, description, 0, 0));
	TRY(cudaDeviceGetExecutionCtx(&own, 0));
	for (void *context : {green, own}) {
		TRY(cudaExecutionCtxGetDevice(&on, context));
		say("context on %d", on);
	}
	TRY(cudaExecutionCtxStreamCreate(&s, green, 1, 0));
	TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 3));
	TRY(cudaExecutionCtxRecordEvent(green, event));
	TRY(cudaExecutionCtxSynchronize(green));
	say("x %ld", digest(x, 1000));
	TRY(cudaStreamDestroy(s));
	TRY(cudaExecutionCtxDestroy(green));
	TRY(cudaFree(x));
	TRY(cudaEventDestroy(event));
	state("after");
#endif
}

// questions: what CUDA says of a kernel, a pool and an array, asked before anything
// else needs the device.
void questions()
{
	int blocks = 0, where = -1;
	cudaStream_t s;
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, STUB(add), 96, 0));
	say("blocks %d", blocks);
	const cudaLaunchConfig_t config = {grid, block, 0, s, nullptr, 0};
	TRY(cudaOccupancyMaxActiveClusters(&blocks, STUB(add), &config));
	say("clusters %d", blocks);
	TRY(cudaStreamDestroy(s));
	cudaMemPool_t pool;
	const cudaMemPoolProps props = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, device_0, {}};
	TRY(cudaMemPoolCreate(&pool, &props));
	TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrLocationId, &where));
	say("pool on %d", where);
	TRY(cudaMemPoolDestroy(pool));
	const cudaChannelFormatDesc format = {32, 0, 0, 0, 0};
	cudaArray_t array;
	size_t needs[4] = {}; // cudaArrayMemoryRequirements
	TRY(cudaMallocArray(&array, &format, 64, 8, 0));
	TRY(cudaArrayGetMemoryRequirements(needs, array, 0));
	say("array of %zu", needs[0]);
	TRY(cudaFreeArray(array));
	state("after");
}

// Under task binding these are devices that the program does not see.
void unseen_devices()
{
#if FAKE_NVCC == 13
	char *x = device<char>(mib);
	say("a copy %d", cudaMemcpyPeer(x, 2, x + 1000, 0, 1000));
	TRY(cudaFree(x));
	TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), mib, 1));
	const CUmemLocation other = {CU_MEM_LOCATION_TYPE_DEVICE, 2}, part = {CU_MEM_LOCATION_TYPE_INVISIBLE + 1, 0};
	say("another device %d", cudaMemPrefetchAsync(x, mib, other, 0, nullptr));
	say("part of a device %d", cudaMemPrefetchAsync(x, mib, part, 0, nullptr));
	TRY(cudaMemPrefetchAsync(x, mib, device_0, 0, nullptr));
	TRY(cudaFree(x));
	state("after");
#endif
}

// init_flags: flags of a device that is chosen later.
void init_flags()
{
	TRY(cudaInitDevice(0, 4, cudaInitDeviceFlagsAreValid)); // cudaDeviceScheduleBlockingSync
	state("made");
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 1, 4000));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	state("after");
}
