// lazy_program.cc: CUDA programs in small, for the fake runtime: each does what
// its argument says and prints what it computed. It knows nothing of libcase, so
// its output must be the same with and without it (runner/probe/lazy_test.go).
//
// "wait" stands where the test decides what happens next: it prints its line and
// goes on when it reads one.
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../fake/cuda_calls.h"

static const size_t mib = 1 << 20;
static const dim3 grid = {16, 2, 1}, block = {96, 1, 1}; // 32 blocks of 96 threads

static void say(const char *format, ...)
{
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof line - 1, format, arguments);
	va_end(arguments);
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length)
		_exit(3);
}

static void wait_after(const char *line)
{
	char answer[64];
	say("%s", line);
	if (fgets(answer, sizeof answer, stdin) == nullptr)
		_exit(3);
}

// Programs go on after an error, as Rodinia's do, and say it.
#define TRY(x)                                            \
	do {                                              \
		cudaError_t error_ = (x);                 \
		if (error_ != cudaSuccess)                \
			say("%s: error %d", #x, error_);  \
	} while (0)

// state prints what the driver holds: for the tests that ask for it.
static void state(const char *when)
{
	fake_cuda_state s = fake_state();
	say("%s: contexts %d first %d allocations %u handles %u mappings %u reservations %u violations %u", when, s.contexts,
	    s.contexts > 0 ? s.order[0] : -1, s.allocations, s.handles, s.mappings, s.reservations, s.violations);
}

// ---- kernels

static void add(int *x, int n, int by)
{
	for (int i = 0; i < n; i++)
		x[i] += by;
}
FAKE_KERNEL(add);

static void sum(const int *x, int n, long *out)
{
	long all = 0;
	for (int i = 0; i < n; i++)
		all = all * 31 + x[i];
	*out = all;
}
FAKE_KERNEL(sum, 40, 2048);

static void follow(int **lists, int count, int n)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < n; k++)
			lists[i][k] += 1000 * i;
}
FAKE_KERNEL(follow);

