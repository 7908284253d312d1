// main.cc: programs that ask for tasks themselves (probe/case.h) and use the shared runtime,
// in small, for the fakes (lazytest/explicit_test.go). The argument says which.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "../../../probe/case.h"
#include "../programs/program.h"

// Without a copy of its own the program has these functions from the preloaded library.
extern "C" {
__attribute__((weak)) decltype(case_task_ask) case_task_ask;
__attribute__((weak)) decltype(case_task_begin) case_task_begin;
__attribute__((weak)) decltype(case_task_grow) case_task_grow;
__attribute__((weak)) decltype(case_task_shrink) case_task_shrink;
__attribute__((weak)) decltype(case_task_free) case_task_free;
}

static case_task begin(uint64_t bytes, uint64_t heap_bytes = 0)
{
	case_task task;
	TRY(case_task_begin(bytes, 32, 96, heap_bytes, 0, &task));
	return task;
}

static int device_of(const void *memory)
{
	cudaPointerAttributes attributes = {};
	TRY(cudaPointerGetAttributes(&attributes, memory));
	return attributes.device;
}

static int current_device()
{
	int device = -1;
	TRY(cudaGetDevice(&device));
	return device;
}

static int *allocate(size_t bytes) { return device<int>(bytes / sizeof(int)); }

// right computes on the memory, and says whether it is on that device and comes out right.
static bool right(int *x, int device, int by)
{
	std::vector<int> host = numbers(1000, by), back(1000);
	TRY(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, by));
	TRY(cudaMemcpy(back.data(), x, 4000, cudaMemcpyDeviceToHost));
	bool same = device_of(x) == device && current_device() == device;
	for (size_t i = 0; i < back.size(); i++)
		same = same && back[i] == host[i] + by;
	return same;
}

// one: as case.h says a task is used.
static void one()
{
	int count = 0;
	case_task task = begin(64 * mib);
	TRY(cudaGetDeviceCount(&count));
	say("granted %d of %d", task.device, count);
	TRY(cudaSetDevice(task.device));
	int *x = allocate(32 * mib), *y = allocate(32 * mib);
	say("right %d %d", right(x, task.device, 3), right(y, task.device, 4));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(case_task_free(&task));
	state("after");
}

// before: the program works on a device before it asks for a task.
static void before()
{
	int count = 0;
	TRY(cudaGetDeviceCount(&count));
	int *x = allocate(32 * mib);
	say("of %d right %d", count, right(x, 0, 1));
	case_task task = begin(64 * mib);
	TRY(cudaSetDevice(task.device));
	int *y = allocate(64 * mib);
	say("granted %d right %d", task.device, right(y, task.device, 2));
	TRY(cudaFree(y));
	TRY(case_task_free(&task));
	TRY(cudaFree(x));
	state("after");
}

// At most one context of the process is on each device.
static pthread_barrier_t all_here;

// at_once runs each of the jobs in a thread, and says how many came out right.
template <typename Job> static void at_once(int threads, Job job)
{
	std::vector<std::thread> all;
	std::atomic<int> sum{0};

	pthread_barrier_init(&all_here, nullptr, static_cast<unsigned>(threads));
	for (int k = 0; k < threads; k++)
		all.emplace_back([&, k] { sum += job(k); });
	for (std::thread &t : all)
		t.join();
	say("right %d", sum.load());
}

// asks works within a task of its own, beside others.
static bool asks(int by)
{
	case_task task = begin(64 * mib);
	TRY(cudaSetDevice(task.device));
	int *x = allocate(64 * mib);
	bool good = right(x, task.device, by);
	pthread_barrier_wait(&all_here);
	good = good && right(x, task.device, by);
	TRY(cudaFree(x));
	pthread_barrier_wait(&all_here);
	TRY(case_task_free(&task));
	return good;
}

// does_not works without an explicit task, beside others.
static bool does_not(int by, int on)
{
	TRY(cudaSetDevice(on));
	int *x = allocate(32 * mib);
	bool good = right(x, on, by);
	pthread_barrier_wait(&all_here);
	good = good && right(x, on, by);
	TRY(cudaFree(x));
	pthread_barrier_wait(&all_here);
	return good;
}

static void four()
{
	at_once(4, [](int k) { return asks(k); });
	state("after");
}

static void mixed()
{
	at_once(4, [](int k) { return k < 2 ? asks(k) : does_not(k, k - 2); });
	state("after");
}

