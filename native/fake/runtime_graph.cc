// runtime_graph.cc: graphs whose nodes are made one by one; they run in that order,
// whatever their dependencies. Before CUDA 13 the functions for nodes of any type
// are those of CUDA 12. CUDA 11.8 does not have them.
#include <time.h>

#include <algorithm>

#include "runtime.h"

namespace fake {

struct Node {
	cudaGraph_t graph;
	size_t index; // in the graph and in what is instantiated from it
	int type;
	cudaMemAllocNodeParams alloc; // with access
	std::vector<CUmemAccessDesc> access;
	cudaEvent_t event; // that it records or waits for, or of its attribute
};
static auto &nodes = *new std::set<Node *>;

static int node_of(cudaGraphNode_t handle, Node **out)
{
	*out = reinterpret_cast<Node *>(handle);
	return nodes.count(*out) != 0 ? 0 : node()->violation("use of a handle that is not a node: " + text(handle));
}

static int64_t now()
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int idle_work() { return 0; }

// check_access: what a node gives access to has a context.
static int check_access(const cudaMemAllocNodeParams &p)
{
	for (size_t i = 0; i < p.accessDescCount; i++)
		if (const int id = p.accessDescs[i].location.id;
		    static_cast<size_t>(id) >= node()->devices.size() || !node()->devices[static_cast<size_t>(id)].live)
			return node()->violation("access to a graph's memory for device " + text(id) + ", which has no context");
	return 0;
}

static int allocate(Graph *g, cudaMemAllocNodeParams *p)
{
	const CUmemLocation at = p->poolProps.location;

	if (at.type != CU_MEM_LOCATION_TYPE_DEVICE || static_cast<size_t>(at.id) >= node()->devices.size())
		return cudaErrorInvalidValue;
	if (int error = check_access(*p); error != 0)
		return error;
	int error = node()->allocate(Segment::device_memory, at.id, p->bytesize, &p->dptr);
	if (error == 0)
		g->owned.push_back(p->dptr);
	return error;
}

static int kernel(const cudaKernelNodeParams &k, Work *out)
{
	return kernel_work(k.func, k.gridDim, k.blockDim, k.kernelParams, k.sharedMemBytes, self().device, out);
}

static int work_of(Graph *g, cudaGraphNodeParams *p, Work *out)
{
	Event *e;
	int error = 0;

	*out = idle_work;
	switch (p->type) {
	case cudaGraphNodeTypeKernel:
		g->local = std::max(g->local, local_bytes(p->kernel.kernel.func));
		return kernel(p->kernel.kernel, out);
	case cudaGraphNodeTypeMemAlloc: return allocate(g, &p->alloc);
	case cudaGraphNodeTypeMemFree: return 0; // there as long as the graph
	case cudaGraphNodeTypeWaitEvent: return node()->event(p->event, &e);
	case cudaGraphNodeTypeEventRecord:
		error = node()->event(p->event, &e);
		*out = [e] { e->time = std::make_shared<int64_t>(now()); return 0; };
		return error;
	default: return cudaErrorInvalidValue;
	}
}

static bool names_event(int type) { return type == cudaGraphNodeTypeWaitEvent || type == cudaGraphNodeTypeEventRecord; }

static int append(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNodeParams &p, Graph *g, Work work)
{
	g->nodes.push_back(std::move(work));
	Node *made = new Node{graph, g->nodes.size() - 1, p.type, {}, {}, nullptr};
	if (names_event(p.type))
		made->event = p.event;
	if (p.type == cudaGraphNodeTypeMemAlloc) {
		made->alloc = p.alloc;
		made->access.assign(p.alloc.accessDescs, p.alloc.accessDescs + p.alloc.accessDescCount);
		made->alloc.accessDescs = made->access.data();
	}
	*out = reinterpret_cast<cudaGraphNode_t>(*nodes.insert(made).first);
	return 0;
}

// The access descriptors in the answer belong to the node, and nobody else may change them.
static cudaError_t read_alloc(const char *name, cudaGraphNode_t handle, cudaMemAllocNodeParams *out)
{
	return call(name, Needs::context, [&] {
		Node *n;
		int error = node_of(handle, &n);
		if (error == 0 && n->type != cudaGraphNodeTypeMemAlloc)
			error = cudaErrorInvalidValue;
		if (error == 0)
			error = check_access(n->alloc);
		if (error == 0)
			*out = n->alloc;
		return error;
	}, handle);
}

static cudaError_t add(const char *name, cudaGraphNode_t *out, cudaGraph_t graph, cudaGraphNodeParams *p)
{
	return call(name, Needs::context, [&] {
		Graph *g;
		Work work;
		int error = graph_of(graph, &g);
		if (error == 0)
			error = work_of(g, p, &work);
		return error == 0 ? append(out, graph, *p, g, std::move(work)) : error;
	}, p->type);
}

static cudaError_t read_event(const char *name, cudaGraphNode_t handle, int type, cudaEvent_t *out)
{
	return call(name, Needs::context, [&] {
		Node *n;
		int error = node_of(handle, &n);
		if (error == 0 && n->type != type)
			error = cudaErrorInvalidValue;
		if (error == 0)
			*out = n->event;
		return error;
	}, handle);
}

// Parameters of a node in its graph, or in what was instantiated from it.
static int change(const void *in, const Node &n, cudaGraphNodeParams *p)
{
	Graph *g;
	int error = graph_of(in, &g);

	if (error == 0 && (p->type != n.type || p->type == cudaGraphNodeTypeMemAlloc || n.index >= g->nodes.size()))
		error = cudaErrorInvalidValue;
	return error == 0 ? work_of(g, p, &g->nodes[n.index]) : error;
}

static int change_in_graph(cudaGraphNode_t handle, cudaGraphNodeParams *p)
{
	Node *n;
	int error = node_of(handle, &n);

	if (error == 0)
		error = change(n->graph, *n, p);
	if (error == 0 && names_event(p->type))
		n->event = p->event;
	return error;
}

} // namespace fake

