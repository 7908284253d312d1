// capture.cc: a capture of a stream begins and ends (task/stream_capture.h).
#include "abi/api.h"
#include "abi/symbols.h"
#include "device/handles.h"
#include "task/direct.h"
#include "task/stream_capture.h"

namespace lazy {
namespace {

template <typename End> cudaError_t end_capture(const char *call, cudaStream_t stream, IsCapturing ask, End end)
{
	EXISTS(stream);
	return direct_kept(call, [=] {
		const cudaStream_t there = real(stream);
		const cudaError_t error = end(there);
		capture_ended(there, ask);
		return error;
	});
}

template <typename Begin>
cudaError_t begin_capture(const char *call, cudaStream_t stream, IsCapturing ask, Begin begin)
{
	EXISTS(stream);
	return direct_kept(call, [=] {
		const cudaStream_t there = real(stream);
		const unsigned long capture = capture_begins(there, ask);
		const cudaError_t error = begin(there);
		error == cudaSuccess ? capture_began(capture) : capture_failed(capture);
		return error;
	});
}

} // namespace
} // namespace lazy

using namespace lazy;

#define BEGIN_CAPTURE(name, IsCapturing)                                                                               \
	cudaError_t name(cudaStream_t stream, int mode)                                                                \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginCapture", stream, REAL(IsCapturing),                              \
		                     [=](cudaStream_t there) { return REAL(name)(there, mode); });                     \
	}
BEGIN_CAPTURE(cudaStreamBeginCapture, cudaStreamIsCapturing)
BEGIN_CAPTURE(cudaStreamBeginCapture_ptsz, cudaStreamIsCapturing_ptsz)

#define END_CAPTURE(name, IsCapturing)                                                                                 \
	cudaError_t name(cudaStream_t stream, cudaGraph_t *graph)                                                      \
	{                                                                                                              \
		return end_capture("cudaStreamEndCapture", stream, REAL(IsCapturing),                                  \
		                   [=](cudaStream_t there) { return REAL(name)(there, graph); });                      \
	}
END_CAPTURE(cudaStreamEndCapture, cudaStreamIsCapturing)
END_CAPTURE(cudaStreamEndCapture_ptsz, cudaStreamIsCapturing_ptsz)

#define BEGIN_CAPTURE_TO_GRAPH(name, IsCapturing)                                                                      \
	cudaError_t name(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *after, const void *edges,      \
	                 size_t count, int mode)                                                                       \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginCaptureToGraph", stream, REAL(IsCapturing),                       \
		                     [=](cudaStream_t there) {                                                         \
			                     return REAL(name)(there, graph, after, edges, count, mode);               \
		                     });                                                                               \
	}
BEGIN_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph, cudaStreamIsCapturing)
BEGIN_CAPTURE_TO_GRAPH(cudaStreamBeginCaptureToGraph_ptsz, cudaStreamIsCapturing_ptsz)

#define BEGIN_RECAPTURE(name, IsCapturing)                                                                             \
	cudaError_t name(cudaStream_t stream, int mode, cudaGraph_t graph, void *callback)                             \
	{                                                                                                              \
		return begin_capture("cudaStreamBeginRecaptureToGraph", stream, REAL(IsCapturing),                     \
		                     [=](cudaStream_t there) { return REAL(name)(there, mode, graph, callback); });    \
	}
BEGIN_RECAPTURE(cudaStreamBeginRecaptureToGraph, cudaStreamIsCapturing)
BEGIN_RECAPTURE(cudaStreamBeginRecaptureToGraph_ptsz, cudaStreamIsCapturing_ptsz)