static int table[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static int counter = 5;

// Only where they are used: a program with variables cannot change its device.
static void register_variables()
{
	FAKE_VARIABLE(table);
	FAKE_VARIABLE(counter);
}
static void use_table(int *x, int n)
{
	for (int i = 0; i < n; i++)
		x[i] += kernels::on_device(table)[i % 8];
}
FAKE_KERNEL(use_table);
static void step_counter(int *out) { *out = kernels::on_device(counter)++; }
FAKE_KERNEL(step_counter);

static void touch(const volatile char *address) { static_cast<void>(*address); }
FAKE_KERNEL(touch);
static void nothing() {}
FAKE_KERNEL(nothing);

// ---- helpers

template <class T> static T *device(size_t count)
{
	void *p = nullptr;
	TRY(cudaMalloc(&p, count * sizeof(T)));
	return static_cast<T *>(p);
}

static std::vector<int> numbers(size_t n, int from)
{
	std::vector<int> all(n);
	for (size_t i = 0; i < n; i++)
		all[i] = from + static_cast<int>(i * i % 97);
	return all;
}

static long digest(const int *x, int n)
{
	long *out = device<long>(1), value = -1;
	TRY(LAUNCH(sum, grid, block, 0, nullptr, x, n, out));
	TRY(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
	TRY(cudaFree(out));
	return value;
}

// ---- programs

// basic: what most programs are: allocate, copy, launch, copy back, free.
static void basic()
{
	const int n = mib; // 4 MiB
	std::vector<int> host = numbers(n, 1), back(n);
	int *x = device<int>(n), *y = device<int>(n), *little = device<int>(10);
	TRY(cudaMemcpy(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	TRY(cudaMemset(y, 0, n * sizeof(int)));
	TRY(cudaMemcpy(little, host.data(), 40, cudaMemcpyHostToDevice));
	state("before");
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 7));
	TRY(LAUNCH(add, grid, block, 0, nullptr, y, n, 9));
	TRY(LAUNCH(add, grid, block, 0, nullptr, little, 10, 1));
	TRY(cudaMemcpy(back.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
	say("x %d %d", back[0], back[n - 1]);
	TRY(cudaMemcpy(back.data(), y, n * sizeof(int), cudaMemcpyDeviceToHost));
	say("y %d %d", back[0], back[n - 1]);
	TRY(cudaMemcpy(back.data(), little, 40, cudaMemcpyDeviceToHost));
	say("little %d %d", back[0], back[9]);
	state("running");
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(cudaFree(little));
	say("last error %d", cudaGetLastError());
	state("after");
}

// order: everything that can be recorded, in an order that shows.
static void order()
{
	register_variables();
	const int n = 1000;
	std::vector<int> a = numbers(n, 1), b = numbers(n, 1000);
	int *x = device<int>(n), *y = device<int>(n), *z = device<int>(n);
	TRY(cudaMemset(x, 0xff, n * sizeof(int)));
	TRY(cudaMemcpy(x, a.data(), 400, cudaMemcpyHostToDevice));
	std::fill(a.begin(), a.end(), -1); // overwritten at once
	TRY(cudaMemcpy(x + 50, b.data(), 400, cudaMemcpyDefault));
	TRY(cudaMemcpy(y, x + 25, 800, cudaMemcpyDeviceToDevice)); // interior, before binding
	TRY(cudaMemset(y + 200, 1, 800 * sizeof(int)));
	TRY(cudaMemcpy(x, y + 10, 40, cudaMemcpyDeviceToDevice));
	{
		std::vector<int> gone = numbers(n, 7); // freed at once
		TRY(cudaMemcpyAsync(z, gone.data(), n * sizeof(int), cudaMemcpyHostToDevice, nullptr));
	}
	int *through = device<int>(n);
	TRY(cudaMemcpy(through, z, n * sizeof(int), cudaMemcpyDeviceToDevice));
	TRY(cudaMemset(z, 0, 2000));
	TRY(cudaMemcpy(z, through + 500, 2000, cudaMemcpyDeviceToDevice));
	TRY(cudaFree(through)); // before the launch
	int *unused = device<int>(3 * mib);
	TRY(cudaMemset(unused, 1, 3 * mib));
	TRY(cudaFree(unused));

	size_t pitch = 0;
	void *rows = nullptr;
	TRY(cudaMallocPitch(&rows, &pitch, 100, 8));
	TRY(cudaMemset2D(rows, pitch, 3, 100, 8));
	TRY(cudaMemcpy2D(static_cast<char *>(rows) + pitch, pitch, b.data(), 120, 100, 3, cudaMemcpyHostToDevice));

	int *lists[3], **device_lists = device<int *>(3);
	for (int i = 0; i < 3; i++) {
		lists[i] = device<int>(100);
		TRY(cudaMemcpy(lists[i], b.data() + i, 400, cudaMemcpyHostToDevice));
	}
	int *interior[3] = {lists[0] + 1, lists[1] + 2, lists[2] + 3};
	TRY(cudaMemcpy(device_lists, interior, sizeof interior, cudaMemcpyHostToDevice));
	int values[4] = {10, 20, 30, 40};
	TRY(cudaMemcpyToSymbol(table, values, sizeof values, 8, cudaMemcpyHostToDevice));
	memset(values, 0, sizeof values);
	state("before");

	TRY(LAUNCH(follow, grid, block, 0, nullptr, device_lists, 3, 90));
	TRY(LAUNCH(use_table, grid, block, 0, nullptr, y, n));
	say("x %ld y %ld z %ld", digest(x, n), digest(y, n), digest(z, n));
	say("rows %ld", digest(static_cast<int *>(rows), static_cast<int>(3 * pitch / 4 + 20)));
	for (int i = 0; i < 3; i++)
		say("list %ld", digest(lists[i], 100));
	int table_now[8];
	TRY(cudaMemcpyFromSymbol(table_now, table, sizeof table_now, 0, cudaMemcpyDeviceToHost));
	say("table %d %d %d", table_now[0], table_now[2], table_now[5]);
	for (int *p : {x, y, z, lists[0], lists[1], lists[2]})
		TRY(cudaFree(p));
	TRY(cudaFree(rows));
	TRY(cudaFree(device_lists));
	state("after");
}

// streams: streams, events and page-locked memory from before the first launch.
static void streams()
{
	const int n = 2000;
	cudaStream_t s, t;
	cudaEvent_t begin, end;
	int *in, *out;
	TRY(cudaStreamCreate(&s));
	TRY(cudaStreamCreateWithFlags(&t, 1));
	TRY(cudaEventCreate(&begin));
	TRY(cudaEventCreate(&end));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&in), n * sizeof(int)));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&out), n * sizeof(int)));
	std::vector<int> registered = numbers(n, 3);
	TRY(cudaHostRegister(registered.data(), n * sizeof(int), 0));
	int *x = device<int>(n), *y = device<int>(n);
	for (int i = 0; i < n; i++)
		in[i] = i;
	state("before");
	TRY(cudaEventRecord(begin, s));
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaMemcpyAsync(y, registered.data(), n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaEventRecord(end, s));
	TRY(cudaStreamWaitEvent(t, end, 0));
	TRY(LAUNCH(add, grid, block, 0, t, x, n, 5));
	TRY(cudaMemcpyAsync(out, x, n * sizeof(int), cudaMemcpyDeviceToHost, t));
	TRY(cudaStreamSynchronize(t));
	say("out %d %d", out[0], out[n - 1]);
	float ms = -1;
	TRY(cudaEventSynchronize(end));
	TRY(cudaEventElapsedTime(&ms, begin, end));
	say("elapsed %d", ms >= 0);
	in[0] = 77; // after a synchronization the buffer is the program's again
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaStreamSynchronize(s));
	in[0] = 78;
	say("x %ld y %ld", digest(x, n), digest(y, n));
	TRY(cudaHostUnregister(registered.data()));
	TRY(cudaFreeHost(in));
	TRY(cudaFreeHost(out));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(cudaEventDestroy(begin));
	TRY(cudaEventDestroy(end));
	TRY(cudaStreamDestroy(s));
	TRY(cudaStreamDestroy(t));
	state("after");
}

