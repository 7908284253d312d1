// window.cc: programs that submit far more work than the device has done.
#include <atomic>

#include <unistd.h>

#include "program.h"

static std::atomic<bool> waited_for{false};

// look says how many kernels a revocation has to wait for. The thread that launches may be stopped meanwhile.
static void look()
{
	say("%u ahead", fake_state().submitted);
	waited_for = true;
}

// far_ahead launches until a revocation waits for the device.
void far_ahead()
{
	int *x = device<int>(1000), launched = 0;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	meanwhile("cuCtxSynchronize", FAKE_CUDA_BEFORE, look);
	for (; launched < 1000 && !waited_for; launched++)
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	while (!waited_for)
		usleep(1000);
	TRY(cudaDeviceSynchronize());
}

static std::atomic<bool> released;

static void await_release(void *)
{
	while (!released)
		usleep(1000);
}

// behind_the_host submits work behind a function that waits for the thread that submits.
void behind_the_host()
{
	const int n = 1000;
	int *x = device<int>(n);

	TRY(cudaMemset(x, 0, n * 4));
	for (int round = 0; round < 3; round++) {
		released = false;
		TRY(cudaLaunchHostFunc(nullptr, await_release, nullptr));
		for (int i = 0; i < 100; i++)
			TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, i));
		released = true;
		say("x %ld", digest(x, n));
	}
	TRY(cudaFree(x));
}

// frees_behind_the_host frees memory in the order of a stream while another stream waits for the thread that frees: memory made
// before the first launch and after, and the last object.
void frees_behind_the_host()
{
	const int n = 1000;
	cudaStream_t s, t;
	void *first, *later;
	for (cudaStream_t *stream : {&s, &t})
		TRY(cudaStreamCreateWithFlags(stream, 1));
	TRY(cudaMallocAsync(&first, n * sizeof(int), t));
	for (int round = 0; round < 2; round++) {
		TRY(LAUNCH(add, grid, block, 0, t, static_cast<int *>(first), n, 1));
		TRY(cudaMallocAsync(&later, 4 * mib, t));
		released = false;
		TRY(cudaLaunchHostFunc(s, await_release, nullptr));
		TRY(LAUNCH(add, grid, block, 0, t, static_cast<int *>(later), n, 1));
		TRY(cudaFreeAsync(later, t));
		if (round == 1)
			TRY(cudaFreeAsync(first, t));
		say("freed");
		released = true;
		TRY(cudaStreamSynchronize(s));
		TRY(cudaStreamSynchronize(t));
	}
	state("after");
	for (cudaStream_t stream : {s, t})
		TRY(cudaStreamDestroy(stream));
}

// ordered_rounds allocates and frees in the order of a stream, again and again, before the stream does any of it.
void ordered_rounds()
{
	const int n = 1000, rounds = 8;
	cudaStream_t s;
	void *large, *small, *locked;
	TRY(cudaMallocHost(&locked, rounds * sizeof(int)));
	int *const first = static_cast<int *>(locked);
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(LAUNCH(nothing, grid, block, 0, s));
	TRY(cudaStreamSynchronize(s));
	released = false;
	TRY(cudaLaunchHostFunc(s, await_release, nullptr));
	for (int i = 0; i < rounds; i++) {
		TRY(cudaMallocAsync(&large, (50 - static_cast<size_t>(i)) * mib, s));
		TRY(cudaMallocAsync(&small, n * sizeof(int), s));
		TRY(cudaMemsetAsync(large, 0, n * sizeof(int), s));
		TRY(cudaMemsetAsync(small, 1, n * sizeof(int), s));
		TRY(LAUNCH(add, grid, block, 0, s, static_cast<int *>(large), n, i));
		TRY(cudaMemcpyAsync(&first[i], large, sizeof(int), cudaMemcpyDeviceToHost, s));
		TRY(cudaFreeAsync(small, s));
		TRY(cudaFreeAsync(large, s));
	}
	released = true;
	TRY(cudaStreamSynchronize(s));
	for (int i = 0; i < rounds; i++)
		say("first %d", first[i]);
	TRY(cudaStreamDestroy(s));
	TRY(cudaFreeHost(locked));
	state("after");
}

static void adds(int *x, int n, cudaStream_t stream)
{
	for (int i = 0; i < 40; i++)
		TRY(LAUNCH(add, grid, block, 0, stream, x, n, i));
}

// windowed: what a wait before a launch could change: the last error, captures, and the order of streams.
void windowed()
{
	const int n = 1000;
	int *x = device<int>(n), *y = device<int>(n);
	cudaStream_t one = nullptr, other = nullptr;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;

	TRY(cudaMemset(x, 0, n * 4));
	TRY(cudaMemset(y, 0, n * 4));
	TRY(cudaDeviceSynchronize());
	TRY(cudaStreamCreate(&one));
	TRY(cudaStreamCreateWithFlags(&other, 1));
	adds(x, n, nullptr);
	say("wrong %d", cudaMemset(x, 0, n * 4 + 1));
	adds(x, n, one);
	say("last %d", cudaPeekAtLastError());
	TRY(cudaStreamBeginCapture(one, 0));
	adds(x, n, one);
	adds(y, n, other);
	TRY(cudaStreamEndCapture(one, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	for (int i = 0; i < 40; i++)
		TRY(cudaGraphLaunch(executable, one));
	adds(y, n, other);
	TRY(cudaStreamSynchronize(other));
	TRY(cudaStreamDestroy(other));
	TRY(cudaStreamSynchronize(one));
	say("last %d", cudaGetLastError());
	say("x %ld y %ld", digest(x, n), digest(y, n));
	TRY(cudaDeviceReset());
	x = device<int>(n);
	TRY(cudaMemset(x, 0, n * 4));
	adds(x, n, nullptr);
	say("x %ld", digest(x, n));
}
