// frees.cc: what is freed, destroyed or hidden before the program's work is done.
#include <string>
#include <thread>

#include "program.h"

// frees: memory is freed after its contents were copied, before there is a device.
void frees(const char *what)
{
	const int n = 1 << 20;
	const size_t bytes = n * sizeof(int);
	const std::string way = what;
	const std::vector<int> host = numbers(n, 7);
	int *a = device<int>(n), *b = device<int>(n);
	cudaStream_t s = nullptr, t = nullptr;

	if (way == "source" || way == "chain") {
		TRY(cudaMemcpy(a, host.data(), bytes, cudaMemcpyHostToDevice));
		TRY(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
		if (way == "chain") { // nothing of it is left
			int *c = device<int>(n);
			TRY(cudaMemcpy(c, b, bytes, cudaMemcpyDeviceToDevice));
			TRY(cudaFree(a));
			TRY(cudaFree(b));
			TRY(cudaFree(c));
			a = device<int>(n);
			b = device<int>(n);
			TRY(cudaMemset(b, 0, bytes));
		}
		TRY(cudaFree(a));
	} else if (way == "set") {
		TRY(cudaMemset(b, 0, bytes));
		for (int i = 0; i < 10; i++) {
			char *large = device<char>(64 * mib);
			TRY(cudaMemset(large, i, 3 * mib));
			TRY(cudaFree(large));
		}
		TRY(cudaFree(a));
	} else { // the free is what orders the streams
		for (cudaStream_t *stream : {&s, &t})
			TRY(cudaStreamCreateWithFlags(stream, 1));
		TRY(cudaMemcpyAsync(b, host.data(), bytes, cudaMemcpyHostToDevice, s));
		TRY(cudaFree(a));
	}
	TRY(LAUNCH(add, grid, block, 0, t, b, n, 1));
	TRY(cudaDeviceSynchronize());
	say("b %ld", digest(b, n));
	TRY(cudaFree(b));
	state("after");
}

// gone: handles that are not streams or events, or are not any more.
void gone(const char *what)
{
	const std::string way = what;
	cudaStream_t s = nullptr;
	cudaEvent_t e = nullptr;

	if (way != "never") {
		TRY(cudaStreamCreate(&s));
		TRY(cudaEventCreate(&e));
	}
	int *x = device<int>(1000);
	if (way == "reset") {
		TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 1));
		TRY(cudaFree(x));
	}
	if (way == "reset" || way == "early_reset") {
		TRY(cudaDeviceReset());
		x = device<int>(1000);
	} else if (way == "twice") {
		TRY(cudaStreamDestroy(s));
		TRY(cudaEventDestroy(e));
	}
	TRY(cudaEventRecord(e, nullptr));
	TRY(cudaEventSynchronize(e));
	TRY(cudaEventQuery(e));
	if (way != "never") {
		TRY(cudaEventRecord(nullptr, s));
		TRY(cudaStreamSynchronize(s));
	}
	TRY(cudaStreamWaitEvent(s, e, 0));
	TRY(cudaStreamDestroy(s));
	TRY(cudaEventDestroy(e));
	TRY(cudaGetLastError());
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaGetLastError());
	say("x %ld", digest(x, 1000));
	if (way == "early_reset")
		say("refused %d", LAUNCH(add, grid, block, 0, s, x, 1000, 1) != cudaSuccess);
	TRY(cudaFree(x));
}

// temporaries: many are set and freed before there is a device.
void temporaries()
{
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	for (int i = 0; i < 100; i++) {
		char *large = device<char>(2 * mib);
		TRY(cudaMemset(large, i, mib / 8));
		TRY(cudaFree(large));
	}
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
}

// small_temporaries: small memory is allocated and freed between launches.
void small_temporaries()
{
	int *x = device<int>(mib);
	TRY(cudaMemset(x, 0, 4000));
	for (int i = 0; i < 20; i++) {
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, i));
		int *small = device<int>(250), *other = device<int>(250);
		TRY(cudaMemcpy(small, x, 1000, cudaMemcpyDeviceToDevice));
		TRY(cudaMemcpy(other, small, 1000, cudaMemcpyDeviceToDevice));
		if (i % 10 == 0)
			say("%ld", digest(other, 250));
		TRY(cudaFree(small));
		TRY(cudaFree(other));
	}
	TRY(cudaFree(x));
	state("after");
}

