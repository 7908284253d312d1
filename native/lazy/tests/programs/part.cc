// part.cc: programs whose memory others work on too.
#include <string.h>

#include <string>
#include <thread>

#include "program.h"

// beside_part: the program and a library that calls the driver work on the same memory in turn.
void beside_part(const char *library)
{
	void *part = load(library, RTLD_NOW | RTLD_LOCAL);
	auto works = part != nullptr ? reinterpret_cast<void (*)(int *, int, int)>(dlsym(part, "part_works")) : nullptr;
	const int n = 1 << 20; // two chunks of 2 MiB
	int *x = device<int>(n);

	if (works == nullptr)
		exit(3);
	TRY(cudaMemset(x, 1, static_cast<size_t>(n) * 4));
	for (int i = 0; i < 8; i++) {
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, i));
		works(x, n, i);
		say("%d: %ld", i, digest(x, n));
	}
	TRY(cudaFree(x));
}

// resumes_in_a_thread: the call that has to ask for memory is a thread's first.
void resumes_in_a_thread()
{
	const int n = 4 << 20; // 16 MiB
	int *x = device<int>(n);

	TRY(cudaMemset(x, 0, static_cast<size_t>(n) * 4));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	TRY(cudaDeviceSynchronize());
	wait_after("launched");
	std::thread([=] { TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1)); }).join();
	TRY(cudaDeviceSynchronize());
	say("x %ld", digest(x, n));
	TRY(cudaFree(x));
}

// seems: what is said of a device's memory, bound or not.
void seems()
{
	char properties[2048];
	size_t total = 0;
	TRY(cudaGetDeviceProperties(properties, 0));
	memcpy(&total, properties + 288, sizeof total);
	say("properties %zu MiB", total / mib);
	int *x = device<int>(16 << 20);
	size_t free = 0;
	TRY(cudaMemGetInfo(&free, &total));
	say("free %zu of %zu MiB", free / mib, total / mib);
	TRY(driver_call<CUresult(size_t *, CUdevice)>("cuDeviceTotalMem_v2")(&total, 0));
	say("total %zu MiB", total / mib);
	void *p = nullptr;
	TRY(cudaMalloc(&p, free - 2 * mib));
	say("again %d", cudaMalloc(&p, 4 * mib) != 0);
	TRY(cudaFree(x));
}

static void say_free(const char *when)
{
	size_t free = 0, total = 0, also_free = 0;
	TRY(cudaMemGetInfo(&free, &total));
	TRY(driver_call<CUresult(size_t *, size_t *)>("cuMemGetInfo_v2")(&also_free, &total));
	say("%s: %zu and %zu of %zu MiB", when, free / mib, also_free / mib, total / mib);
}

// free_memory asks how much memory is left.
void free_memory()
{
	say_free("nothing");
	int *x = device<int>(16 << 20);
	say_free("64 MiB");
	wait_after("allocated");
	say_free("still");
	TRY(cudaFree(x));
	say_free("freed");
}
