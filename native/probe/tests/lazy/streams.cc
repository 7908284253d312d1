// streams.cc: streams, events and page-locked memory.
#include <string>

#include "program.h"

// streams: streams, events and page-locked memory from before the first launch.
void streams()
{
	const int n = 2000;
	cudaStream_t s, t;
	cudaEvent_t begin, end;
	int *in, *out;
	TRY(cudaStreamCreate(&s));
	TRY(cudaStreamCreateWithFlags(&t, 1));
	TRY(cudaEventCreate(&begin));
	TRY(cudaEventCreate(&end));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&in), n * sizeof(int)));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&out), n * sizeof(int)));
	std::vector<int> registered = numbers(n, 3);
	TRY(cudaHostRegister(registered.data(), n * sizeof(int), 0));
	int *x = device<int>(n), *y = device<int>(n);
	for (int i = 0; i < n; i++)
		in[i] = i;
	state("before");
	TRY(cudaEventRecord(begin, s));
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaMemcpyAsync(y, registered.data(), n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaEventRecord(end, s));
	TRY(cudaStreamWaitEvent(t, end, 0));
	TRY(LAUNCH(add, grid, block, 0, t, x, n, 5));
	TRY(cudaMemcpyAsync(out, x, n * sizeof(int), cudaMemcpyDeviceToHost, t));
	TRY(cudaStreamSynchronize(t));
	say("out %d %d", out[0], out[n - 1]);
	float ms = -1;
	TRY(cudaEventSynchronize(end));
	TRY(cudaEventElapsedTime(&ms, begin, end));
	say("elapsed %d", ms >= 0);
	in[0] = 77; // after a synchronization the buffer is the program's again
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaStreamSynchronize(s));
	in[0] = 78;
	say("x %ld y %ld", digest(x, n), digest(y, n));
	TRY(cudaHostUnregister(registered.data()));
	TRY(cudaFreeHost(in));
	TRY(cudaFreeHost(out));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(cudaEventDestroy(begin));
	TRY(cudaEventDestroy(end));
	TRY(cudaStreamDestroy(s));
	TRY(cudaStreamDestroy(t));
	state("after");
}

// reuse: a page-locked buffer that is written again as soon as CUDA says that it
// has been read, before the first launch. What waits for the stream says so, and
// what waits for the whole device (CUDA Runtime API, "API synchronization
// behavior").
void reuse(const char *way)
{
	const int n = 1000;
	const std::string by = way;
	cudaStream_t s;
	cudaEvent_t e;
	int *in, host[4] = {}, *x = device<int>(n), *other = device<int>(4), *gone = device<int>(n);
	register_variables();
	TRY(cudaStreamCreate(&s));
	TRY(cudaEventCreate(&e));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&in), n * sizeof(int)));
	for (int i = 0; i < n; i++)
		in[i] = i;
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaEventRecord(e, s));
	if (by == "stream")
		TRY(cudaStreamSynchronize(s));
	else if (by == "event")
		TRY(cudaEventSynchronize(e));
	else if (by == "device")
		TRY(cudaDeviceSynchronize());
	else if (by == "stream_query")
		while (cudaStreamQuery(s) == cudaErrorNotReady) {}
	else if (by == "event_query")
		while (cudaEventQuery(e) == cudaErrorNotReady) {}
	else if (by == "copy")
		TRY(cudaMemcpy(other, host, sizeof host, cudaMemcpyHostToDevice));
	else if (by == "copy_2d")
		TRY(cudaMemcpy2D(other, 8, host, 8, 8, 2, cudaMemcpyHostToDevice));
	else if (by == "symbol")
		TRY(cudaMemcpyToSymbol(table, host, sizeof host, 0, cudaMemcpyHostToDevice));
	else if (by == "free")
		TRY(cudaFree(gone));
	else
		exit(2);
	memset(in, 0, n * sizeof(int));
	say("x %ld", digest(x, n));
	cudaPointerAttributes a[4]; // CUDA 13's are larger
	TRY(cudaPointerGetAttributes(a, x + 3));
	say("pointer type %d device %d", a->type, a->device);
	if (by != "free")
		TRY(cudaFree(gone));
	TRY(cudaFree(x));
	TRY(cudaFree(other));
	TRY(cudaFreeHost(in));
	TRY(cudaEventDestroy(e));
	TRY(cudaStreamDestroy(s));
	state("after");
}
