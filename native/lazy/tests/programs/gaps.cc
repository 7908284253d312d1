// gaps.cc: right before and right after each lock that a call takes, another thread ends the task, or binds it.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "../../../probe/schedgpu.h"
#include "program.h"

extern "C" {
__attribute__((weak)) int preCudaMalloc(size_t bytes, int device, unsigned wait_ms);
__attribute__((weak)) int postCudaFree(size_t bytes, int device);
}

// at_gap runs in each gap of this thread.
static thread_local std::function<void()> *at_gap;

static void pass_gap()
{
	const auto run = at_gap;

	if (run == nullptr)
		return;
	at_gap = nullptr;
	(*run)();
	at_gap = run;
}

// The next is the thread sanitizer's, if the program is linked with it.
#define NEXT(name) reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

extern "C" int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept
{
	static const auto real = NEXT(pthread_mutex_lock);
	pass_gap();
	return real(mutex);
}

extern "C" int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept
{
	static const auto real = NEXT(pthread_mutex_unlock);
	const int result = real(mutex);
	pass_gap();
	return result;
}

// Step is what another thread does in a gap. The thread of the gap waits for it, but not long, because it may hold
// a lock that the other needs.
class Step {
public:
	explicit Step(std::function<void()> what) : what_(std::move(what)) {}
	void begin()
	{
		thread_ = std::thread([this] {
			what_();
			const std::lock_guard<std::mutex> lock(mutex_);
			over_ = true;
			changed_.notify_all();
		});
		std::unique_lock<std::mutex> lock(mutex_);
		changed_.wait_for(lock, std::chrono::milliseconds(10), [this] { return over_; });
	}
	void end() // at the latest now
	{
		if (!thread_.joinable())
			begin();
		thread_.join();
	}

private:
	const std::function<void()> what_;
	std::mutex mutex_;
	std::condition_variable changed_;
	std::thread thread_;
	bool over_ = false;
};

// in_gap does a call, and a step in the gap of that number. false: the call has fewer gaps. Of two steps the second
// comes some gaps later.
static bool in_gap(int number, const std::function<void()> &call, Step &step, int later = 0, Step *second = nullptr)
{
	int passed = 0;
	std::function<void()> pass = [&] {
		if (++passed == number)
			step.begin();
		else if (second != nullptr && passed == number + later)
			second->begin();
	};
	at_gap = &pass;
	call();
	at_gap = nullptr;
	step.end();
	if (second != nullptr)
		second->end();
	return passed >= number;
}

static std::atomic<int> right{0}, looked{0};

static void check(const int *x, int value)
{
	int back = -1;
	TRY(cudaMemcpy(&back, x + 9, 4, cudaMemcpyDeviceToHost));
	looked++;
	right += back == value;
}

static void launch(int *x, int value)
{
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, value));
	check(x, value);
}

