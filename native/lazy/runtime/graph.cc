// graph.cc: graph nodes, whose parameters name events, devices and kernels
// inside structures.
#include <map>
#include <vector>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/handles.h"
#include "launch/local_memory.h"
#include "launch/occupancy.h"
#include "launch/references.h"
#include "launch/submit_window.h"
#include "launch/work.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/graph_memory.h"
#include "task/report.h"
#include "task/submit_gate.h"
#include "task/task.h"


namespace lazy {
namespace {

// with_real runs a call that reads an allocation node's parameters and writes the
// address of its memory to them.
template <typename Run> cudaError_t with_real(cudaMemAllocNodeParams *params, Run run)
{
	cudaMemAllocNodeParams there = *params;
	std::vector<CUmemAccessDesc> access(there.accessDescs, there.accessDescs + there.accessDescCount);

	translate(&there.poolProps.location);
	for (CUmemAccessDesc &a : access)
		translate(&a.location);
	there.accessDescs = access.data();
	cudaError_t error = run(&there);
	params->dptr = there.dptr;
	return error;
}

// The same for any node. Parameters without virtual handles are passed on as the program's own,
// because CUDA writes to those of a conditional node.
template <typename Run> cudaError_t with_real(cudaGraphNodeParams *params, Run run)
{
	if (params == nullptr)
		return run(params);
	cudaGraphNodeParams there = *params;
	switch (params->type) {
	case cudaGraphNodeTypeWaitEvent:
	case cudaGraphNodeTypeEventRecord:
		there.event = real(params->event);
		return run(&there);
	case cudaGraphNodeTypeMemAlloc:
		return with_real(&params->alloc, [&](cudaMemAllocNodeParams *alloc) {
			there.alloc = *alloc;
			cudaError_t error = run(&there);
			alloc->dptr = there.alloc.dptr;
			return error;
		});
	default:
		return run(params);
	}
}

// show_alloc makes an allocation node's parameters, as CUDA tells them, the program's. The
// access descriptors are the node's own, so the program gets others, which stay.
void show_alloc(cudaGraphNode_t node, cudaMemAllocNodeParams *params)
{
	static auto *const shown = new std::map<cudaGraphNode_t, std::vector<CUmemAccessDesc>>;

	if (!one_device())
		return;
	show(&params->poolProps.location);
	if (params->accessDescs == nullptr)
		return;
	Locked locked;
	std::vector<CUmemAccessDesc> &access = (*shown)[node];
	access.assign(params->accessDescs, params->accessDescs + params->accessDescCount);
	for (CUmemAccessDesc &a : access)
		show(&a.location);
	params->accessDescs = access.data();
}

void tell(const cudaKernelNodeParams &k)
{
	launched(k.func, product(k.gridDim), static_cast<uint32_t>(product(k.blockDim)), k.sharedMemBytes);
}

// await_kernel_of makes room for the local memory of a node's kernel, which the graph needs when it is instantiated.
cudaError_t await_kernel_of(const char *call, const cudaKernelNodeParams *k)
{
	return k == nullptr ? cudaSuccess : await_local_memory(call, k->func, [] { return await_device(); });
}

cudaError_t await_kernel_of(const char *call, const cudaGraphNodeParams *params)
{
	if (params == nullptr || params->type != cudaGraphNodeTypeKernel)
		return cudaSuccess;
	if (params->kernel.functionType != cudaKernelFunctionTypeFunction)
		return await_kernel_of(call, &params->kernel.kernel);
	return await_local_memory_of(call, params->kernel.kernel.func);
}

template <typename Run> cudaError_t set_kernel(const char *call, const cudaKernelNodeParams *params, Run run)
{
	tie_here(Tie::call, call);
	cudaError_t error = await_kernel_of(call, params);
	if (error == cudaSuccess)
		error = await_device();
	if (error != cudaSuccess)
		return error;
	const Inspecting inspecting;
	return seen(run(), call);
}

// add makes a node; `alloc` are its parameters if it allocates.
template <typename Params, typename Run>
cudaError_t add(const char *call, Params *params, const cudaMemAllocNodeParams *alloc, Run run)
{
	tie_here(Tie::graph, call);
	cudaError_t error = await_device();
	if (error == cudaSuccess && alloc != nullptr)
		error = await_graph_charge(call, alloc->bytesize, Task::here());
	if (error != cudaSuccess)
		return error;
	{
		const Inspecting inspecting;
		error = with_real(params, run);
	}
	error = seen(error, call);
	if (alloc != nullptr && error == cudaSuccess)
		graph_has(alloc->dptr, alloc->bytesize);
	else if (alloc != nullptr)
		graph_lacks(alloc->bytesize);
	return error;
}

template <typename Run> cudaError_t add_node(const char *call, cudaGraphNodeParams *params, Run run)
{
	const int type = params != nullptr ? params->type : -1;

	cudaError_t error = await_kernel_of(call, params);
	if (error == cudaSuccess)
		error = add(call, params, type == cudaGraphNodeTypeMemAlloc ? &params->alloc : nullptr, run);
	if (error != cudaSuccess)
		return error;
	if (type == cudaGraphNodeTypeMemFree)
		graph_frees(params->free);
	// The runtime does not know the occupancy of a driver's function.
	if (type == cudaGraphNodeTypeKernel && params->kernel.functionType != cudaKernelFunctionTypeFunction)
		tell(params->kernel.kernel);
	return error;
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *params)
{
	cudaError_t error = await_kernel_of("cudaGraphAddKernelNode", params);
	if (error == cudaSuccess)
		error = direct("cudaGraphAddKernelNode", [=] { return REAL(cudaGraphAddKernelNode)(node, graph, after, count, params); });
	if (error == cudaSuccess)
		tell(*params);
	return error;
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t count, cudaMemAllocNodeParams *params)
{
	if (params == nullptr)
		return fail(cudaErrorInvalidValue);
	return add("cudaGraphAddMemAllocNode", params, params, [=](cudaMemAllocNodeParams *there) {
		return REAL(cudaGraphAddMemAllocNode)(node, graph, after, count, there);
	});
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    size_t count, void *memory)
{
	cudaError_t error = direct_kept("cudaGraphAddMemFreeNode", [=] {
		return REAL(cudaGraphAddMemFreeNode)(node, graph, after, count, memory);
	});
	if (error == cudaSuccess)
		graph_frees(memory);
	return error;
}

// Before CUDA 13 it has no edges: the last three are count, params and nothing.
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, void *edges,
                             void *count, void *params)
{
	const bool last = runtime_13();

	return add_node("cudaGraphAddNode", static_cast<cudaGraphNodeParams *>(last ? params : count),
	                [=](cudaGraphNodeParams *there) {
		                return last ? REAL(cudaGraphAddNode)(node, graph, after, edges, count, there) :
		                       REAL(cudaGraphAddNode)(node, graph, after, edges, there, nullptr);
	                });
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                const void *edges, size_t count, cudaGraphNodeParams *params)
{
	return add_node("cudaGraphAddNode", params, [=](cudaGraphNodeParams *there) {
		return REAL(cudaGraphAddNode_v2)(node, graph, after, edges, count, there);
	});
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams *params)
{
	return direct_kept("cudaGraphMemAllocNodeGetParams", [=] {
		cudaError_t error = REAL(cudaGraphMemAllocNodeGetParams)(node, params);
		if (error == cudaSuccess)
			show_alloc(node, params);
		return error;
	});
}

cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t node, cudaGraphNodeParams *params)
{
	return direct_kept("cudaGraphNodeGetParams", [=] {
		cudaError_t error = REAL(cudaGraphNodeGetParams)(node, params);
		if (error == cudaSuccess && params->type == cudaGraphNodeTypeMemAlloc)
			show_alloc(node, &params->alloc);
		else if (error == cudaSuccess && (params->type == cudaGraphNodeTypeWaitEvent || params->type == cudaGraphNodeTypeEventRecord))
			params->event = shown(params->event);
		return error;
	});
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *params)
{
	if (cudaError_t error = await_kernel_of("cudaGraphNodeSetParams", params); error != cudaSuccess)
		return error;
	return direct_kept("cudaGraphNodeSetParams", [=] {
		return with_real(params, [=](cudaGraphNodeParams *there) {
			return REAL(cudaGraphNodeSetParams)(node, there);
		});
	});
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraphNodeParams *params)
{
	if (cudaError_t error = await_kernel_of("cudaGraphExecNodeSetParams", params); error != cudaSuccess)
		return error;
	return direct_kept("cudaGraphExecNodeSetParams", [=] {
		return with_real(params, [=](cudaGraphNodeParams *there) {
			return REAL(cudaGraphExecNodeSetParams)(executable, node, there);
		});
	});
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *params)
{
	return set_kernel("cudaGraphKernelNodeSetParams", params, [=] { return REAL(cudaGraphKernelNodeSetParams)(node, params); });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, const cudaKernelNodeParams *params)
{
	return set_kernel("cudaGraphExecKernelNodeSetParams", params,
	                  [=] { return REAL(cudaGraphExecKernelNodeSetParams)(executable, node, params); });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, int id, const cudaLaunchAttributeValue *value)
{
	return direct_kept("cudaGraphKernelNodeSetAttribute", [=] {
		if (value == nullptr || !names_event(id))
			return REAL(cudaGraphKernelNodeSetAttribute)(node, id, value);
		cudaLaunchAttributeValue there = *value;
		there.launchCompletionEvent.event = real(there.launchCompletionEvent.event);
		return REAL(cudaGraphKernelNodeSetAttribute)(node, id, &there);
	});
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, int id, cudaLaunchAttributeValue *value)
{
	return direct_kept("cudaGraphKernelNodeGetAttribute", [=] {
		const cudaError_t error = REAL(cudaGraphKernelNodeGetAttribute)(node, id, value);
		if (error == cudaSuccess && names_event(id))
			value->launchCompletionEvent.event = shown(value->launchCompletionEvent.event);
		return error;
	});
}

