// waiting.cc: threads, processes and parts of a program that do something while another thread of the
// program waits for a device.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "../../../probe/schedgpu.h"
#include "program.h"

extern "C" __attribute__((weak)) int preCudaMalloc(size_t bytes, int device, unsigned wait_ms);

// Waiting is a thread whose launch asks for a device; the test says when it has asked.
class Waiting {
public:
	Waiting() : x(device<int>(1000))
	{
		TRY(cudaMemset(x, 0, 4000));
		thread = std::thread([this] { TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1)); });
		wait_after("launching");
	}
	void join() { thread.join(); }
	void end()
	{
		if (thread.joinable())
			join();
		say("x %ld", digest(x, 1000));
		TRY(cudaFree(x));
	}
	int *const x;

private:
	std::thread thread;
};

// another_waits: a thread waits for the other device, with or without memory there. Work, memory and
// frees of this thread do not wait for the other thread.
void another_waits(const char *way)
{
	const bool memory = std::string(way) == "memory";
	TRY(cudaSetDevice(0));
	int *x = device<int>(1000);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	std::thread other([=] {
		TRY(cudaSetDevice(1));
		int *y = memory ? device<int>(1000) : nullptr;
		TRY(LAUNCH(nothing, grid, block, 0, nullptr));
		TRY(cudaFree(y));
	});
	wait_after("waiting");
	int *more = device<int>(8 * mib);
	TRY(LAUNCH(add, grid, block, 0, nullptr, more, 1000, 1));
	TRY(cudaFree(more));
	TRY(cudaFree(x));
	other.join();
	state("after");
}

// asks_for_more returns the error.
static int asks_for_more(const std::string &what)
{
	void *more = nullptr;

	if (what == "heap")
		return cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * mib);
	return what == "reserve" ? preCudaMalloc(64 * mib, 0, SCHEDGPU_NO_WAIT) : static_cast<int>(cudaMalloc(&more, 64 * mib));
}

// frees_while_growing: the last object is freed while a thread waits for more memory, which is then
// refused.
void frees_while_growing(const char *what)
{
	int *x = device<int>(1000);
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	std::thread other([=] { say("more %d", asks_for_more(what)); });
	wait_after("growing");
	TRY(cudaFree(x));
	say("freed");
	other.join();
	state("after");
}

// loads_while_waiting: the library has kernels.
void loads_while_waiting(const char *library)
{
	Waiting waiting;
	say("loaded %d", load(library, RTLD_NOW) != nullptr);
	waiting.end();
}

// calls_part: calls a library that has no symbols in the global scope.
void calls_part(const char *library)
{
	void *part = load(library, RTLD_NOW | RTLD_LOCAL);
	auto call = part != nullptr ? reinterpret_cast<int (*)()>(dlsym(part, "part")) : nullptr;
	say("part %d", call != nullptr ? call() : -1);
}

// sleeps: the thread waits for something (proc(5), "stat").
static bool sleeps(int thread)
{
	char state = 0;
	FILE *file = fopen(("/proc/self/task/" + std::to_string(thread) + "/stat").c_str(), "r");
	if (file == nullptr || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		exit(3);
	fclose(file);
	return state == 'S';
}

// Beside is a thread that does something while the program waits for memory. It has begun to wait too, or is done.
class Beside {
public:
	template <class What> explicit Beside(What what)
	{
		thread_ = std::thread([this, what] {
			number_ = static_cast<int>(syscall(SYS_gettid));
			what();
			done_ = true;
		});
		while (!done_ && (number_ == 0 || !sleeps(number_)))
			std::this_thread::yield();
	}
	void join() { thread_.join(); }

private:
	std::thread thread_;
	std::atomic<int> number_{0};
	std::atomic<bool> done_{false};
};

static void *node_of(size_t bytes)
{
	const CUmemLocation device_0 = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	cudaMemAllocNodeParams alloc = {{CU_MEM_ALLOCATION_TYPE_PINNED, 0, device_0, {}}, nullptr, 0, bytes, nullptr};
	cudaGraph_t graph;
	cudaGraphNode_t node;
	TRY(cudaGraphCreate(&graph, 0));
	TRY(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &alloc));
	return alloc.dptr;
}

