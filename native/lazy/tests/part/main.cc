// A library that looks the driver's functions up, as a library with a CUDA runtime of its own does, and
// works on memory of the program with them (../programs/part.cc).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../fake/fake_kernel.h"

static void *driver()
{
	static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
	return library;
}

// by_symbol and by_name are the two ways to find a function.
template <class F> static F *by_symbol(const char *name) { return reinterpret_cast<F *>(dlsym(driver(), name)); }

template <class F> static F *by_name(const char *name)
{
	void *found = nullptr;
	int status = 0;
	by_symbol<CUresult(const char *, void **, int, uint64_t, int *)>("cuGetProcAddress_v2")(name, &found, 12000, 0, &status);
	return reinterpret_cast<F *>(found);
}

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
	static const auto allocate = by_symbol<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2");
	static const auto set = by_symbol<CUresult(CUdeviceptr, unsigned, size_t)>("cuMemsetD32_v2");
	static const auto copy = by_name<CUresult(CUdeviceptr, CUdeviceptr, size_t, cudaStream_t)>("cuMemcpyDtoDAsync");
	static const auto to_device = by_name<CUresult(CUdeviceptr, const void *, size_t)>("cuMemcpyHtoD");
	static const auto launch = by_name<CUresult(const void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	                                            cudaStream_t, void **, void **)>("cuLaunchKernel");
	static CUdeviceptr own;
	const size_t bytes = static_cast<size_t>(n) * sizeof *x;
	const CUdeviceptr there = reinterpret_cast<CUdeviceptr>(x);

	if (own == 0) {
		TRY(allocate(&own, bytes));
		TRY(set(own, 5, static_cast<size_t>(n)));
	}
	void *values[] = {&x, &own, &n, &round};
	TRY(launch(&kernel, 16, 1, 1, 96, 1, 1, 0, nullptr, values, nullptr));
	TRY(copy(own + bytes / 4, there, bytes / 2, nullptr));
	TRY(set(there + bytes / 3 / 4 * 4, static_cast<unsigned>(round), 100000));
	const int numbers[4] = {round, 1, 2, 3};
	TRY(to_device(own, numbers, sizeof numbers));
	TRY(launch(&kernel, 16, 1, 1, 96, 1, 1, 0, nullptr, values, nullptr));
}
