// structs.cc: events, streams and devices inside structures.
#include "program.h"

const CUmemLocation device_0 = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

// launch_events: a launch's attributes name events that are older than the device.
void launch_events()
{
	cudaEvent_t triggered, completed;
	cudaStream_t s, t;
	TRY(cudaEventCreate(&triggered));
	TRY(cudaEventCreate(&completed));
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaStreamCreateWithFlags(&t, 1));
	int *x = device<int>(1000), n = 1000, by = 4;
	TRY(cudaMemset(x, 0, 4000));
	TRY(cudaDeviceSynchronize());
	state("before");
	void *values[] = {&x, &n, &by};
	cudaLaunchAttribute attributes[3] = {};
	attributes[0].id = cudaLaunchAttributeDeviceUpdatableKernelNode;
	attributes[1].id = cudaLaunchAttributeProgrammaticEvent;
	attributes[1].val.launchCompletionEvent.event = triggered;
	attributes[2].id = cudaLaunchAttributeLaunchCompletionEvent;
	attributes[2].val.launchCompletionEvent.event = completed;
	cudaLaunchConfig_t config = {grid, block, 0, s, attributes, 3};
	for (unsigned i = 0; i < 3; i++) {
		config.numAttrs = 3 - i;
		attributes[0].val.deviceUpdatableKernelNode.devNode = nullptr;
		TRY(cudaLaunchKernelExC(&config, STUB(add), values));
		say("a node's handle: %d", attributes[0].val.deviceUpdatableKernelNode.devNode != nullptr);
	}
	TRY(cudaStreamWaitEvent(t, completed, 0)); // of the first launch
	TRY(cudaStreamWaitEvent(t, triggered, 0)); // of the second
	say("still the program's: %d", attributes[1].val.launchCompletionEvent.event == triggered &&
	    attributes[2].val.launchCompletionEvent.event == completed && config.stream == s);
	int value = 0;
	TRY(cudaMemcpyAsync(&value, x, sizeof value, cudaMemcpyDeviceToHost, t));
	TRY(cudaStreamSynchronize(t));
	say("after two %d", value);
	TRY(cudaStreamSynchronize(s));
	say("after three %ld", digest(x, 1000));
	TRY(cudaFree(x));
	for (cudaEvent_t e : {triggered, completed})
		TRY(cudaEventDestroy(e));
	for (cudaStream_t stream : {s, t})
		TRY(cudaStreamDestroy(stream));
	state("after");
}

static cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNodeParams *params)
{
	static bool second;
	cudaGraphNode_t node = nullptr;
	second = !second;
#if FAKE_NVCC == 13
	TRY(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, params));
#else
	if (second)
		TRY(cudaGraphAddNode(&node, graph, nullptr, 0, params));
	else
		TRY(cudaGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, params));
#endif
	return node;
}

static cudaGraphNodeParams event_node(int type, cudaEvent_t event)
{
	cudaGraphNodeParams p = {};
	p.type = type;
	p.event = event;
	return p;
}

