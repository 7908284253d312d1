// streams.cc: streams, events and page-locked memory.
#include <algorithm>
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

// wait_for waits for the stream; the event comes after the stream's last work. false: there is no
// such way to wait.
static bool wait_for(cudaStream_t s, cudaEvent_t e, const std::string &by)
{
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
	else if (by == "behind" || by == "behind_query") { // in a stream that does nothing else
		cudaStream_t idle;
		TRY(cudaStreamCreateWithFlags(&idle, 1));
		TRY(cudaStreamWaitEvent(idle, e, 0));
		if (by == "behind")
			TRY(cudaStreamSynchronize(idle));
		else
			while (cudaStreamQuery(idle) == cudaErrorNotReady) {}
		TRY(cudaStreamDestroy(idle));
	} else
		return false;
	return true;
}

// reuse: a page-locked buffer that is written again as soon as CUDA says that it
// has been read, before the first launch. CUDA says so by a wait for the stream, or for the whole
// device (CUDA Runtime API, "API synchronization behavior").
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
	if (wait_for(s, e, by))
		;
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

// waits: work that the program has waited for comes before its next work, even in a stream that waits
// for no other stream. This holds before the first launch and between two tasks. It also holds for a
// synchronous copy from page-locked memory, which is over when it returns.
void waits(const char *way)
{
	const int n = 1000;
	const std::string by = way;
	cudaStream_t s, t;
	cudaEvent_t e;
	register_variables();
	for (cudaStream_t *stream : {&s, &t})
		TRY(cudaStreamCreateWithFlags(stream, 1));
	TRY(cudaEventCreate(&e));
	for (int round : {1, 2}) {
		int *locked, *x = device<int>(n), back[n];
		std::vector<int> host = numbers(n, round);
		TRY(cudaMallocHost(reinterpret_cast<void **>(&locked), n * sizeof(int)));
		std::copy(host.begin(), host.end(), locked);
		if (by != "copy" && by != "copy_2d")
			TRY(cudaMemsetAsync(x, 0, n * sizeof(int), s));
		TRY(cudaEventRecord(e, s));
		if (wait_for(s, e, by))
			TRY(cudaMemcpyAsync(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice, t));
		else if (by == "copy")
			TRY(cudaMemcpy(x, locked, n * sizeof(int), cudaMemcpyHostToDevice));
		else if (by == "copy_2d")
			TRY(cudaMemcpy2D(x, 400, locked, 400, 400, n / 100, cudaMemcpyHostToDevice));
		else if (by == "symbol")
			TRY(cudaMemcpyToSymbol(table, locked, sizeof table, 0, cudaMemcpyHostToDevice));
		else
			exit(2);
		if (by == "symbol") // which did not wait for the set
			TRY(cudaStreamWaitEvent(t, e, 0));
		TRY(LAUNCH(use_table, grid, block, 0, t, x, n));
		TRY(cudaMemcpyAsync(back, x, sizeof back, cudaMemcpyDeviceToHost, t));
		TRY(cudaStreamSynchronize(t));
		say("x %d %d", back[0], back[n - 1]);
		TRY(cudaFree(x));
		TRY(cudaFreeHost(locked));
	}
	TRY(cudaEventDestroy(e));
	for (cudaStream_t stream : {s, t})
		TRY(cudaStreamDestroy(stream));
	state("after");
}

static cudaStream_t own;
static void on_own(cudaStream_t stream, cudaError_t status, void *data)
{
	say("callback %d of its own stream %d: %d", *static_cast<int *>(data), stream == own, status);
}

// callback: it is told the stream as the program knows it.
void callback()
{
	int numbers[] = {1, 2};
	TRY(cudaStreamCreate(&own));
	for (int &number : numbers)
		TRY(cudaStreamAddCallback(own, on_own, &number, 0));
	TRY(cudaStreamSynchronize(own));
	TRY(cudaStreamDestroy(own));
}

// ordered_frees: the last object is freed in another stream than that of the kernels.
void ordered_frees()
{
	cudaStream_t s, t;
	void *x, *y;
	for (cudaStream_t *stream : {&s, &t})
		TRY(cudaStreamCreateWithFlags(stream, 1));
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaMallocAsync(&x, 4000, s));
	TRY(cudaMallocAsync(&y, 4000, t));
	TRY(LAUNCH(notice, grid, block, 0, s));
	TRY(cudaFreeAsync(x, s));
	TRY(cudaFreeAsync(y, t));
	say("ran %d", noticed);
	for (cudaStream_t stream : {s, t})
		TRY(cudaStreamDestroy(stream));
}

// frees_from_afar: the last object of a device is freed while the program is at another.
void frees_from_afar()
{
	cudaStream_t s, t;
	void *x;
	TRY(cudaSetDevice(1));
	for (cudaStream_t *stream : {&s, &t})
		TRY(cudaStreamCreateWithFlags(stream, 1));
	TRY(cudaMallocAsync(&x, 4000, t));
	TRY(LAUNCH(notice, grid, block, 0, s));
	TRY(cudaSetDevice(0));
	TRY(cudaFreeAsync(x, t));
	say("ran %d", noticed);
	int here = -1;
	TRY(cudaGetDevice(&here));
	say("at %d", here);
}

// idle_rounds: memory that is set, waited for and freed, and nothing ever launched.
void idle_rounds()
{
	cudaEvent_t e;
	TRY(cudaEventCreate(&e));
	for (int i = 0; i < 100; i++) {
		int *x = device<int>(1000);
		TRY(cudaMemset(x, 0, 4000));
		TRY(cudaDeviceSynchronize());
		TRY(cudaFree(x));
	}
	say("x %ld", digest(device<int>(0), 0));
	TRY(cudaEventDestroy(e));
}