using namespace fake;

#if FAKE_CUDART >= 13000
API cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, const void *, size_t,
                                 cudaGraphNodeParams *params)
{
	return add("cudaGraphAddNode", out, graph, params);
}
#else
API cudaError_t cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                 cudaGraphNodeParams *params)
{
	return add("cudaGraphAddNode", out, graph, params);
}

API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, const void *,
                                    size_t, cudaGraphNodeParams *params)
{
	return add("cudaGraphAddNode_v2", out, graph, params);
}
#endif

API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                       const cudaKernelNodeParams *params)
{
	cudaGraphNodeParams any = {};
	any.kernel.kernel = *params;
	return add("cudaGraphAddKernelNode", out, graph, &any);
}

API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                         cudaMemAllocNodeParams *params)
{
	cudaGraphNodeParams any = {};
	any.type = cudaGraphNodeTypeMemAlloc;
	any.alloc = *params;
	cudaError_t error = add("cudaGraphAddMemAllocNode", out, graph, &any);
	params->dptr = any.alloc.dptr;
	return error;
}

API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                        void *memory)
{
	cudaGraphNodeParams any = {};
	any.type = cudaGraphNodeTypeMemFree;
	any.free = memory;
	return add("cudaGraphAddMemFreeNode", out, graph, &any);
}

API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t handle, cudaMemAllocNodeParams *out)
{
	return read_alloc("cudaGraphMemAllocNodeGetParams", handle, out);
}

#if FAKE_CUDART >= 13000
API cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t handle, cudaGraphNodeParams *out)
{
	Node *n;
	if (node_of(handle, &n) != 0)
		return cudaErrorInvalidResourceHandle;
	out->type = n->type;
	return names_event(n->type) ? read_event("cudaGraphNodeGetParams", handle, n->type, &out->event) :
	       read_alloc("cudaGraphNodeGetParams", handle, &out->alloc);
}
#endif

API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t handle, cudaGraphNodeParams *params)
{
	return call("cudaGraphNodeSetParams", Needs::context, [&] { return change_in_graph(handle, params); }, handle);
}

API cudaError_t cudaGraphExecNodeSetParams(void *executable, cudaGraphNode_t handle, cudaGraphNodeParams *params)
{
	return call("cudaGraphExecNodeSetParams", Needs::context, [&] {
		Node *n;
		int error = node_of(handle, &n);
		return error == 0 ? change(executable, *n, params) : error;
	}, executable, handle);
}

API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t handle, int id, const cudaLaunchAttributeValue *value)
{
	return call("cudaGraphKernelNodeSetAttribute", Needs::context, [&] {
		Node *n;
		Event *e;
		int error = node_of(handle, &n);
		if (error == 0 && id == cudaLaunchAttributeProgrammaticEvent)
			error = node()->event(n->event = value->launchCompletionEvent.event, &e);
		return error;
	}, handle, id);
}

API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t handle, int, cudaLaunchAttributeValue *out)
{
	return read_event("cudaGraphKernelNodeGetAttribute", handle, cudaGraphNodeTypeKernel, &out->launchCompletionEvent.event);
}

API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *, size_t, cudaEvent_t event)
{
	cudaGraphNodeParams any = {};
	any.type = cudaGraphNodeTypeEventRecord;
	any.event = event;
	return add("cudaGraphAddEventRecordNode", out, graph, &any);
}

API cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t handle, cudaEvent_t event)
{
	cudaGraphNodeParams any = {};
	any.type = cudaGraphNodeTypeEventRecord;
	any.event = event;
	return call("cudaGraphEventRecordNodeSetEvent", Needs::context, [&] { return change_in_graph(handle, &any); }, handle);
}

API cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t handle, cudaEvent_t *out)
{
	return read_event("cudaGraphEventRecordNodeGetEvent", handle, cudaGraphNodeTypeEventRecord, out);
}

API cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t handle, cudaEvent_t *out)
{
	return read_event("cudaGraphEventWaitNodeGetEvent", handle, cudaGraphNodeTypeWaitEvent, out);
}

#if FAKE_CUDART >= 13000 // nothing but the stream is looked at
API cudaError_t cudaEGLStreamConsumerReleaseFrame(void *, void *, cudaStream_t *stream)
{
	return call("cudaEGLStreamConsumerReleaseFrame", Needs::context, [&] {
		Stream *s;
		return node()->stream(*stream, self().device, &s);
	});
}
#endif

API cudaError_t cudaGraphInstantiateWithParams(void **out, cudaGraph_t graph, cudaGraphInstantiateParams *params)
{
	return call("cudaGraphInstantiateWithParams", Needs::context, [&] {
		Stream *s;
		int error = node()->stream(params->uploadStream, self().device, &s);
		params->result_out = error != 0;
		return error == 0 ? instantiate(graph, out) : error;
	}, graph);
}