// graph_nodes: nodes of every type that names events, devices and kernels.
void graph_nodes()
{
	cudaStream_t s;
	cudaEvent_t begin, first, second, third;
	for (cudaEvent_t *e : {&begin, &first, &second, &third})
		TRY(cudaEventCreate(e));
	TRY(cudaStreamCreateWithFlags(&s, 1));
	cudaGraph_t graph;
	TRY(cudaGraphCreate(&graph, 0));

	const CUmemAccessDesc access[] = {{device_0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	cudaGraphNodeParams alloc = {};
	alloc.type = cudaGraphNodeTypeMemAlloc;
	alloc.alloc = {{CU_MEM_ALLOCATION_TYPE_PINNED, 0, device_0, {}}, access, 1, 4 * mib, nullptr};
	cudaGraphNode_t node = add_node(graph, &alloc);
	say("memory %d device %d access %d", alloc.alloc.dptr != nullptr, alloc.alloc.poolProps.location.id,
	    alloc.alloc.accessDescs == access);
	cudaGraphNodeParams all = {};
	for (int i = 0; i < 2; i++)
		TRY(cudaGraphMemAllocNodeGetParams(node, &all.alloc));
	say("CUDA's %d device %d access %d", all.alloc.dptr == alloc.alloc.dptr, all.alloc.poolProps.location.id,
	    all.alloc.accessDescs->location.id);
#if FAKE_NVCC == 13
	TRY(cudaGraphNodeGetParams(node, &all));
	say("CUDA's type %d device %d access %d", all.type, all.alloc.poolProps.location.id,
	    all.alloc.accessDescs->location.id);
#endif
	cudaMemAllocNodeParams more = alloc.alloc;
	cudaGraphNode_t recording, waiting;
	more.dptr = nullptr;
	more.bytesize = mib;
	TRY(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &more));
	say("memory %d", more.dptr != nullptr && more.dptr != alloc.alloc.dptr);

	int *x = static_cast<int *>(alloc.alloc.dptr), *y = static_cast<int *>(more.dptr), n = 1000, by = 4;
	void *on_x[] = {&x, &n, &by}, *on_y[] = {&y, &n, &by};
	cudaGraphNodeParams kernel = {};
	kernel.kernel.kernel = {const_cast<void *>(STUB(add)), {200, 2, 1}, {128, 1, 1}, 0, on_x, nullptr};
	cudaGraphNode_t launch = add_node(graph, &kernel);
	const cudaKernelNodeParams large = {const_cast<void *>(STUB(add)), {3000, 1, 1}, {128, 1, 1}, 0, on_y, nullptr};
	TRY(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &large));
	cudaLaunchAttributeValue attribute = {};
	attribute.launchCompletionEvent.event = third;
	TRY(cudaGraphKernelNodeSetAttribute(launch, cudaLaunchAttributeProgrammaticEvent, &attribute));

	cudaGraphNodeParams record = event_node(cudaGraphNodeTypeEventRecord, first);
	cudaGraphNodeParams wait = event_node(cudaGraphNodeTypeWaitEvent, first);
	recording = add_node(graph, &record);
	waiting = add_node(graph, &wait);
	say("events %d %d", record.event == first, wait.event == first);
	cudaEvent_t told[3] = {};
	TRY(cudaGraphEventRecordNodeGetEvent(recording, &told[0]));
	TRY(cudaGraphEventWaitNodeGetEvent(waiting, &told[1]));
	TRY(cudaGraphEventRecordNodeSetEvent(recording, second));
	TRY(cudaGraphEventRecordNodeGetEvent(recording, &told[2]));
	TRY(cudaGraphKernelNodeGetAttribute(launch, cudaLaunchAttributeProgrammaticEvent, &attribute));
	say("CUDA's events %d %d %d %d", told[0] == first, told[1] == first, told[2] == second, attribute.launchCompletionEvent.event == third);
	cudaGraphNode_t another;
	TRY(cudaGraphAddEventRecordNode(&another, graph, nullptr, 0, third));
	TRY(cudaGraphEventRecordNodeGetEvent(another, &told[0]));
	say("CUDA's event %d", told[0] == third);
#if FAKE_NVCC == 13
	TRY(cudaGraphNodeGetParams(another, &all));
	say("CUDA's type %d event %d", all.type, all.event == third);
	TRY(cudaEGLStreamConsumerReleaseFrame(nullptr, nullptr, &s));
#endif
	wait.event = record.event = second;
	TRY(cudaGraphNodeSetParams(waiting, &wait));
	TRY(cudaGraphNodeSetParams(recording, &record));
	cudaGraphNodeParams free_x = {};
	free_x.type = cudaGraphNodeTypeMemFree;
	free_x.free = x;
	add_node(graph, &free_x);
	TRY(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, y));
	more.bytesize = 5 * mib; // as much as was freed
	TRY(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &more));

	cudaGraphExec_t executable;
	cudaGraphInstantiateParams instantiate = {0, s, nullptr, -1};
	TRY(cudaGraphInstantiateWithParams(&executable, graph, &instantiate));
	say("instantiated %d on %d", instantiate.result_out, instantiate.uploadStream == s);
	TRY(cudaEventRecord(begin, s));
	TRY(cudaGraphLaunch(executable, s));
	TRY(cudaStreamSynchronize(s));
	float ms = -1;
	TRY(cudaEventElapsedTime(&ms, begin, second));
	say("recorded %d", ms >= 0);
	record.event = third;
	TRY(cudaGraphExecNodeSetParams(executable, recording, &record));
	TRY(cudaGraphLaunch(executable, s));
	TRY(cudaStreamSynchronize(s));
	TRY(cudaEventElapsedTime(&ms, second, third));
	say("recorded again %d", ms > 0);
	TRY(cudaGraphExecDestroy(executable));
	TRY(cudaGraphDestroy(graph));
	for (cudaEvent_t e : {begin, first, second, third})
		TRY(cudaEventDestroy(e));
	TRY(cudaStreamDestroy(s));
	state("after");
}

// launch_list: the launch for several devices, which CUDA 13 no longer has.
void launch_list()
{
	cudaStream_t s;
	TRY(cudaStreamCreateWithFlags(&s, 1));
	int *x = device<int>(1000), n = 1000, by = 4;
	TRY(cudaMemset(x, 0, 4000));
	TRY(cudaDeviceSynchronize());
	state("before");
	void *values[] = {&x, &n, &by};
	cudaLaunchParams list[] = {{const_cast<void *>(STUB(add)), grid, block, values, 0, s}};
#if FAKE_NVCC == 13
	TRY(cudaLaunchCooperativeKernel(list->func, list->gridDim, list->blockDim, list->args, 0, s));
#else
	TRY(cudaLaunchCooperativeKernelMultiDevice(list, 1, 0));
#endif
	say("still the program's: %d", list->stream == s);
	TRY(cudaStreamSynchronize(s));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	TRY(cudaStreamDestroy(s));
	state("after");
}

