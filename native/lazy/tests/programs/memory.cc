// memory.cc: what is done to memory before the first launch and after.
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "program.h"

// basic: as most programs: allocate, copy, launch, copy back, free.
void basic()
{
	const int n = 1 << 16;
	std::vector<int> host = numbers(n, 1), back(n);
	int *first = device<int>(mib), *second = device<int>(mib), *little = device<int>(10);
	int *x = first + mib / 2 - n / 2, *y = second + mib / 2 - n / 2; // on two granules each, of the 4 MiB
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
	TRY(cudaFree(first));
	TRY(cudaFree(second));
	TRY(cudaFree(little));
	say("last error %d", cudaGetLastError());
	state("after");
}

// order: everything that can be recorded, in an order that shows.
void order()
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
	TRY(cudaMemset(rows, 2, 8 * pitch)); // what lies between the rows counts too
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

// shapes: copies and fills of more than one dimension.
void shapes()
{
	cudaMemcpy3DParms copy = {};
	std::vector<int> host = numbers(1000, 2), back(1000);
	cudaPitchedPtr cube;
	cudaStream_t s;
	TRY(cudaStreamCreate(&s));
	TRY(cudaMalloc3D(&cube, {40, 5, 4}));
	TRY(cudaMemset3D(cube, 9, {40, 5, 4}));
	copy.srcPtr = {host.data(), 20, 20, 3};
	copy.dstPtr = cube;
	copy.dstPos.x = 4;
	copy.dstPos.z = 1;
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

// objects: allocations that are objects of the runtime, and graphs.
void objects()
{
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	cudaArray_t array;
	std::vector<int> host = numbers(64, 1), back(64);
	TRY(cudaMallocArray(&array, &ints, 8, 8, 0));
	TRY(cudaMemcpy2DToArray(array, 0, 0, host.data(), 32, 32, 8, cudaMemcpyHostToDevice));
	TRY(cudaMemcpy2DFromArray(back.data(), 32, array, 0, 0, 32, 8, cudaMemcpyDeviceToHost));
	say("array %d", back == host);
	cudaStream_t s;
	void *late = nullptr;
	cudaGraphExec_t executable;
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

void managed()
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

// pages: managed memory of which the host has touched none, and then all.
void pages()
{
	char *x = nullptr;
	TRY(cudaMallocManaged(reinterpret_cast<void **>(&x), 4 * mib, 1));
	wait_after("allocated");
	memset(x, 1, 4 * mib);
	wait_after("touched");
	TRY(cudaFree(x));
	wait_after("freed");
}

// guarded: managed memory, other memory beside it, and a variable of 2 MiB.
void guarded()
{
	int *x = nullptr, *y = nullptr, *z = nullptr;
	TRY(cudaMalloc(reinterpret_cast<void **>(&y), mib));
	TRY(cudaFree(y));
	y = nullptr;
	say("managed %d", cudaMallocManaged(reinterpret_cast<void **>(&x), 4 * mib, 1));
	say("beside %d", cudaMalloc(reinterpret_cast<void **>(&y), 2 * mib));
	say("more %d", cudaMallocManaged(reinterpret_cast<void **>(&z), 8 * mib, 1));
	if (z != nullptr)
		TRY(cudaFree(z));
	TRY(cudaFree(y));
	void *variable = nullptr;
	reinterpret_cast<decltype(&__cudaRegisterManagedVar)>(dlsym(RTLD_DEFAULT, "__cudaRegisterManagedVar"))(
	    nullptr, &variable, nullptr, "variable", 0, 2 * mib, 0, 0);
	say("launch %d", LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("again %d", LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceReset());
}

// many: small allocations, half of them freed before the first launch.
void many()
{
	const int count = 200, n = 250;
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

// crowded: many small allocations of many sizes, some freed and made again with other sizes, before the first launch and
// after.
void crowded()
{
	const int count = 300;
	std::vector<int *> all(count, nullptr);
	std::vector<int> lengths(count);
	long sums = 0;
	const auto renew = [&](int first, int step, int round) {
		for (int i = first; i < count; i += step)
			TRY(cudaFree(all[static_cast<size_t>(i)]));
		for (int i = first; i < count; i += step) {
			const size_t at = static_cast<size_t>(i);
			lengths[at] = 1 + (i * 7919 + round * 104729) % 15000;
			all[at] = device<int>(static_cast<size_t>(lengths[at]));
			TRY(cudaMemset(all[at], (i + round) % 128, static_cast<size_t>(lengths[at]) * sizeof(int)));
		}
	};
	renew(0, 1, 0);
	renew(0, 3, 1);
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	renew(1, 3, 2);
	renew(0, 2, 3);
	for (size_t i = 0; i < count; i++) {
		std::vector<int> back(static_cast<size_t>(lengths[i]));
		TRY(cudaMemcpy(back.data(), all[i], back.size() * sizeof(int), cudaMemcpyDeviceToHost));
		for (const int n : back)
			sums = sums * 31 + n;
	}
	say("sums %ld", sums);
	for (int *x : all)
		TRY(cudaFree(x));
	state("after");
}

// large_copy: more than what is recorded.
void large_copy()
{
	std::vector<int> host = numbers(mib, 5);
	int *x = device<int>(mib);
	TRY(cudaMemcpy(x, host.data(), 4 * mib, cudaMemcpyHostToDevice));
	say("copied");
	TRY(LAUNCH(add, {4096, 1, 1}, {256, 1, 1}, 0, nullptr, x, 1000, 1));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
}

void read_first() // device memory that nothing wrote, read before a launch
{
	int *x = device<int>(10), value = 0;
	TRY(cudaMemset(x, 2, 40));
	TRY(cudaMemcpy(&value, x + 3, 4, cudaMemcpyDeviceToHost));
	say("value %x", static_cast<unsigned>(value));
	TRY(cudaFree(x));
}

// grow: allocations after the first launch.
void grow()
{
	int *x = device<int>(mib), *more = nullptr, *again = nullptr;
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1, 1));
	say("bound");
	cudaError_t error = cudaMalloc(reinterpret_cast<void **>(&more), 64 * mib);
	const int last = cudaGetLastError(), then = cudaGetLastError();
	say("more %d last %d then %d", error, last, then);
	error = cudaMalloc(reinterpret_cast<void **>(&again), 16 * mib);
	say("again %d", error);
	state("grown");
	TRY(cudaMemset(again, 0, 4000));
	TRY(LAUNCH(add, {4000, 1, 1}, {1024, 1, 1}, 0, nullptr, again, 1000, 2));
	say("sum %ld", digest(again, 1000));
	TRY(cudaFree(again));
	TRY(cudaFree(more));
	TRY(cudaFree(x));
	state("after");
}

// grow_waits: a thread that waits for memory holds nobody up.
void grow_waits()
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

// settings of the context and of kernels, before there is a context.
void settings()
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

// mistakes: what CUDA refuses is refused before binding too.
void mistakes()
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

// limits: the program sets a limit to learn that the device does not have it.
void limits()
{
	say("depth %d", cudaDeviceSetLimit(3, 4)); // cudaLimitDevRuntimeSyncDepth
	say("last %d", cudaGetLastError());
	int *x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 6));
	say("sum %ld", digest(x, 1000));
	TRY(cudaFree(x));
}

