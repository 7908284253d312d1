// runtime_stream.cc: streams, events, host functions and graphs.
#include "runtime.h"

namespace fake {

static auto &graphs = *new std::set<Graph *>;

int graph_of(const void *handle, Graph **out)
{
	*out = static_cast<Graph *>(const_cast<void *>(handle));
	return graphs.count(*out) != 0 ? 0 : node()->violation("use of a handle that is not a graph: " + text(handle));
}

static Graph *new_graph(const Graph &from) { return *graphs.insert(new Graph(from)).first; }

int instantiate(cudaGraph_t graph, void **out)
{
	Graph *g;
	int error = graph_of(graph, &g);

	if (error == 0)
		error = node()->make_local(self().device, g->local, false);
	if (error == 0)
		*out = new_graph({g->nodes, {}, g->local});
	return error;
}

static int end_graph(const void *handle)
{
	Graph *g;
	int error = graph_of(handle, &g);

	if (error == 0) {
		for (void *memory : g->owned)
			node()->release(memory, {Segment::device_memory});
		graphs.erase(g);
		delete g;
	}
	return error;
}

// on_stream is call for what takes a stream.
template <class F, class... A> cudaError_t on_stream(const char *name, cudaStream_t handle, F body, const A &...a)
{
	return call(name, Needs::context, [&]() -> int {
		Stream *s;
		int error = node()->stream(handle, self().device, &s);
		return error != 0 ? error : body(s);
	}, handle, a...);
}

template <class F> cudaError_t on_event(const char *name, cudaEvent_t handle, F body)
{
	return call(name, Needs::context, [&]() -> int {
		Event *e;
		int error = node()->event(handle, &e);
		return error != 0 ? error : body(e);
	}, handle);
}

} // namespace fake

using namespace fake;

static int make_stream(cudaStream_t *out, unsigned flags, int priority)
{
	*out = reinterpret_cast<cudaStream_t>(node()->make_stream(self().device, flags, priority));
	return 0;
}

API cudaError_t cudaStreamCreate(cudaStream_t *out)
{
	return call("cudaStreamCreate", Needs::context, [&] { return make_stream(out, 0, 0); });
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	return call("cudaStreamCreateWithFlags", Needs::context, [&] { return make_stream(out, flags, 0); }, flags);
}

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
	return call("cudaStreamCreateWithPriority", Needs::context, [&] {
		return make_stream(out, flags, priority);
	}, flags, priority);
}

API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return on_stream("cudaStreamDestroy", stream, [&](Stream *s) {
		return stream == nullptr ? error_handle : node()->end_stream(s);
	});
}

API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return on_stream("cudaStreamSynchronize", stream, [](Stream *s) {
		if (s->capture != nullptr)
			return 900;
		node()->run(s, s->submitted);
		node()->waited(s->device);
		return 0;
	});
}

API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return on_stream("cudaStreamQuery", stream, [](Stream *s) { return node()->poll({s, s->submitted}); });
}

API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	return on_stream("cudaStreamGetFlags", stream, [&](Stream *s) { *flags = s->flags; return 0; });
}

API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	return on_stream("cudaStreamGetPriority", stream, [&](Stream *s) { *priority = s->priority; return 0; });
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	return on_stream("cudaStreamWaitEvent", stream, [&](Stream *s) {
		Event *e;
		int error = node()->event(event, &e);
		return error != 0 ? error : node()->await(s, e);
	}, event);
}

API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *memory, size_t bytes, unsigned)
{
	return on_stream("cudaStreamAttachMemAsync", stream, [](Stream *) { return 0; }, memory, bytes);
}

API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data)
{
	return on_stream("cudaLaunchHostFunc", stream, [&](Stream *s) {
		node()->submit(s, Work([=] { function(data); return 0; }, {}, true));
		return 0;
	});
}

