// tasks.cc: several tasks, threads, processes and devices.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "program.h"

static void one_task(const char *name)
{
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 3));
	say("%s %ld", name, digest(x, 1000));
	TRY(cudaFree(x));
}

void tasks()
{
	for (const char *name : {"first", "second", "third"}) {
		one_task(name);
		state(name);
	}
}

// The tasks of different threads, one after the other.
void tasks_in_threads()
{
	one_task("main");
	std::thread([] { one_task("other"); }).join();
	one_task("main again");
	std::thread([] { one_task("third"); }).join();
	state("after");
}

// A stream lives on its device, so all tasks have to go there.
void tasks_with_stream()
{
	cudaStream_t s;
	TRY(cudaStreamCreate(&s));
	for (const char *name : {"first", "second"}) {
		int *x = device<int>(1000);
		TRY(cudaMemsetAsync(x, 1, 4000, s));
		TRY(LAUNCH(add, grid, block, 0, s, x, 1000, 3));
		TRY(cudaStreamSynchronize(s));
		say("%s %ld", name, digest(x, 1000));
		TRY(cudaFree(x));
	}
	TRY(cudaStreamDestroy(s));
	state("after");
}

// A variable that kernels write keeps its value from task to task.
void tasks_with_variable()
{
	register_variables();
	for (int i = 0; i < 3; i++) {
		int *out = device<int>(1), value = -1;
		TRY(LAUNCH(step_counter, grid, block, 0, nullptr, out));
		TRY(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost));
		say("counter %d", value);
		TRY(cudaFree(out));
	}
}

void threads()
{
	std::vector<std::thread> all;
	std::atomic<int> right{0};
	for (int k = 0; k < 8; k++)
		all.emplace_back([k, &right] {
			for (int round = 0; round < 4; round++) {
				std::vector<int> host = numbers(1000, k * 100 + round), back(1000);
				cudaStream_t s;
				TRY(cudaSetDevice(0));
				TRY(cudaStreamCreate(&s));
				int *x = device<int>(1000);
				TRY(cudaMemcpyAsync(x, host.data(), 4000, cudaMemcpyHostToDevice, s));
				TRY(LAUNCH(add, grid, block, 0, s, x, 1000, k));
				TRY(cudaMemcpyAsync(back.data(), x, 4000, cudaMemcpyDeviceToHost, s));
				TRY(cudaStreamSynchronize(s));
				bool same = true;
				for (int i = 0; i < 1000; i++)
					same = same && back[static_cast<size_t>(i)] == host[static_cast<size_t>(i)] + k;
				right += same;
				TRY(cudaFree(x));
				TRY(cudaStreamDestroy(s));
			}
		});
	for (std::thread &t : all)
		t.join();
	say("right %d", right.load());
	state("after");
}

// churn: tasks that begin and end while other threads allocate.
void churn()
{
	std::vector<std::thread> all;
	std::atomic<int> right{0};
	for (int k = 0; k < 8; k++)
		all.emplace_back([k, &right] {
			for (int round = 0; round < 50; round++) {
				int *x = device<int>(1000), value = k, back = -1;
				TRY(cudaMemcpy(x + 9, &value, 4, cudaMemcpyHostToDevice));
				TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, round));
				TRY(cudaMemcpy(&back, x + 9, 4, cudaMemcpyDeviceToHost));
				right += back == k + round;
				TRY(cudaFree(x));
			}
		});
	for (std::thread &t : all)
		t.join();
	say("right %d", right.load());
	state("after");
}

// objects_beside: tasks of other threads end while another makes what must not wait for a device.
void objects_beside()
{
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	std::atomic<bool> done{false};
	std::vector<std::thread> beside(3);
	for (std::thread &t : beside)
		t = std::thread([&done] {
			while (!done)
				TRY(cudaFree(device<int>(1000)));
		});
	int right = 0;
	for (int round = 0; round < 200; round++) {
		int *x = nullptr, back = -1;
		cudaArray_t array = nullptr;
		TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), 4000, 1));
		x[9] = round;
		TRY(cudaMemcpy(&back, x + 9, 4, cudaMemcpyDeviceToHost));
		right += back == round;
		TRY(cudaFree(x));
		TRY(cudaMallocArray(&array, &ints, 250, 4, 0));
		TRY(cudaFreeArray(array));
	}
	done = true;
	for (std::thread &t : beside)
		t.join();
	say("right %d", right);
	state("after");
}

void devices()
{
	int count = 0, device = -1;
	char properties[2048];
	TRY(cudaGetDeviceCount(&count));
	TRY(cudaGetDevice(&device));
	TRY(cudaGetDeviceProperties(properties, 0));
	int last = cudaSetDevice(count - 1), beyond = cudaSetDevice(count);
	say("count %d device %d last %d beyond %d error %d", count, device, last, beyond, cudaGetLastError());
	state("asked");
	TRY(cudaFree(nullptr));
	TRY(cudaDeviceSynchronize());
	state("made"); // not under task binding
	one_task("task");
}

// two_devices: a program that does its own placement.
void two_devices()
{
	for (int d = 0; d < 2; d++) {
		TRY(cudaSetDevice(d));
		one_task("on its own device");
	}
	state("after");
}

// own_context: a library below the runtime has a context that the program does not use.
void own_context()
{
	int *x = device<int>(1000);
	CUcontext context;
	CUdevice on = -1;
	TRY(driver_call<CUresult(unsigned)>("cuInit")(0));
	TRY(driver_call<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0, 0));
	TRY(driver_call<CUresult(CUdevice *)>("cuCtxGetDevice")(&on));
	say("context on %d", on);
	TRY(cudaSetDevice(0));
	TRY(cudaMemset(x, 1, 4000));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	one_task("next");
}

// forks: parent and child each use CUDA, which the parent had not before.
void forks()
{
	pid_t child = fork();
	if (child == 0) {
		one_task("child");
		exit(0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	say("status %d", status);
	one_task("parent");
	state("after");
}

// forks_bound: a child of a process with a device ends without having used it.
void forks_bound()
{
	int *x = device<int>(1000), status = -1;
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 3));
	pid_t child = fork();
	if (child == 0)
		exit(0); // through its exit handlers
	waitpid(child, &status, 0);
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 3));
	say("status %d x %ld", status, digest(x, 1000));
	TRY(cudaFree(x));
	state("after");
}

// exit_while_waiting: the program ends although a thread waits for a device.
void exit_while_waiting()
{
	std::thread([] { one_task("never"); }).detach();
	wait_after("started");
}

void reset()
{
	one_task("first");
	int *left = device<int>(1000);
	TRY(cudaMemset(left, 0, 4000));
	TRY(cudaDeviceReset());
	one_task("second");
	TRY(cudaDeviceReset());
	state("after");
}