static void call(const std::string &what)
{
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	if (what == "allocate") {
		int *x = device<int>(1000);
		TRY(cudaMemset(x, 0, 4000));
		check(x, 0);
		TRY(cudaFree(x));
	} else if (what == "grow") {
		int *x = device<int>(8 * mib);
		TRY(cudaMemset(x, 0, 4000));
		check(x, 0);
		TRY(cudaFree(x));
	} else if (what == "managed") {
		int *x = nullptr;
		TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), 4000, 1));
		x[9] = 5;
		check(x, 5);
		TRY(cudaFree(x));
	} else if (what == "array") {
		cudaArray_t array = nullptr;
		TRY(cudaMallocArray(&array, &ints, 250, 4, 0));
		TRY(cudaFreeArray(array));
	} else if (what == "ordered") {
		void *x = nullptr;
		TRY(cudaMallocAsync(&x, 4000, nullptr));
		TRY(LAUNCH(add, grid, block, 0, nullptr, static_cast<int *>(x), 1000, 1));
		TRY(cudaFreeAsync(x, nullptr));
		TRY(cudaStreamSynchronize(nullptr));
	} else if (what == "launch") {
		TRY(LAUNCH(notice, grid, block, 0, nullptr));
	} else if (what == "synchronize") {
		TRY(cudaDeviceSynchronize());
	} else if (what == "stream") {
		cudaStream_t s;
		TRY(cudaStreamCreate(&s));
		TRY(LAUNCH(notice, grid, block, 0, s));
		TRY(cudaStreamSynchronize(s));
		TRY(cudaStreamDestroy(s));
	} else if (what == "event") {
		cudaEvent_t a, b;
		float ms = -1;
		TRY(cudaEventCreate(&a));
		TRY(cudaEventCreate(&b));
		TRY(cudaEventRecord(a, nullptr));
		TRY(cudaEventRecord(b, nullptr));
		TRY(cudaEventSynchronize(b));
		TRY(cudaEventElapsedTime(&ms, a, b));
		TRY(cudaEventDestroy(a));
		TRY(cudaEventDestroy(b));
	} else if (what == "host") {
		void *p = nullptr, *q = malloc(4096);
		TRY(cudaMallocHost(&p, 4096));
		TRY(cudaHostRegister(q, 4096, 0));
		TRY(cudaFreeHost(p));
		TRY(cudaHostUnregister(q));
		free(q);
	} else if (what == "reserve") {
		if (preCudaMalloc(8 * mib, 0, SCHEDGPU_NO_WAIT) != 0)
			say("pre-allocation failed");
		if (postCudaFree(8 * mib, 0) != 0)
			say("release failed");
	} else if (what == "questions") {
		size_t free = 0, total = 0;
		cudaPointerAttributes a[4]; // CUDA 13's are larger
		int value = 0;
		TRY(cudaMemGetInfo(&free, &total));
		int *x = device<int>(1000);
		TRY(cudaPointerGetAttributes(a, x));
		looked++;
		right += a->type == 2 && a->device == 0;
		TRY(cudaFree(x));
		TRY(cudaDeviceGetAttribute(&value, 16, 0));
	} else {
		exit(2);
	}
}

// gaps: "CALL,WHAT". In each gap of the call another thread binds the task, or ends it, or ends it and begins another (moves),
// which for a number comes so many gaps later.
void gaps(const char *way)
{
	const std::string both = way, what = both.substr(0, both.find(',')), other = both.substr(both.find(',') + 1);
	const int later = atoi(other.c_str());
	bool more = true;

	for (int n = 1; more; n++) {
		int *x = device<int>(1000), *next = nullptr;
		if (other != "binds")
			launch(x, n);
		Step binds([&] { launch(x, n); });
		Step ends([&] {
			TRY(cudaFree(x));
			x = nullptr;
		});
		Step moves([&] {
			TRY(cudaFree(x));
			x = nullptr;
			launch(next = device<int>(1000), n);
		});
		Step again([&] { launch(next = device<int>(1000), n); });
		const auto act = [&] { call(what); };
		if (later > 0)
			more = in_gap(n, act, ends, later, &again);
		else
			more = in_gap(n, act, other == "binds" ? binds : other == "ends" ? ends : moves);
		TRY(cudaFree(x));
		TRY(cudaFree(next));
		TRY(cudaDeviceSynchronize());
	}
	say("right %d", right.load() == looked.load());
	state("after");
}

// rests_beside: a wait ends on the device of a task that is over, while a kernel of the next task runs.
void rests_beside()
{
	int early = 0;
	bool more = true;

	for (int n = 1; more; n++) {
		void *x = nullptr;
		int *last = nullptr;
		std::thread([&] { launch(last = device<int>(1000), n); }).join(); // this thread is not on its device yet
		Step moves([&] {
			TRY(cudaFree(last));
			TRY(LAUNCH(nothing, grid, block, 0, nullptr));
			TRY(cudaMallocAsync(&x, 4000, nullptr));
			TRY(LAUNCH(add, grid, block, 0, nullptr, static_cast<int *>(x), 1000, 1));
		});
		more = in_gap(n, [] { TRY(cudaDeviceSynchronize()); }, moves);
		TRY(cudaFreeAsync(x, nullptr)); // ends the task
		early += fake_state().submitted > 0;
	}
	say("early %d", early);
	state("after");
}

// flags_beside: flags are set while another thread binds the task. After a reset the next task has no context again.
void flags_beside()
{
	bool more = true;

	for (int n = 1; more; n++) {
		Step binds([] { TRY(LAUNCH(nothing, grid, block, 0, nullptr)); });
		more = in_gap(n, [] { TRY(cudaSetDeviceFlags(4)); }, binds);
		TRY(cudaDeviceReset());
	}
}