#define EVENT_OF_NODE(name)                                                             \
	cudaError_t name(cudaGraphNode_t node, cudaEvent_t *event)                      \
	{                                                                               \
		return direct_kept(#name, [=] {                                         \
			const cudaError_t error = REAL(name)(node, event);              \
			if (error == cudaSuccess)                                       \
				*event = shown(*event);                                 \
			return error;                                                   \
		});                                                                     \
	}
EVENT_OF_NODE(cudaGraphEventRecordNodeGetEvent)
EVENT_OF_NODE(cudaGraphEventWaitNodeGetEvent)

// Before CUDA 12 it also says which node failed: the last three are a node, a buffer and its size. Later the third are flags.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags, void *buffer, size_t bytes)
{
	return direct_loading<Inspecting>("cudaGraphInstantiate", [=] {
		working();
		return REAL(cudaGraphInstantiate)(executable, graph, flags, buffer, bytes);
	});
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
	return direct_loading<Inspecting>("cudaGraphInstantiateWithFlags", [=] {
		working();
		return REAL(cudaGraphInstantiateWithFlags)(executable, graph, flags);
	});
}

#define INSTANTIATE(name)                                                                                     \
	cudaError_t name(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphInstantiateParams *params)  \
	{                                                                                                     \
		return direct_loading<Submitting>("cudaGraphInstantiateWithParams", [=] {                                    \
			if (params == nullptr)                                                                \
				return REAL(name)(executable, graph, params);                                 \
			cudaGraphInstantiateParams there = *params;                                           \
			there.uploadStream = real(params->uploadStream);                                      \
			working();                                                                            \
			cudaError_t error = REAL(name)(executable, graph, &there);                            \
			params->errNode_out = there.errNode_out;                                              \
			params->result_out = there.result_out;                                                \
			return error;                                                                         \
		});                                                                                           \
	}