// wrong: an argument that CUDA refuses does not undo what the program did before.
void wrong(const char *way)
{
	static int no_variable;
	const std::string what = way;
	int host[16] = {}, *x = device<int>(1000);
	register_variables();
	TRY(cudaMemset(x, 0, 4000));
	if (what == "source")
		say("%d", cudaMemcpy(x, nullptr, 40, cudaMemcpyHostToDevice));
	else if (what == "pitch")
		say("%d", cudaMemcpy2D(x, 4, host, 8, 8, 2, cudaMemcpyHostToDevice));
	else if (what == "source_pitch")
		say("%d", cudaMemcpy2D(x, 8, host, 4, 8, 2, cudaMemcpyHostToDevice));
	else if (what == "set_pitch")
		say("%d", cudaMemset2D(x, 4, 1, 8, 2));
	else if (what == "size")
		say("%d", cudaMemcpyToSymbol(table, host, sizeof table + 4, 0, cudaMemcpyHostToDevice));
	else if (what == "offset")
		say("%d", cudaMemcpyToSymbol(table, host, 8, sizeof table - 4, cudaMemcpyHostToDevice));
	else if (what == "kind")
		say("%d", cudaMemcpyToSymbol(table, host, 4, 0, cudaMemcpyDeviceToHost));
	else if (what == "variable")
		say("%d", cudaMemcpyToSymbol(&no_variable, host, 4, 0, cudaMemcpyHostToDevice));
	else
		exit(2);
	say("last %d", cudaGetLastError());
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	state("after");
}