// reuse: a page-locked buffer that is written again as soon as CUDA says that it
// has been read, before the first launch. What waits for the stream says so, and
// what waits for the whole device (CUDA Runtime API, "API synchronization
// behavior").
static void reuse(const char *way)
{
	const int n = 1000;
	const std::string by = way;
	cudaStream_t s;
	cudaEvent_t e;
	int *in, host[4] = {}, *x = device<int>(n), *other = device<int>(4), *gone = device<int>(n);
	register_variables();
	TRY(cudaStreamCreate(&s));
	TRY(cudaEventCreate(&e));
	TRY(cudaMallocHost(reinterpret_cast<void **>(&in), n * sizeof(int)));
	for (int i = 0; i < n; i++)
		in[i] = i;
	TRY(cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	TRY(cudaEventRecord(e, s));
	if (by == "stream")
		TRY(cudaStreamSynchronize(s));
	else if (by == "event")
		TRY(cudaEventSynchronize(e));
	else if (by == "device")
		TRY(cudaDeviceSynchronize());
	else if (by == "stream_query")
		while (cudaStreamQuery(s) == cudaErrorNotReady) {}
	else if (by == "event_query")
		while (cudaEventQuery(e) == cudaErrorNotReady) {}
	else if (by == "copy")
		TRY(cudaMemcpy(other, host, sizeof host, cudaMemcpyHostToDevice));
	else if (by == "copy_2d")
		TRY(cudaMemcpy2D(other, 8, host, 8, 8, 2, cudaMemcpyHostToDevice));
	else if (by == "symbol")
		TRY(cudaMemcpyToSymbol(table, host, sizeof host, 0, cudaMemcpyHostToDevice));
	else if (by == "free")
		TRY(cudaFree(gone));
	else
		exit(2);
	memset(in, 0, n * sizeof(int));
	say("x %ld", digest(x, n));
	cudaPointerAttributes a[4]; // CUDA 13's are larger
	TRY(cudaPointerGetAttributes(a, x + 3));
	say("pointer type %d device %d", a->type, a->device);
	if (by != "free")
		TRY(cudaFree(gone));
	TRY(cudaFree(x));
	TRY(cudaFree(other));
	TRY(cudaFreeHost(in));
	TRY(cudaEventDestroy(e));
	TRY(cudaStreamDestroy(s));
	state("after");
}

// objects: allocations that are objects of the runtime's, and graphs.
static void objects()
{
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	cudaArray_t array;
	std::vector<int> host = numbers(64, 1), back(64);
	TRY(cudaMallocArray(&array, &ints, 8, 8, 0));
	TRY(cudaMemcpy2DToArray(array, 0, 0, host.data(), 32, 32, 8, cudaMemcpyHostToDevice));
	TRY(cudaMemcpy2DFromArray(back.data(), 32, array, 0, 0, 32, 8, cudaMemcpyDeviceToHost));
	say("array %d", back == host);
	cudaStream_t s;
	void *late = nullptr, *executable;
	cudaGraph_t graph;
	TRY(cudaStreamCreate(&s));
	TRY(cudaMallocAsync(&late, 4000, s));
	TRY(cudaMemsetAsync(late, 0, 4000, s));
	TRY(cudaStreamBeginCapture(s, 0));
	TRY(LAUNCH(add, grid, block, 0, s, static_cast<int *>(late), 1000, 3));
	TRY(cudaStreamEndCapture(s, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	for (int i = 0; i < 3; i++)
		TRY(cudaGraphLaunch(executable, s));
	TRY(cudaStreamSynchronize(s));
	say("graph %ld", digest(static_cast<int *>(late), 1000));
	TRY(cudaGraphExecDestroy(executable));
	TRY(cudaGraphDestroy(graph));
	int *x = device<int>(1000), n = 1000, by = 4;
	TRY(cudaMemset(x, 0, 4000));
	void *values[] = {&x, &n, &by};
	cudaLaunchConfig_t config = {grid, block, 0, s, nullptr, 0};
	TRY(cudaLaunchKernelExC(&config, STUB(add), values));
	TRY(cudaLaunchCooperativeKernel(STUB(add), grid, block, values, 0, s));
	TRY(cudaStreamSynchronize(s));
	say("launches %ld", digest(x, 1000));
	TRY(cudaFreeAsync(late, s));
	TRY(cudaFree(x));
	TRY(cudaFreeArray(array));
	TRY(cudaStreamDestroy(s));
	TRY(cudaDeviceSynchronize());
	state("after");
}

// shapes: copies and fills of more than one dimension.
static void shapes()
{
	struct { // cudaMemcpy3DParms
		cudaArray_t from_array;
		size_t from_at[3];
		cudaPitchedPtr from;
		cudaArray_t to_array;
		size_t to_at[3];
		cudaPitchedPtr to;
		cudaExtent extent;
		int kind;
	} copy = {};
	std::vector<int> host = numbers(1000, 2), back(1000);
	cudaPitchedPtr cube;
	cudaStream_t s;
	TRY(cudaStreamCreate(&s));
	TRY(cudaMalloc3D(&cube, {40, 5, 4}));
	TRY(cudaMemset3D(cube, 9, {40, 5, 4}));
	copy.from = {host.data(), 20, 20, 3};
	copy.to = cube;
	copy.to_at[0] = 4;
	copy.to_at[2] = 1;
	copy.extent = {20, 3, 2};
	copy.kind = cudaMemcpyHostToDevice;
	TRY(cudaMemcpy3D(&copy));
	int *x = device<int>(1000), *y = device<int>(1000);
	TRY(cudaMemset(x, 7, 4000));
	TRY(cudaMemcpy2DAsync(x + 3, 100, host.data(), 80, 48, 9, cudaMemcpyHostToDevice, s));
	TRY(cudaStreamSynchronize(s));
	TRY(cudaMemcpyPeer(y, 0, x, 0, 4000));
	TRY(cudaMemcpy(back.data(), y, 4000, cudaMemcpyDefault));
	say("y %ld cube %ld", digest(y, 1000), digest(static_cast<int *>(cube.ptr), static_cast<int>(cube.pitch)));
	say("back %d %d", back[3], back[28]);
	for (int *p : {x, y})
		TRY(cudaFree(p));
	TRY(cudaFree(cube.ptr));
	TRY(cudaStreamDestroy(s));
	state("after");
}

static void managed()
{
	int *x = nullptr;
	TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), 4 * mib, 1));
	for (int i = 0; i < 1000; i++)
		x[i] = i;
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	say("managed %d %d", x[0], x[999]);
	TRY(cudaFree(x));
}

