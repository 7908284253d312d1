// shown.cc: what the scheduler sees of a process that can give memory back.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "program.h"

static const int n = 4 << 20; // 16 MiB

static void submitting() { wait_after("submitting"); }

static void waiting() { wait_after("waiting"); }

static void captured_add(int *x, cudaStream_t stream)
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;

	TRY(cudaStreamBeginCapture(stream, 0));
	TRY(LAUNCH(add, grid, block, 0, stream, x, n, 1));
	TRY(cudaStreamEndCapture(stream, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	TRY(cudaGraphLaunch(executable, stream));
	TRY(cudaStreamSynchronize(stream));
	TRY(cudaGraphExecDestroy(executable));
	TRY(cudaGraphDestroy(graph));
}

// shown: after each line the test looks at the activity page.
void shown()
{
	int *x = device<int>(n), *small = device<int>(1000);
	cudaArray_t array = nullptr;
	cudaStream_t stream = nullptr;
	const cudaChannelFormatDesc format = {32, 0, 0, 0, 0};

	TRY(cudaMemset(x, 0, static_cast<size_t>(n) * 4));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	TRY(cudaDeviceSynchronize());
	wait_after("launched");
	meanwhile("cudaLaunchKernel", FAKE_CUDA_BEFORE, submitting);
	meanwhile("__cudaLaunchKernel", FAKE_CUDA_BEFORE, submitting);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	meanwhile("cudaDeviceSynchronize", FAKE_CUDA_BEFORE, waiting);
	TRY(cudaDeviceSynchronize());
	wait_after("idle");
	meanwhile("cudaStreamSynchronize", FAKE_CUDA_BEFORE, waiting);
	TRY(cudaStreamSynchronize(nullptr));
	meanwhile("cuMemcpyAsync", FAKE_CUDA_BEFORE, [] { wait_after("fetching"); });
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	wait_after("evicted");
	TRY(cudaMallocArray(&array, &format, 1 << 20, 1, 0));
	wait_after("array");
	TRY(cudaFreeArray(array));
	TRY(cudaStreamCreate(&stream));
	captured_add(x, stream);
	wait_after("graph");
	int first = 0;
	TRY(cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost));
	say("x %d", first);
	TRY(cudaFree(x));
	wait_after("freed");
	TRY(cudaFree(small));
	TRY(cudaStreamDestroy(stream));
}

// unattended: a kernel runs, and no call waits for it.
void unattended()
{
	int *x = device<int>(n);

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	TRY(cudaDeviceSynchronize());
	wait_after("ready");
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	say("launched after %lld ns", static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
	wait_after("launched");
	TRY(cudaFree(x));
}

// copies_unattended: a copy waits in a stream, and no call waits for it. Meanwhile the library asks about its end twice, or takes it
// for over.
void copies_unattended()
{
	static std::atomic<bool> held{true}, copied{false};
	int *const x = device<int>(n), *host = nullptr, last = 0;
	cudaStream_t other = nullptr;

	TRY(cudaMallocHost(reinterpret_cast<void **>(&host), n * sizeof(int)));
	std::fill_n(host, n, 7);
	TRY(cudaStreamCreateWithFlags(&other, 1));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	TRY(cudaDeviceSynchronize());
	wait_after("ready");
	TRY(cudaLaunchHostFunc(nullptr, [](void *) { while (held) usleep(100); }, nullptr));
	TRY(cudaMemcpyAsync(x, host, n * sizeof(int), cudaMemcpyHostToDevice, nullptr));
	TRY(cudaLaunchHostFunc(nullptr, [](void *) { copied = true; }, nullptr));
	meanwhile("cuMemcpyAsync", FAKE_CUDA_BEFORE, [] {
		for (held = false; !copied;)
			usleep(100);
	});
	meanwhile("cuEventQuery", FAKE_CUDA_BEFORE, [] { meanwhile("cuEventQuery", FAKE_CUDA_BEFORE, [] { say("asked"); }); });
	wait_after("copying");
	TRY(LAUNCH(nothing, grid, block, 0, other));
	held = false;
	TRY(cudaDeviceSynchronize());
	TRY(cudaMemcpy(&last, x + n - 1, sizeof last, cudaMemcpyDeviceToHost));
	say("x %d", last);
	TRY(cudaStreamDestroy(other));
	TRY(cudaFreeHost(host));
	TRY(cudaFree(x));
}

static void await_file(const std::string &path)
{
	while (access(path.c_str(), F_OK) != 0)
		usleep(1000);
}

// leaves_work ROOM: two processes have this folder. The first gives its device a kernel, and waits for nothing of it until the
// second, which begins then, has had the device. There is room for one of them.
void leaves_work(const char *room)
{
	const std::string first = std::string(room) + "/first", second = std::string(room) + "/second";
	const bool leads = mkdir(first.c_str(), 0700) == 0;
	int *x = nullptr;

	if (!leads)
		await_file(first + "/launched");
	x = device<int>(n);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	close(open((leads ? first + "/launched" : second).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	if (leads)
		await_file(second);
	TRY(cudaDeviceSynchronize());
	TRY(cudaFree(x));
}
