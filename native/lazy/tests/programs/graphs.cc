// graphs.cc: graphs that allocate.
#include "program.h"

// capture makes a graph that allocates, works on that and frees it, and adds what
// it left in *result.
static cudaGraph_t capture(cudaStream_t s, cudaEvent_t event, int count, int *result)
{
	void *memory = nullptr;
	cudaGraph_t graph = nullptr;

	TRY(cudaStreamBeginCapture(s, 0));
	TRY(cudaMallocAsync(&memory, static_cast<size_t>(count) * sizeof(int), s));
	TRY(cudaMemsetAsync(memory, 0, static_cast<size_t>(count) * sizeof(int), s));
	TRY(LAUNCH(add, grid, block, 0, s, static_cast<int *>(memory), count, 4));
	TRY(cudaMemcpyAsync(result, memory, sizeof *result, cudaMemcpyDeviceToHost, s));
	TRY(cudaFreeAsync(memory, s));
	TRY(cudaEventRecord(event, s));
	TRY(cudaStreamWaitEvent(s, event, 0));
	TRY(cudaStreamEndCapture(s, &graph));
	return graph;
}

// captured: nothing but graphs allocates. They share one pool, so the second takes
// no memory more, and the third only what it has beyond the first.
void captured()
{
	cudaStream_t s;
	cudaEvent_t event;
	int result = 0;

	TRY(cudaEventCreate(&event));
	TRY(cudaStreamCreateWithFlags(&s, 1));
	for (int count : {1 << 20, 1 << 19, 3 << 19}) {
		cudaGraphExec_t executable = nullptr;
		cudaGraph_t graph = capture(s, event, count, &result);
		TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
		for (int i = 0; i < 2; i++) {
			result = 0;
			TRY(cudaGraphLaunch(executable, s));
			TRY(cudaStreamSynchronize(s));
			say("%d: %d", count, result);
		}
		TRY(cudaGraphExecDestroy(executable));
		TRY(cudaGraphDestroy(graph));
	}
	TRY(cudaEventDestroy(event));
	TRY(cudaStreamDestroy(s));
	TRY(cudaDeviceSynchronize());
	state("after");
}

// freed_in_capture: a graph frees what was allocated before, the first of it before
// there was a device.
void freed_in_capture()
{
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	void *early = nullptr, *late = nullptr;

	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaMallocAsync(&early, mib, s));
	TRY(cudaMemsetAsync(early, 0, mib, s));
	TRY(LAUNCH(add, grid, block, 0, s, static_cast<int *>(early), 1000, 5));
	TRY(cudaMallocAsync(&late, mib, s));
	say("before %ld", digest(static_cast<int *>(early), 1000));
	TRY(cudaStreamBeginCapture(s, 0));
	TRY(cudaFreeAsync(early, s));
	TRY(cudaFreeAsync(late, s));
	TRY(cudaStreamEndCapture(s, &graph));
	TRY(cudaGraphDestroy(graph));
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 6));
	say("after %ld", digest(x, 1000));
	TRY(cudaFree(x));
	TRY(cudaStreamDestroy(s));
}

// free_while_captured: a relaxed capture, in which the program frees all that it has
// and allocates what the graph works on.
void free_while_captured()
{
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	void *managed = nullptr;

	TRY(cudaStreamCreateWithFlags(&s, 1));
	for (bool whose : {false, true}) {
		int *x = device<int>(1000);
		TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 5));
		if (whose)
			TRY(cudaMallocManaged(&managed, mib, 1));
		TRY(cudaStreamSynchronize(s));
		if (whose)
			TRY(cudaFree(x));
		TRY(cudaStreamBeginCapture(s, 2)); // cudaStreamCaptureModeRelaxed
		TRY(cudaFree(whose ? managed : x));
		int *y = device<int>(1000);
		TRY(cudaMemsetAsync(y, 0, 4000, s));
		TRY(LAUNCH(add, grid, block, 0, s, y, 1000, 5));
		TRY(cudaStreamEndCapture(s, &graph));
		TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
		for (int i = 0; i < 2; i++) {
			TRY(cudaGraphLaunch(executable, s));
			TRY(cudaStreamSynchronize(s));
			say("y %ld", digest(y, 1000));
		}
		TRY(cudaGraphExecDestroy(executable));
		TRY(cudaGraphDestroy(graph));
		TRY(cudaFree(y));
	}
	TRY(cudaStreamDestroy(s));
	state("after");
}

// host_freed_in_capture: page-locked memory from before the first launch.
void host_freed_in_capture()
{
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	int *host, *other, *x = device<int>(1000);

	for (int **p : {&host, &other})
		TRY(cudaMallocHost(reinterpret_cast<void **>(p), 4000));
	TRY(cudaStreamCreate(&s));
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	TRY(cudaStreamBeginCapture(s, 2)); // cudaStreamCaptureModeRelaxed
	TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 1));
	TRY(cudaFreeHost(host));
	TRY(cudaStreamEndCapture(s, &graph));
	TRY(cudaGraphDestroy(graph));
	TRY(cudaFreeHost(other)); // and what had to wait for the capture's end
	say("page-locked %u", fake_state().pinned);
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	TRY(cudaStreamDestroy(s));
	state("after");
}