// grow: allocations after the first launch.
static void grow()
{
	int *x = device<int>(mib), *more = nullptr, *again = nullptr;
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1, 1));
	say("bound");
	cudaError_t error = cudaMalloc(reinterpret_cast<void **>(&more), 64 * mib);
	const int last = cudaGetLastError(), then = cudaGetLastError();
	say("more %d last %d then %d", error, last, then);
	error = cudaMalloc(reinterpret_cast<void **>(&again), 16 * mib);
	say("again %d", error);
	TRY(cudaMemset(again, 0, 16 * mib));
	TRY(LAUNCH(add, {4000, 1, 1}, {1024, 1, 1}, 0, nullptr, again, 1000, 2));
	say("sum %ld", digest(again, 1000));
	TRY(cudaFree(again));
	TRY(cudaFree(more));
	TRY(cudaFree(x));
	state("after");
}

// grow_waits: a thread that waits for memory holds nobody up.
static void grow_waits()
{
	int *x = device<int>(1000), *y = nullptr;
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	wait_after("bound");
	std::thread waiting([&] { TRY(cudaMalloc(reinterpret_cast<void **>(&y), 32 * mib)); });
	wait_after("asked");
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	int value = 0;
	TRY(cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost));
	say("meanwhile %d", value);
	waiting.join();
	say("grown %d", y != nullptr);
	TRY(cudaFree(y));
	TRY(cudaFree(x));
	state("after");
}