// graph_while_growing: two threads make graphs that allocate, the second while the first waits for memory.
void graph_while_growing()
{
	int *x = device<int>(1000);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	std::thread first([] { say("first %d", node_of(64 * mib) != nullptr); });
	wait_after("growing");
	Beside second([] { say("second %d", node_of(32 * mib) != nullptr); });
	say("both");
	first.join();
	second.join();
	TRY(cudaFree(x));
}

// launches_while_reserving: what the program says that it needs is granted, but not all that it allocates.
void launches_while_reserving(const char *what)
{
	say("pre %d", preCudaMalloc(8 * mib, 0, SCHEDGPU_NO_WAIT));
	int *x = device<int>(4 * mib);
	std::thread other([=] { say("more %d", asks_for_more(what)); });
	wait_after("growing");
	Beside launch([x] { TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1)); });
	say("launching");
	other.join();
	launch.join();
	TRY(cudaFree(x));
}

// locks_while_waiting: memory is page-locked, in fact.
void locks_while_waiting()
{
	Waiting waiting;
	std::atomic<int> thread{0};
	void *host = nullptr, *on_device = nullptr;
	std::thread locking([&] {
		thread = static_cast<int>(syscall(SYS_gettid));
		TRY(cudaMallocHost(&host, 4000));
	});
	while (thread == 0 || !sleeps(thread))
		std::this_thread::yield();
	say("locking");
	locking.join();
	waiting.join();
	TRY(cudaHostGetDevicePointer(&on_device, host, 0));
	say("page-locked %u", fake_state().pinned);
	TRY(cudaFreeHost(host));
	waiting.end();
}

// forks_while_waiting: the child asks about memory, and frees it, as destructors do.
void forks_while_waiting()
{
	Waiting waiting;
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		cudaPointerAttributes about[4]; // CUDA 13's are larger
		alarm(10); // or it would outlive the test
		TRY(cudaPointerGetAttributes(about, waiting.x));
		TRY(cudaFree(waiting.x));
		_exit(0);
	}
	waitpid(child, &status, 0);
	say("child %d", status);
	waiting.end();
}

// works_in_child_while_waiting: the child has a device of its own.
void works_in_child_while_waiting()
{
	Waiting waiting;
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		alarm(10); // or it would outlive the test
		int *x = device<int>(1000);
		std::vector<int> before = numbers(1000, 3), after(1000);
		TRY(cudaMemcpy(x, before.data(), 4000, cudaMemcpyHostToDevice));
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
		TRY(cudaMemcpy(after.data(), x, 4000, cudaMemcpyDeviceToHost));
		_exit(after[999] == before[999] + 1 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	say("child %d", status);
	waiting.end();
}

// makes_event_while_waiting: a thread asks for the device of a new task. Meanwhile an event is made on the device of the task before.
void makes_event_while_waiting()
{
	cudaEvent_t event;
	int *x = device<int>(1000);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	TRY(cudaFree(x));
	std::thread asking([] {
		int *y = device<int>(1000);
		TRY(LAUNCH(add, grid, block, 0, nullptr, y, 1000, 1));
		TRY(cudaDeviceSynchronize());
		TRY(cudaFree(y));
	});
	wait_after("launching");
	meanwhile("cudaEventCreateWithFlags", FAKE_CUDA_AFTER, [] {
		meanwhile("cudaEventCreateWithFlags", FAKE_CUDA_AFTER, [] {});
		say("made");
	});
	TRY(cudaEventCreate(&event));
	asking.join();
	say("record %d", cudaEventRecord(event, nullptr));
	TRY(cudaEventDestroy(event));
}
