// program.h: what made-up CUDA programs are made of (native/lazy/lazytest/compiled_test.go). They
// launch as clang's code does, so that the compiler pass (native/pass) sees what it sees in
// CUDA programs.
#ifndef COMPILED_PROGRAM_H
#define COMPILED_PROGRAM_H

#include "../../../fake/cuda_calls.h"

enum { HOST = 4096 }; // ints of host memory

// A program's entry: x is its input, and what it computes goes into *sum.
typedef int program(int x, int *host, const int *sizes, unsigned long *sum);
struct named {
	int seed;
	program *run;
};

// harness.cc. The compiler does not see these functions.
void tick(int x);     // does nothing of interest
void throw_if(int x); // throws where x is not 0
void add(int *a, int n, int by), both(int *a, const int *b, int n); // the kernels

// unknown is a number from 11 to 60 that the compiler does not know.
inline int unknown(int x)
{
	asm volatile("" : "+r"(x));
	return x * 7 % 50 + 11;
}

inline unsigned long mix(unsigned long sum, const int *host, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ static_cast<unsigned>(host[i])) * 1099511628211ul;
	return sum;
}

// elsewhere.cc: uses memory of its own on the device that is the thread's when it first runs.
void elsewhere(unsigned long *sum);

// The stubs of the kernels, as clang makes them.
#define POP \
	dim3 grid, block; \
	size_t shared; \
	cudaStream_t stream; \
	__cudaPopCallConfiguration(&grid, &block, &shared, &stream)
static void __device_stub__add(int *a, int n, int by)
{
	void *values[] = {&a, &n, &by};
	POP;
	cudaLaunchKernel(reinterpret_cast<const void *>(__device_stub__add), grid, block, values, shared, stream);
}
static void __device_stub__both(int *a, const int *b, int n)
{
	void *values[] = {&a, &b, &n};
	POP;
	cudaLaunchKernel(reinterpret_cast<const void *>(__device_stub__both), grid, block, values, shared, stream);
}
static const kernels::Module module_of_add(reinterpret_cast<const void *>(__device_stub__add), kernels::Kernel<add>::describe("add"));
static const kernels::Module module_of_both(reinterpret_cast<const void *>(__device_stub__both), kernels::Kernel<both>::describe("both"));

#define RUN(kernel, grid, block, stream, ...) \
	do { \
		if (__cudaPushCallConfiguration(grid, block, 0, stream) == 0) \
			__device_stub__##kernel(__VA_ARGS__); \
	} while (0)

template <class T> static cudaError_t device_malloc(T **p, size_t bytes) { return cudaMalloc(reinterpret_cast<void **>(p), bytes); }

inline int *make(size_t n)
{
	int *p = nullptr;
	cudaMalloc(reinterpret_cast<void **>(&p), n * sizeof *p);
	return p;
}
#endif
