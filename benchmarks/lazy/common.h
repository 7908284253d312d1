/* common.h: functions that the programs of this directory share.
 *
 * Every program checks every CUDA call and prints one checksum of all its results.
 * Programs use only integers, or a library that gives the same bits each time, so that
 * two runs can be compared byte for byte. Exit statuses: 0 done or not possible on this
 * hardware, 2 out of device memory, 3 another CUDA error, 4 a wrong result. */
#ifndef LAZY_COMMON_H
#define LAZY_COMMON_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

inline void check_cuda(cudaError_t error, const char *call, const char *file, int line)
{
	if (error == cudaSuccess)
		return;
	fflush(stdout);
	fprintf(stderr, "%s:%d: CUDA error %d (%s) in %s\n", file, line, (int)error,
	        cudaGetErrorString(error), call);
	exit(error == cudaErrorMemoryAllocation ? 2 : 3);
}
#define CUDA(call) check_cuda((call), #call, __FILE__, __LINE__)
#define CUDA_LAUNCHED() check_cuda(cudaGetLastError(), "launch", __FILE__, __LINE__)

inline void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fflush(stdout);
	fprintf(stderr, "wrong result: %s\n", what);
	exit(4);
}

/* cannot_run ends a program that this hardware or build does not support. */
[[noreturn]] inline void cannot_run(const char *why)
{
	printf("cannot run here: %s\n", why);
	exit(0);
}

/* mix is the finalizer of SplitMix64: a different number for each argument. */
__host__ __device__ inline uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* numbers returns n pseudo-random values for the seed. */
inline std::vector<uint32_t> numbers(size_t n, uint64_t seed)
{
	std::vector<uint32_t> values(n);

	for (size_t i = 0; i < n; i++)
		values[i] = (uint32_t)mix(seed << 40 ^ i);
	return values;
}

/* digest is a running checksum; the order of additions counts. */
class digest {
public:
	void add(const void *data, size_t bytes)
	{
		const unsigned char *at = static_cast<const unsigned char *>(data);
		for (size_t i = 0; i < bytes; i++)
			value_ = (value_ ^ at[i]) * 0x100000001b3u;
	}
	template <typename T> void add(const std::vector<T> &values) { add(values.data(), values.size() * sizeof(T)); }
	template <typename T> void add_device(const T *device, size_t n)
	{
		std::vector<T> host(n);
		CUDA(cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
		add(host);
	}
	uint64_t value() const { return value_; }
	void print() const { printf("checksum %016llx\n", (unsigned long long)value_); }

private:
	uint64_t value_ = 0xcbf29ce484222325u; /* FNV-1a */
};

template <typename T> T *device_alloc(size_t n)
{
	void *memory = nullptr;

	CUDA(cudaMalloc(&memory, n * sizeof(T)));
	return static_cast<T *>(memory);
}

template <typename T> void to_device(T *device, const std::vector<T> &host)
{
	CUDA(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
}

enum { BLOCK = 256 };

inline unsigned blocks_for(size_t n)
{
	return (unsigned)((n + BLOCK - 1) / BLOCK);
}

#ifdef __CUDACC__ /* not in a program without kernels of its own */

/* affine: x[i] = x[i] * a + b + i. A template, because not every program
 * launches it. */
template <typename T> __global__ void affine(T *x, size_t n, T a, T b)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] = x[i] * a + b + (T)i;
}

#endif

#endif