static void one_task(const char *name)
{
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 3));
	say("%s %ld", name, digest(x, 1000));
	TRY(cudaFree(x));
}

static void tasks()
{
	for (const char *name : {"first", "second", "third"}) {
		one_task(name);
		state(name);
	}
}

// The tasks of different threads, one after the other.
static void tasks_in_threads()
{
	one_task("main");
	std::thread([] { one_task("other"); }).join();
	one_task("main again");
	std::thread([] { one_task("third"); }).join();
	state("after");
}

// A stream lives on its device, so all tasks have to go there.
static void tasks_with_stream()
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
static void tasks_with_variable()
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

static void threads()
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
static void churn()
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

static void devices()
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
static void two_devices()
{
	for (int d = 0; d < 2; d++) {
		TRY(cudaSetDevice(d));
		one_task("on its own device");
	}
	state("after");
}

static void too_much()
{
	void *p = nullptr;
	cudaError_t error = cudaMalloc(&p, 800 * mib);
	say("first %d", error);
	error = cudaMalloc(&p, 800 * mib);
	say("second %d last %d", error, cudaGetLastError());
}

// fault: seen by the copy after the kernel, and by all later calls.
static void fault()
{
	int *x = device<int>(1000), value = -1;
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	TRY(cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost));
	TRY(cudaFree(x));
	say("value %d", value);
}

static void fault_unseen() // nobody waits for the kernel
{
	device<int>(1000);
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
}

// own_context: a library below the runtime.
static void own_context()
{
	int *x = device<int>(1000);
	CUcontext context;
	CUdevice on = -1;
	TRY(driver_call<CUresult(unsigned)>("cuInit")(0));
	TRY(driver_call<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0, 0));
	TRY(driver_call<CUresult(CUdevice *)>("cuCtxGetDevice")(&on));
	say("context on %d", on);
	TRY(cudaMemset(x, 1, 4000));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	one_task("next");
}

// large_copy: more than what is recorded.
static void large_copy()
{
	std::vector<int> host = numbers(mib, 5);
	int *x = device<int>(mib);
	TRY(cudaMemcpy(x, host.data(), 4 * mib, cudaMemcpyHostToDevice));
	say("copied");
	TRY(LAUNCH(add, {4096, 1, 1}, {256, 1, 1}, 0, nullptr, x, 1000, 1));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
}

