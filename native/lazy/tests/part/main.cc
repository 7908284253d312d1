// A library that works on memory of the program with the driver's functions (../programs/part.cc). It looks them up,
// as a library with a CUDA runtime of its own does, and others that it does not call; or it is linked with them.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../fake/fake_kernel.h"

extern "C" {
CUresult cuLaunchKernel(const void *kernel, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared, cudaStream_t stream, void **arguments, void **extra);
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, cudaStream_t stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
}

#ifdef LINKED
#define BY_SYMBOL(function) function
#define BY_NAME(name, function) function
static void use_tables() {}
#else
static void *driver()
{
	static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
	return library;
}

// BY_SYMBOL and BY_NAME are the two ways to find a function.
#define BY_SYMBOL(function) reinterpret_cast<decltype(&function)>(dlsym(driver(), #function))
#define BY_NAME(name, function) reinterpret_cast<decltype(&function)>(by_name(name))

static void *by_name(const char *name)
{
	void *found = nullptr;
	int status = 0;
	reinterpret_cast<CUresult (*)(const char *, void **, int, uint64_t, int *)>(dlsym(driver(), "cuGetProcAddress_v2"))(name, &found, 12000, 0, &status);
	return found;
}

// use_tables calls functions of two tables. One is handed out as it is, the other as a copy.
static void use_tables()
{
	static const auto table = reinterpret_cast<CUresult (*)(const void *const **, const char *)>(dlsym(driver(), "cuGetExportTable"));
	const void *const *functions = nullptr;
	by_name("cuMemExportToShareableHandle");
	for (const char *id : {"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2", "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"})
		if (const CUresult error = table(&functions, id); error != 0 || reinterpret_cast<CUresult (*)()>(functions[4])() != 0)
			printf("part: a table: error %d\n", error);
}
#endif

#define TRY(call)                                                       \
	do {                                                            \
		if (const CUresult error_ = (call); error_ != 0)        \
			printf("part: %s: error %d\n", #call, error_); \
	} while (0)

static void mix(int *x, const int *y, int n, int by)
{
	for (int i = 0; i < n; i++)
		x[i] = 3 * x[i] + y[(i + by) % n];
}

// part_works changes x, of n numbers, and keeps memory of its own from call to call.
extern "C" __attribute__((visibility("default"))) void part_works(int *x, int n, int round)
{
	static const fake_kernel kernel = kernels::Kernel<mix>::describe("mix");
	static const auto allocate = BY_SYMBOL(cuMemAlloc_v2);
	static const auto set = BY_SYMBOL(cuMemsetD32_v2);
	static const auto copy = BY_NAME("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2);
	static const auto to_device = BY_NAME("cuMemcpyHtoD", cuMemcpyHtoD_v2);
	static const auto launch = BY_NAME("cuLaunchKernel", cuLaunchKernel);
	static CUdeviceptr own;
	const size_t bytes = static_cast<size_t>(n) * sizeof *x;
	const CUdeviceptr there = reinterpret_cast<CUdeviceptr>(x);

	if (own == 0) {
		TRY(allocate(&own, bytes));
		TRY(set(own, 5, static_cast<size_t>(n)));
	}
	use_tables();
	void *values[] = {&x, &own, &n, &round};
	TRY(launch(&kernel, 16, 1, 1, 96, 1, 1, 0, nullptr, values, nullptr));
	TRY(copy(own + bytes / 4, there, bytes / 2, nullptr));
	TRY(set(there + bytes / 3 / 4 * 4, static_cast<unsigned>(round), 100000));
	const int numbers[4] = {round, 1, 2, 3};
	TRY(to_device(own, numbers, sizeof numbers));
	TRY(launch(&kernel, 16, 1, 1, 96, 1, 1, 0, nullptr, values, nullptr));
}