static long resident() // bytes
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file == nullptr || fscanf(file, "%*d %ld", &pages) != 1)
		exit(3);
	fclose(file);
	return pages * 4096;
}

// small_copies: many copies of a few bytes, before the first launch.
void small_copies()
{
	const int n = 1 << 14;
	int *x = device<int>(n);
	const long before = resident();
	for (int i = 0; i < n; i++)
		TRY(cudaMemcpy(x + i, &i, sizeof i, cudaMemcpyHostToDevice));
	say("mib %ld", (resident() - before) / static_cast<long>(mib));
	say("x %ld", digest(x, n));
	TRY(cudaFree(x));
}

// swapped: 40 MiB, or so many as said, and half as much are used again and again, by kernels, sets and copies, with a gap of so many
// microseconds after each time.
void swapped() { swapped("40"); }
void swapped(const char *mib)
{
	Meeting meeting;
	const char *gap = getenv("SWAPPED_GAP_US");
	const int n = atoi(mib) << 18;
	int *x = device<int>(n), *y = device<int>(n / 2);
	std::vector<int> out(static_cast<size_t>(n) / 2);

	TRY(cudaMemset(x, 0, static_cast<size_t>(n) * 4));
	for (int i = 0; i < 12; i++) {
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, i));
		TRY(cudaMemcpy(y, x + n / 3, static_cast<size_t>(n) * 2, cudaMemcpyDeviceToDevice));
		TRY(cudaMemset(x + n / 4, i, 1000000));
		TRY(LAUNCH(add, grid, block, 0, nullptr, y, n / 2, -i));
		TRY(cudaMemcpy(out.data(), y, out.size() * 4, cudaMemcpyDeviceToHost));
		long all = 0;
		for (int v : out)
			all = 31 * all + v;
		say("%d: %ld", i, all);
		meeting.wait();
		usleep(gap != nullptr ? atoi(gap) : 0);
	}
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	state("after");
}

// hogs: the driver takes 16 MiB that no call shows, until somebody writes to the pipe.
void hogs(const char *pipe)
{
	int *x = device<int>(1000);
	char byte;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	TRY(take(16 << 20));
	const int file = open(pipe, O_RDONLY);
	TRY(file < 0 || read(file, &byte, 1) < 0);
	TRY(cudaFree(x));
	state("after");
}

// within: once somebody has written to the pipe, it allocates what its task has had before.
void within(const char *pipe)
{
	int *x = device<int>(1000), *y = nullptr;
	char byte;

	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaMalloc(reinterpret_cast<void **>(&y), 20 * mib));
	TRY(cudaFree(y));
	const int file = open(pipe, O_RDONLY);
	TRY(file < 0 || read(file, &byte, 1) < 0);
	TRY(cudaMalloc(reinterpret_cast<void **>(&y), 20 * mib));
	TRY(LAUNCH(add, grid, block, 0, nullptr, y, 1000, 1));
	TRY(cudaFree(y));
	TRY(cudaFree(x));
	state("after");
}