static void read_first() // device memory that nothing wrote, read before a launch
{
	int *x = device<int>(10), value = 0;
	TRY(cudaMemset(x, 2, 40));
	TRY(cudaMemcpy(&value, x + 3, 4, cudaMemcpyDeviceToHost));
	say("value %x", static_cast<unsigned>(value));
	TRY(cudaFree(x));
}

// settings of the context and of kernels, before there is a context.
static void settings()
{
	TRY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 * mib));
	TRY(cudaFuncSetAttribute(STUB(add), cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	state("before");
	TRY(LAUNCH(add, grid, block, 90000, nullptr, x, 1000, 3)); // needs the attribute
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	state("after");
}

// many: small allocations, half of them freed before the first launch.
static void many()
{
	const int count = 1000, n = 250;
	std::vector<int *> all;
	long sums = 0;
	for (int i = 0; i < count; i++) {
		all.push_back(device<int>(n));
		std::vector<int> host = numbers(n, i);
		TRY(cudaMemcpy(all.back(), host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	}
	for (int i = 0; i < count; i += 2)
		TRY(cudaFree(all[static_cast<size_t>(i)]));
	for (int i = 1; i < count; i += 2) {
		int back[n];
		TRY(LAUNCH(add, grid, block, 0, nullptr, all[static_cast<size_t>(i)], n, 1));
		TRY(cudaMemcpy(back, all[static_cast<size_t>(i)], sizeof back, cudaMemcpyDeviceToHost));
		for (int k = 0; k < n; k++)
			sums = sums * 31 + back[k];
		TRY(cudaFree(all[static_cast<size_t>(i)]));
	}
	say("sums %ld", sums);
	state("after");
}

// mistakes: what CUDA refuses is refused before binding too.
static void mistakes()
{
	int *x = device<int>(1000), host[10] = {};
	void *none = nullptr;
	TRY(cudaFree(host));
	TRY(cudaMemcpy(host, host, sizeof host, cudaMemcpyHostToDevice));
	TRY(cudaMemcpy(x, host, sizeof host, 17));
	TRY(cudaMalloc(&none, 0));
	TRY(cudaFree(none));
	TRY(cudaFree(x));
	TRY(cudaFree(x));
	say("last error %d", cudaGetLastError());
	state("after");
}

// forks: parent and child each use CUDA, which the parent had not before.
static void forks()
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

// exit_while_waiting: the program ends although a thread waits for a device.
static void exit_while_waiting()
{
	std::thread([] { one_task("never"); }).detach();
	wait_after("started");
}

static void reset()
{
	one_task("first");
	int *left = device<int>(1000);
	TRY(cudaMemset(left, 0, 4000));
	TRY(cudaDeviceReset());
	one_task("second");
	TRY(cudaDeviceReset());
	state("after");
}

static void launch_only() // a launch without any memory
{
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaDeviceSynchronize());
}

static const struct {
	const char *name;
	void (*run)();
} programs[] = {
	{"basic", basic}, {"order", order}, {"streams", streams}, {"objects", objects}, {"managed", managed},
	{"grow", grow}, {"grow_waits", grow_waits}, {"tasks", tasks}, {"tasks_in_threads", tasks_in_threads},
	{"tasks_with_stream", tasks_with_stream}, {"tasks_with_variable", tasks_with_variable}, {"threads", threads},
	{"churn", churn}, {"devices", devices}, {"two_devices", two_devices}, {"too_much", too_much},
	{"fault", fault}, {"fault_unseen", fault_unseen}, {"own_context", own_context}, {"large_copy", large_copy},
	{"read_first", read_first}, {"reset", reset}, {"launch_only", launch_only}, {"settings", settings},
	{"shapes", shapes}, {"forks", forks}, {"exit_while_waiting", exit_while_waiting}, {"many", many}, {"mistakes", mistakes},
};

int main(int count, char **arguments)
{
	if (count == 3 && strcmp(arguments[1], "reuse") == 0) {
		reuse(arguments[2]);
		return 0;
	}
	for (const auto &p : programs)
		if (count == 2 && strcmp(p.name, arguments[1]) == 0) {
			p.run();
			return 0;
		}
	return 2;
}
