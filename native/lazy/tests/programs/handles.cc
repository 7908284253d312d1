// handles.cc: many streams and events, and what is left of them.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "program.h"

// refused counts the events that CUDA refuses.
static long refused(const std::vector<cudaEvent_t> &events)
{
	return std::count_if(events.begin(), events.end(), [](cudaEvent_t e) { return cudaEventQuery(e) == cudaErrorInvalidResourceHandle; });
}

// at_once has so many events and streams at one time.
static void at_once(size_t count)
{
	std::vector<cudaEvent_t> events(count);
	std::vector<cudaStream_t> streams(count / 50);
	for (cudaEvent_t &e : events)
		TRY(cudaEventCreateWithFlags(&e, 2));
	for (cudaStream_t &s : streams)
		TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaEventRecord(events.back(), streams.back()));
	TRY(cudaStreamWaitEvent(streams.front(), events.back(), 0));
	TRY(cudaStreamSynchronize(streams.front()));
	std::vector<cudaEvent_t> sorted = events;
	std::sort(sorted.begin(), sorted.end());
	say("different %d refused %ld", std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), refused(events));
	for (cudaEvent_t e : events)
		TRY(cudaEventDestroy(e));
	for (cudaStream_t s : streams)
		TRY(cudaStreamDestroy(s));
	say("refused %ld", refused(events));
}

// one_by_one makes and destroys so many events. One that was destroyed before 1,000 others is still refused.
static void one_by_one(size_t count)
{
	std::vector<cudaEvent_t> old;
	long again = 0;
	for (size_t i = 0; i < count; i++) {
		cudaEvent_t e;
		TRY(cudaEventCreate(&e));
		if (i % 1000 == 0) {
			TRY(cudaEventRecord(e, nullptr));
			TRY(cudaEventSynchronize(e));
			again += refused(old) == static_cast<long>(old.size());
			old.assign(1, e);
		}
		TRY(cudaEventDestroy(e));
	}
	say("refused again %ld", again);
}

// many_handles: before there is a device, and later.
void many_handles(const char *events)
{
	const size_t count = strtoul(events, nullptr, 10);
	for (int bound : {0, 1}) {
		at_once(count / 10);
		one_by_one(bound ? count : count / 10);
		TRY(LAUNCH(nothing, grid, block, 0, nullptr));
		TRY(cudaDeviceSynchronize());
	}
	TRY(cudaGetLastError());
	state("after");
}

// kinds_of_handles: CUDA is told how a stream is to be.
void kinds_of_handles()
{
	for (int bound : {0, 1}) {
		cudaStream_t low, high;
		unsigned flags[2] = {9, 9};
		int priorities[2] = {9, 9};
		TRY(cudaStreamCreateWithFlags(&low, 1));
		TRY(cudaStreamCreateWithPriority(&high, 0, -3));
		TRY(LAUNCH(nothing, grid, block, 0, high));
		for (int i : {0, 1}) {
			TRY(cudaStreamGetFlags(i == 0 ? low : high, &flags[i]));
			TRY(cudaStreamGetPriority(i == 0 ? low : high, &priorities[i]));
		}
		say("bound %d: flags %u %u priorities %d %d", bound, flags[0], flags[1], priorities[0], priorities[1]);
		for (cudaStream_t s : {low, high})
			TRY(cudaStreamDestroy(s));
	}
}

// handles_in_threads: threads make, use and destroy streams and events, from before there is a device.
void handles_in_threads()
{
	std::vector<std::thread> all;
	std::atomic<int> right{0};
	for (int k = 0; k < 4; k++)
		all.emplace_back([k, &right] {
			for (int round = 0; round < 50; round++) {
				cudaStream_t s, t;
				cudaEvent_t e;
				int *x = device<int>(1000), back = -1;
				for (cudaStream_t *stream : {&s, &t})
					TRY(cudaStreamCreateWithFlags(stream, 1));
				TRY(cudaEventCreate(&e));
				TRY(cudaMemsetAsync(x, 0, 4000, s));
				TRY(LAUNCH(add, grid, block, 0, s, x, 1000, k + round));
				TRY(cudaEventRecord(e, s));
				TRY(cudaStreamWaitEvent(t, e, 0));
				TRY(cudaMemcpyAsync(&back, x + 9, 4, cudaMemcpyDeviceToHost, t));
				TRY(cudaStreamSynchronize(t));
				right += back == k + round;
				TRY(cudaEventDestroy(e));
				for (cudaStream_t stream : {s, t})
					TRY(cudaStreamDestroy(stream));
				TRY(cudaFree(x));
			}
		});
	for (std::thread &t : all)
		t.join();
	say("right %d", right.load());
	state("after");
}

// handles_forked: a child of a process without a device uses the streams and events that it has of its parent.
void handles_forked()
{
	cudaStream_t s;
	cudaEvent_t e;
	int status = -1;
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaEventCreate(&e));
	pid_t child = fork();
	int *x = device<int>(1000);
	TRY(cudaMemsetAsync(x, 0, 4000, s));
	TRY(LAUNCH(add, grid, block, 0, s, x, 1000, child == 0 ? 1 : 2));
	TRY(cudaEventRecord(e, s));
	TRY(cudaEventSynchronize(e));
	int back = -1;
	TRY(cudaMemcpy(&back, x + 9, 4, cudaMemcpyDeviceToHost));
	TRY(cudaEventDestroy(e));
	TRY(cudaStreamDestroy(s));
	TRY(cudaFree(x));
	if (child == 0)
		_exit(back == 1 && cudaEventQuery(e) == cudaErrorInvalidResourceHandle ? 0 : 1);
	waitpid(child, &status, 0);
	say("child %d parent %d", status, back);
}

// handles_without_memory: all addresses are taken when the first is made.
void handles_without_memory()
{
	cudaEvent_t e = nullptr;
	cudaStream_t s = nullptr;
	struct rlimit all, none = {};
	int count;
	TRY(cudaGetDeviceCount(&count)); // which loads the driver
	TRY(cudaSetDevice(0));           // which reads the program's files
	getrlimit(RLIMIT_AS, &all);
	none.rlim_max = all.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	const int refused_event = cudaEventCreate(&e), refused_stream = cudaStreamCreate(&s);
	setrlimit(RLIMIT_AS, &all);
	say("refused %d %d: %d", refused_event, refused_stream, cudaGetLastError());
	TRY(cudaEventCreate(&e));
	TRY(cudaEventRecord(e, nullptr));
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaEventSynchronize(e));
	TRY(cudaEventDestroy(e));
}