// peer_copies: copies between devices that are the same device.
void peer_copies()
{
	cudaStream_t s;
	cudaPitchedPtr from, to;
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaMalloc3D(&from, {64, 4, 3}));
	TRY(cudaMalloc3D(&to, {64, 4, 3}));
	const int ints = static_cast<int>(from.pitch * 12 / 4);
	TRY(cudaMemset3D(from, 9, {64, 4, 3}));
	TRY(cudaMemset3D(to, 1, {64, 4, 3}));
	cudaMemcpy3DPeerParms copy = {};
	copy.srcPtr = from;
	copy.dstPtr = to;
	copy.dstPos = {8, 1, 1};
	copy.extent = {32, 2, 2};
	TRY(cudaMemcpy3DPeer(&copy));
	say("to %ld", digest(static_cast<int *>(to.ptr), ints));
	copy.dstPos = {};
	TRY(cudaMemcpy3DPeerAsync(&copy, s));
	TRY(cudaStreamSynchronize(s));
	say("to %ld devices %d %d", digest(static_cast<int *>(to.ptr), ints), copy.srcDevice, copy.dstDevice);
	TRY(cudaFree(from.ptr));
	TRY(cudaFree(to.ptr));
	TRY(cudaStreamDestroy(s));
	state("after");
}

static int place(const char *range, int attribute)
{
	int value = -3;
	TRY(cudaMemRangeGetAttribute(&value, sizeof value, attribute, range, mib));
	return value;
}

// ranges: where managed memory is to be and was sent.
void ranges()
{
	enum { set_preferred = 3, set_accessed_by = 5 }; // cudaMemoryAdvise
	char *x = nullptr, *y = nullptr;
	int accessed[3], preferred = -3, prefetched = -3;
	TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), mib, 1));
	TRY(cudaMallocManaged(reinterpret_cast<void **>(&y), mib, 1));
#if FAKE_NVCC == 13
	const CUmemLocation where = device_0, host = {2, 0}, node_1 = {3, 1}; // cudaMemLocationTypeHost, HostNuma
	TRY(cudaMemPrefetchAsync(x, mib, where, 0, nullptr));
#else
	const int where = 0, host = -1;
	TRY(cudaMemPrefetchAsync(x, mib, where, nullptr));
#endif
	TRY(cudaMemAdvise(x, mib, set_preferred, where));
	TRY(cudaMemAdvise(x, mib, set_accessed_by, host));
	TRY(cudaMemAdvise(x, mib, set_accessed_by, where));
	say("preferred %d prefetched %d", place(x, cudaMemRangeAttributePreferredLocation),
	    place(x, cudaMemRangeAttributeLastPrefetchLocation));
	say("elsewhere %d %d", place(y, cudaMemRangeAttributePreferredLocation),
	    place(y, cudaMemRangeAttributeLastPrefetchLocation));
	TRY(cudaMemRangeGetAttribute(accessed, sizeof accessed, cudaMemRangeAttributeAccessedBy, x, mib));
	say("accessed by %d %d %d", accessed[0], accessed[1], accessed[2]);
	memset(accessed, 0x55, sizeof accessed);
	void *data[] = {&preferred, accessed, &prefetched};
	size_t bytes[] = {4, sizeof accessed, 4};
	int which[] = {cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributeAccessedBy,
	               cudaMemRangeAttributeLastPrefetchLocation};
	TRY(cudaMemRangeGetAttributes(data, bytes, which, 3, x, mib));
	say("together %d %d %d %d %d", preferred, prefetched, accessed[0], accessed[1], accessed[2]);
#if FAKE_NVCC == 13
	TRY(cudaMemAdvise(y, mib, set_preferred, node_1));
	TRY(cudaMemPrefetchAsync(y, mib, where, 0, nullptr));
	for (char *range : {x, y})
		say("preferred %d %d prefetched %d %d", place(range, cudaMemRangeAttributePreferredLocationType),
		    place(range, cudaMemRangeAttributePreferredLocationId),
		    place(range, cudaMemRangeAttributeLastPrefetchLocationType),
		    place(range, cudaMemRangeAttributeLastPrefetchLocationId));
	data[1] = &prefetched;
	bytes[1] = 4;
	which[0] = cudaMemRangeAttributePreferredLocationId;
	which[1] = cudaMemRangeAttributeLastPrefetchLocationId;
	TRY(cudaMemRangeGetAttributes(data, bytes, which, 2, x, mib));
	say("together %d %d", preferred, prefetched);
#endif
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	state("after");
}
