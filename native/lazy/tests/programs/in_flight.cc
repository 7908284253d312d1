// in_flight.cc: a call gives work to the device while another thread frees the last object.
#include <string>
#include <thread>

#include "program.h"

static int *last, *next; // objects
static int done;         // pieces of work

static int *worked() // memory that a kernel has worked on
{
	int *x = device<int>(1000);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	return x;
}

static void free_last()
{
	std::thread([] { TRY(cudaFree(last)); }).join();
}

static void free_last_and_go_on()
{
	std::thread([] {
		TRY(cudaFree(last));
		next = worked();
	}).join();
}

static void call_host()
{
	TRY(cudaLaunchHostFunc(nullptr, [](void *) { done++; }, nullptr));
}

// call_host_in_free: another thread calls the host once, when cudaFree has waited for the device.
static void call_host_in_free()
{
	const auto call_once = [] {
		static bool called;
		if (!called)
			std::thread(call_host).join();
		called = true;
	};
	meanwhile("cudaFree", FAKE_CUDA_AFTER, call_once);
	meanwhile("cudaDeviceSynchronize", FAKE_CUDA_AFTER, call_once); // how the lazy runtime waits
}

// in_flight: the work is done when it has been waited for. In some ways the call is at the CUDA
// runtime, but has not given the work yet. In the others cudaFree has waited, but has not returned.
void in_flight(const char *way)
{
	const std::string what = way;
	unsigned char *host = nullptr;
	cudaEvent_t event;

	last = worked();
	if (what == "launch") {
		meanwhile("cudaLaunchKernel", FAKE_CUDA_BEFORE, free_last_and_go_on);
		meanwhile("__cudaLaunchKernel", FAKE_CUDA_BEFORE, free_last_and_go_on);
		TRY(LAUNCH(notice, grid, block, 0, nullptr));
	} else if (what == "callback") {
		meanwhile("cudaStreamAddCallback", FAKE_CUDA_BEFORE, free_last_and_go_on);
		TRY(cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void *) { done++; }, nullptr, 0));
	} else if (what == "host_function") {
		meanwhile("cudaLaunchHostFunc", FAKE_CUDA_BEFORE, free_last_and_go_on);
		call_host();
	} else if (what == "set") {
		void *p = nullptr;
		TRY(cudaMallocHost(&p, 4));
		host = static_cast<unsigned char *>(p);
		*host = 0;
		meanwhile("cudaMemsetAsync", FAKE_CUDA_BEFORE, free_last_and_go_on);
		TRY(cudaMemsetAsync(host, 1, 4, nullptr));
	} else if (what == "after_wait") {
		call_host_in_free();
		TRY(cudaFree(last));
		next = worked();
	} else if (what == "after_wait_recorded") { // the event, with what fills the next object
		TRY(cudaEventCreate(&event));
		call_host_in_free();
		TRY(cudaFree(last));
		next = device<int>(1000);
		TRY(cudaMemset(next, 0, 4000));
		TRY(cudaEventRecord(event, nullptr));
		TRY(cudaEventSynchronize(event));
		say("done %d", done);
		TRY(cudaEventDestroy(event));
	} else {
		exit(2);
	}
	TRY(cudaStreamSynchronize(nullptr));
	say("done %d noticed %d set %d", done, noticed, host == nullptr ? -1 : *host);
	TRY(cudaFree(next));
	if (host != nullptr)
		TRY(cudaFreeHost(host));
	state("after");
}

// over_later: the last object is freed while a call is under way, and nothing is allocated again.
void over_later()
{
	last = worked();
	meanwhile("cudaLaunchHostFunc", FAKE_CUDA_BEFORE, free_last);
	call_host();
	TRY(cudaStreamSynchronize(nullptr));
	say("done %d", done);
	wait_after("over");
	TRY(cudaDeviceSynchronize());
	wait_after("rested");
}