// many: tasks begin and end in threads, with and without lazy work between.
static void many_tasks()
{
	at_once(4, [](int k) {
		bool good = true;
		for (int round = 0; round < 20; round++) {
			case_task task = {};
			if ((round + k) % 3 != 0) {
				task = begin(4 * mib);
				TRY(cudaSetDevice(task.device));
			}
			int *x = allocate(4 * mib);
			good = good && right(x, current_device(), round);
			TRY(cudaFree(x));
			TRY(case_task_free(&task));
		}
		return good;
	});
	state("after");
}

// turns: one task after the other, with work between them that no task covers.
static void turns()
{
	for (int turn = 0; turn < 2; turn++) {
		case_task task = begin(64 * mib);
		const int device = task.device;
		TRY(cudaSetDevice(device));
		int *x = allocate(64 * mib);
		say("in its task %d", right(x, device, turn));
		TRY(cudaFree(x));
		TRY(case_task_free(&task));
		x = allocate(32 * mib);
		say("between %d", right(x, device, turn));
		TRY(cudaFree(x));
	}
	state("after");
}

// beyond: the program allocates more than it asked for, and frees memory after the task ends.
static void beyond_its_bytes()
{
	case_task task = begin(64 * mib);
	TRY(cudaSetDevice(task.device));
	int *x = allocate(64 * mib), *small = allocate(mib), *y = allocate(96 * mib);
	say("right %d %d", right(x, task.device, 1), right(y, task.device, 2));
	const int device = task.device;
	TRY(case_task_free(&task));
	say("left %d", right(x, device, 3));
	task = begin(8 * mib);
	TRY(cudaSetDevice(device));
	say("again %d", right(y, device, 4));
	TRY(case_task_free(&task));
	for (int *memory : {x, small, y})
		TRY(cudaFree(memory));
	state("after");
}

// grown: a task that is made larger covers more, and less when it is made smaller.
static void grown()
{
	case_task task = begin(32 * mib, 64 * mib);
	TRY(cudaSetDevice(task.device));
	TRY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * mib)); // it has asked for that
	TRY(case_task_grow(&task, 64 * mib, 0));
	int *x = allocate(96 * mib);
	say("right %d", right(x, task.device, 1));
	TRY(cudaFree(x));
	TRY(case_task_shrink(&task, 64 * mib));
	x = allocate(96 * mib);
	say("right %d", right(x, task.device, 2));
	TRY(cudaFree(x));
	TRY(case_task_free(&task));
}

// helped: threads that have asked for nothing work on the task's device.
static void helped()
{
	case_task task = begin(64 * mib);
	at_once(4, [&](int k) {
		TRY(cudaSetDevice(task.device));
		int *x = allocate(16 * mib);
		const bool good = right(x, task.device, k);
		pthread_barrier_wait(&all_here);
		TRY(cudaFree(x));
		return good;
	});
	TRY(case_task_free(&task));
	state("after");
}

// launches: a kernel needs a task, and has one.
static void launches()
{
	case_task task = begin(0);
	TRY(cudaSetDevice(task.device));
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaDeviceSynchronize());
	TRY(case_task_free(&task));
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaDeviceSynchronize());
}

// child: a child of fork holds none of its parent's tasks.
static void child()
{
	case_task task = begin(64 * mib);
	const pid_t made = fork();
	if (made == 0) {
		TRY(cudaSetDevice(0));
		int *x = allocate(32 * mib);
		say("child %d", right(x, 0, 1));
		TRY(cudaFree(x));
		exit(0);
	}
	int status = -1;
	waitpid(made, &status, 0);
	TRY(case_task_free(&task));
	say("status %d", status);
}

// waits: the end of a task waits for nobody, though another thread waits for memory.
static void waits_for_nobody()
{
	case_task task = begin(64 * mib);
	TRY(cudaSetDevice(task.device));
	std::thread other([device = task.device] {
		TRY(cudaSetDevice(device));
		int *x = allocate(128 * mib);
		say("other %d", x != nullptr);
		TRY(cudaFree(x));
	});
	wait_after("begun"); // until the other one has asked
	TRY(case_task_free(&task));
	say("ended");
	other.join();
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)();
	} programs[] = {{"one", one}, {"before", before}, {"four", four}, {"mixed", mixed}, {"many", many_tasks}, {"turns", turns},
	                {"beyond", beyond_its_bytes}, {"grown", grown}, {"helped", helped}, {"launches", launches},
	                {"child", child}, {"waits", waits_for_nobody}};

	for (const auto &p : programs)
		if (count == 2 && strcmp(p.name, arguments[1]) == 0) {
			p.run();
			return 0;
		}
	return 2;
}