// host_frees: frees of host memory that is not page-locked.
void host_frees()
{
	int host = 0;
	TRY(cudaFreeHost(nullptr));
	TRY(cudaFreeHost(&host));
	TRY(cudaHostUnregister(&host));
}

// frees_again: a free that fails frees nothing. The test lets the wait for the device fail.
void frees_again()
{
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 3));
	say("freed %d", cudaFree(x));
	int value = 0;
	TRY(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
	say("value %d", value);
	say("freed %d", cudaFree(x));
	state("after");
}

// ordered_in_thread: a thread's first call allocates in a stream's order.
void ordered_in_thread()
{
	int *x = device<int>(1000);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	std::thread([] {
		void *p = nullptr;
		TRY(cudaMallocAsync(&p, 4000, nullptr));
		TRY(cudaMemset(p, 1, 4000));
		TRY(cudaFreeAsync(p, nullptr));
	}).join();
	std::thread([=] { TRY(cudaFreeAsync(x, nullptr)); }).join();
	state("after");
}

// keeps: what the device keeps when all has been freed.
void keeps(const char *what)
{
	const std::string way = what;
	uint64_t bytes = 64 * mib;
	if (way == "variable") {
		register_field();
	} else if (way == "same_variable") { // in two parts of the program
		register_small_field_twice();
	} else {
		cudaMemPool_t pool = nullptr;
		TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
		TRY(cudaMemPoolSetAttribute(pool, 4, &bytes)); // cudaMemPoolAttrReleaseThreshold
		bytes = 0;
		if (way == "pool_no_more")
			TRY(cudaMemPoolSetAttribute(pool, 4, &bytes));
	}
	for (int round = 0; round < 2; round++) {
		int *x = device<int>(1000);
		void *of_pool = nullptr;
		TRY(cudaMemset(x, 0, 4000));
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
		if (way == "pool" || way == "pool_no_more") {
			TRY(cudaMallocAsync(&of_pool, 4 * mib, nullptr));
			TRY(cudaFreeAsync(of_pool, nullptr));
		}
		say("x %ld", digest(x, 1000));
		TRY(cudaFree(x));
	}
}

// faults_behind: a kernel faults on the first device, and the program goes on to the second.
void faults_behind(const char *way)
{
	for (int device : {0, 1}) {
		TRY(cudaSetDevice(device));
		TRY(LAUNCH(nothing, grid, block, 0, nullptr));
		if (device == 0)
			TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	}
	if (std::string(way) == "waits")
		TRY(cudaDeviceSynchronize());
}

// captures_own: a thread captures the stream that is its own; what others free waits.
void captures_own()
{
	const cudaStream_t own = reinterpret_cast<cudaStream_t>(2); // cudaStreamPerThread
	int *x = device<int>(1000), *y = device<int>(1000);
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;

	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	TRY(cudaStreamBeginCapture(own, 2)); // cudaStreamCaptureModeRelaxed
	std::thread([=] { TRY(cudaFree(y)); }).join();
	TRY(LAUNCH(add, grid, block, 0, own, x, 1000, 5));
	TRY(cudaStreamEndCapture(own, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	TRY(cudaGraphLaunch(executable, nullptr));
	TRY(cudaDeviceSynchronize());
	say("x %ld", digest(x, 1000));
	TRY(cudaGraphExecDestroy(executable));
	TRY(cudaGraphDestroy(graph));
	TRY(cudaFree(x));
	state("after");
}

// chooses: the program, or what started it, says what it wants to see.
void chooses(const char *list)
{
	setenv("CUDA_VISIBLE_DEVICES", list, 1);
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	say("sees %s", getenv("CUDA_VISIBLE_DEVICES"));
	state("after");
}
