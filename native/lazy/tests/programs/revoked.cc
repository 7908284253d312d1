// revoked.cc: what a program does before, while and after the scheduler takes its memory. The test takes
// the memory while the program waits for a line.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "program.h"

static int n; // the number of ints in the memory that can move

static int *x;
static long *out;

static void compute(int by) { TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, by)); }

static void show()
{
	long value = 0;
	TRY(LAUNCH(sum, grid, block, 0, nullptr, x, n, out));
	TRY(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
	say("x %ld", value);
}

static void end()
{
	TRY(cudaFree(x));
	TRY(cudaFree(out));
	state("after");
}

// while_thread_waits: a thread gives the device work, which the scheduler delays, and meanwhile the
// program does something.
template <class What> static void while_thread_waits(What what)
{
	std::thread other([] { TRY(LAUNCH(notice, grid, block, 0, nullptr)); });
	wait_after("launching");
	what();
	say("meanwhile");
	other.join();
	TRY(cudaDeviceSynchronize());
	say("noticed %d", noticed);
}

void revoked(const char *way)
{
	const std::string what = way;
	n = atoi(getenv("MOVES_MIB")) << 18;
	const std::vector<int> host = numbers(n, 7);

	x = device<int>(n);
	out = device<long>(1);
	TRY(cudaMemcpy(x, host.data(), host.size() * sizeof(int), cudaMemcpyHostToDevice));
	if (what.rfind("allocates", 0) == 0)
		TRY(cudaFree(device<int>(n))); // the task then has room for more
	compute(1); // under way when the memory is taken first
	wait_after("bound");
	if (what == "again") {
		compute(2);
		wait_after("computed"); // with a second kernel under way
		compute(3);
		show();
		end();
	} else if (what == "names") { // to CUDA, which looks at memory, without work for the device
		cudaGraph_t graph;
		TRY(cudaGraphCreate(&graph, 0));
		TRY(cudaGraphDestroy(graph));
		wait_after("named");
		show();
		end();
	} else if (what == "looks_up") { // a function that gives work past the gate
		auto *const past = driver_call<CUresult(void *, CUmemGenericAllocationHandle, int, unsigned long long)>("cuMemExportToShareableHandle");
		wait_after("looked up");
		past(nullptr, 0, 0, 0);
		wait_after("called");
		show();
		end();
	} else if (what == "interrupted") { // in a call that may look at memory, without work for the device
		cudaGraph_t graph;
		cudaGraphExec_t executable;
		TRY(cudaGraphCreate(&graph, 0));
		meanwhile("cudaGraphInstantiate", FAKE_CUDA_BEFORE, [] { wait_after("calling"); });
		TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
		TRY(cudaGraphExecDestroy(executable));
		TRY(cudaGraphDestroy(graph));
		wait_after("called");
		show();
		end();
	} else if (what == "larger") { // a launch that tells its size takes the library's lock, after the scheduler's request has come
		meanwhile("cudaOccupancyMaxActiveBlocksPerMultiprocessor", FAKE_CUDA_BEFORE, [] {
			wait_after("launching");
			usleep(50000);
		});
		TRY(LAUNCH(add, {16 * grid.x, 1, 1}, block, 0, nullptr, x, n, 1));
		wait_after("launched");
		show();
		end();
	} else if (what == "asks") { // what the driver knows of memory that is away
		auto *const ask = driver_call<CUresult(void *, int, CUdeviceptr)>("cuPointerGetAttribute");
		auto *const range = driver_call<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>("cuMemGetAddressRange_v2");
		const CUdeviceptr inside = reinterpret_cast<CUdeviceptr>(x + n / 2);
		CUdeviceptr start = 0, same = 0;
		size_t bytes = 0;
		int device = -1;
		unsigned type = 0;
		TRY(range(&start, &bytes, inside));
		TRY(ask(&type, 2, inside));   // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
		TRY(ask(&same, 3, inside));   // CU_POINTER_ATTRIBUTE_DEVICE_POINTER
		TRY(ask(&device, 9, inside)); // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
		say("device %d type %u at %zu of %zu same %d", device, type, static_cast<size_t>(inside - start), bytes, same == inside);
		show();
		end();
	} else if (what == "allocates" || what == "allocates_from_driver" || what == "allocates_managed") {
		CUdeviceptr y = 0;
		if (what == "allocates")
			y = reinterpret_cast<CUdeviceptr>(device<int>(n));
		else if (what == "allocates_managed")
			TRY(cudaMallocManaged(reinterpret_cast<void **>(&y), n * sizeof(int), 1));
		else
			TRY(driver_call<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2")(&y, n * sizeof(int)));
		wait_after("allocated");
		show();
		TRY(cudaFree(reinterpret_cast<void *>(y)));
		end();
	} else if (what == "allocates_array") {
		const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
		cudaArray_t array;
		TRY(cudaMallocArray(&array, &ints, n >> 10, 1 << 10, 0));
		wait_after("allocated");
		show();
		TRY(cudaFreeArray(array));
		end();
	} else if (what == "free") {
		while_thread_waits([] { end(); });
		int *y = device<int>(1000); // ends the task of that work
		TRY(cudaFree(y));
	} else if (what == "reset_in_thread") {
		while_thread_waits([] { TRY(cudaDeviceReset()); });
	} else if (what == "reset") {
		TRY(cudaDeviceReset());
		state("reset");
		x = device<int>(n);
		out = device<long>(1);
		TRY(cudaMemcpy(x, host.data(), host.size() * sizeof(int), cudaMemcpyHostToDevice));
		show();
		end();
	} else if (what == "grow") {
		std::thread other([] {
			int *y = device<int>(n);
			say("more %d", y != nullptr);
			TRY(cudaFree(y));
		});
		wait_after("growing");
		other.join();
		show();
		end();
	} else if (what == "fault") {
		TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
		wait_after("faulting");
		say("synchronized %d", cudaDeviceSynchronize());
		say("freed %d", cudaFree(x));
	} else if (what == "fork") {
		int status = -1;
		const pid_t child = fork();
		if (child == 0)
			exit(0); // through its exit handlers
		waitpid(child, &status, 0);
		wait_after(status == 0 ? "forked" : "the child failed");
		show();
		end();
	} else if (what == "exec") {
		execl("/proc/self/exe", "lazy_program", "basic", nullptr);
	} else if (what == "exit") {
		exit(0);
	} else if (what == "exit_in_thread") {
		std::thread([] { exit(0); }).join();
	} else {
		exit(2);
	}
}