INSTANTIATE(cudaGraphInstantiateWithParams)
INSTANTIATE(cudaGraphInstantiateWithParams_ptsz)

#define GRAPH_LAUNCH(name, own)                                                                               \
	cudaError_t name(cudaGraphExec_t executable, cudaStream_t stream)                                     \
	{                                                                                                     \
		EXISTS(stream);                                                                               \
		await_window(real(stream), own);                                                              \
		references_unknown();                                                                         \
		return direct_loading<Submitting>("cudaGraphLaunch", [=] {                            \
			working();                                                                            \
			return REAL(name)(executable, real(stream));                                          \
		});                                                                                           \
	}
GRAPH_LAUNCH(cudaGraphLaunch, false)
GRAPH_LAUNCH(cudaGraphLaunch_ptsz, true)

#define GRAPH_UPLOAD(name)                                                                                     \
	cudaError_t name(cudaGraphExec_t executable, cudaStream_t stream)                                     \
	{                                                                                                     \
		EXISTS(stream);                                                                               \
		return direct_loading<Submitting>("cudaGraphUpload", [=] {                            \
			working();                                                                            \
			return REAL(name)(executable, real(stream));                                          \
		});                                                                                           \
	}
GRAPH_UPLOAD(cudaGraphUpload)
GRAPH_UPLOAD(cudaGraphUpload_ptsz)