API cudaError_t cudaStreamAddCallback(cudaStream_t stream, void (*function)(cudaStream_t, cudaError_t, void *),
                                      void *data, unsigned)
{
	return on_stream("cudaStreamAddCallback", stream, [&](Stream *s) {
		node()->submit(s, Work([=] { function(stream, 0, data); return 0; }, {}, true));
		return 0;
	});
}

// ---- events

static int make_event(cudaEvent_t *out)
{
	*out = reinterpret_cast<cudaEvent_t>(node()->make_event(self().device));
	return 0;
}

API cudaError_t cudaEventCreate(cudaEvent_t *out)
{
	return call("cudaEventCreate", Needs::context, [&] { return make_event(out); });
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	return call("cudaEventCreateWithFlags", Needs::context, [&] { return make_event(out); }, flags);
}

API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return on_event("cudaEventDestroy", event, [](Event *e) { return node()->end_event(e); });
}

static cudaError_t record(const char *name, cudaEvent_t event, cudaStream_t stream)
{
	return on_stream(name, stream, [&](Stream *s) {
		Event *e;
		int error = node()->event(event, &e);
		return error != 0 ? error : node()->record(e, s);
	}, event);
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return record("cudaEventRecord", event, stream);
}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned)
{
	return record("cudaEventRecordWithFlags", event, stream);
}

API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return on_event("cudaEventSynchronize", event, [](Event *e) {
		if (e->mark.first != nullptr)
			node()->run(e->mark.first, e->mark.second);
		return 0;
	});
}

API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return on_event("cudaEventQuery", event, [](Event *e) { return node()->query(e); });
}

API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
	return on_event("cudaEventElapsedTime", from, [&](Event *a) {
		Event *b;
		int error = node()->event(to, &b);
		return error != 0 ? error : node()->elapsed(a, b, milliseconds);
	});
}

// ---- graphs: by capture; nodes run in the order of capture

API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
	return on_stream("cudaStreamBeginCapture", stream, [&](Stream *s) {
		if (stream == nullptr || s->capture != nullptr)
			return 900;
		s->capture = new_graph({});
		node()->captured.insert(s);
		return 0;
	}, mode);
}

API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
	return on_stream("cudaStreamEndCapture", stream, [&](Stream *s) {
		if (s->capture == nullptr)
			return static_cast<int>(cudaErrorInvalidValue);
		*out = reinterpret_cast<cudaGraph_t>(s->capture);
		s->capture = nullptr;
		node()->captured.erase(s);
		if (node()->spoilt.erase(s) == 0)
			return 0;
		int error = end_graph(*out);
		*out = nullptr;
		return error != 0 ? error : 901; // cudaErrorStreamCaptureInvalidated
	});
}

API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status)
{
	return on_stream("cudaStreamIsCapturing", stream, [&](Stream *s) {
		*status = s->capture != nullptr;
		return 0;
	});
}

API cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned)
{
	return call("cudaGraphCreate", Needs::context, [&] {
		*out = reinterpret_cast<cudaGraph_t>(new_graph({}));
		return 0;
	});
}

// Its later arguments differ between CUDA 11 and 12 and are not looked at.
API cudaError_t cudaGraphInstantiate(void **out, cudaGraph_t graph)
{
	return call("cudaGraphInstantiate", Needs::context, [&] { return instantiate(graph, out); }, graph);
}

API cudaError_t cudaGraphLaunch(void *executable, cudaStream_t stream)
{
	return on_stream("cudaGraphLaunch", stream, [&](Stream *s) {
		Graph *g;
		int error = graph_of(executable, &g);
		if (error == 0)
			for (const Work &work : g->nodes)
				node()->submit(s, work);
		return error;
	}, executable);
}

API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return call("cudaGraphDestroy", Needs::context, [&] { return end_graph(graph); }, graph);
}
API cudaError_t cudaGraphExecDestroy(void *executable)
{
	return call("cudaGraphExecDestroy", Needs::context, [&] { return end_graph(executable); }, executable);
}
