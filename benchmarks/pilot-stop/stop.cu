// stop.cu: how long it takes until a kernel has stopped, and what it costs to look (native/stop/case_stop.h).
//
//	stop [MIB [STOPS]]    memory that the kernel sweeps (1024), and stops that are measured (500)
//
// It needs no caserun: the host sets the word itself, as libcase.so does, by a copy of 4 bytes in a stream of its own.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "case_stop.h"

#define OK(call)                                                                                       \
	do {                                                                                           \
		const cudaError_t error = call;                                                        \
		if (error != cudaSuccess) {                                                            \
			fprintf(stderr, "stop: %s: %s\n", #call, cudaGetErrorString(error));           \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

enum Looks { never, each_round, each_element };

template <Looks looks> __global__ void sweep(const float *in, float *out, size_t n, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		for (size_t i = threadIdx.x + size_t(blockIdx.x) * blockDim.x; i < n; i += size_t(blockDim.x) * gridDim.x) {
			out[i] = in[i] + float(round);
			if (looks == each_element)
				CASE_STOP_POINT();
		}
		if (looks == each_round)
			CASE_STOP_POINT();
	}
}

__global__ void votes(const float *in, float *out, size_t n, int rounds)
{
	__shared__ float tile[256];
	for (int round = 0; round < rounds; round++) {
		for (size_t at = size_t(blockIdx.x) * 256; at + 256 <= n; at += size_t(gridDim.x) * 256) {
			tile[threadIdx.x] = in[at + threadIdx.x];
			__syncthreads();
			out[at + threadIdx.x] = tile[255 - threadIdx.x];
			__syncthreads();
		}
		CASE_STOP_POINT_BLOCK();
	}
}

typedef void (*Kernel)(const float *, float *, size_t, int);

static double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static float *in, *out;
static size_t n;
static int blocks;

static double ms(Kernel kernel, int rounds)
{
	std::vector<double> all;
	for (int i = 0; i < 7; i++) {
		const double from = seconds();
		kernel<<<blocks, 256>>>(in, out, n, rounds);
		OK(cudaGetLastError());
		OK(cudaDeviceSynchronize());
		all.push_back(1000 * (seconds() - from));
	}
	std::sort(all.begin(), all.end());
	return all[all.size() / 2];
}

// stops runs a kernel without end, and stops it after 1 to 8 ms.
static void stops(const char *name, Kernel kernel, int count)
{
	static const unsigned ask = 1, clear[2] = {0, 0};
	std::vector<double> us;
	cudaStream_t own, work;
	OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking));
	for (int i = 0; i < count; i++) {
		unsigned found[2];
		kernel<<<blocks, 256, 0, work>>>(in, out, n, 1 << 30);
		OK(cudaGetLastError());
		std::this_thread::sleep_for(std::chrono::microseconds(1000 + 700 * (i % 11)));
		const double from = seconds();
		OK(cudaMemcpyToSymbolAsync(case_stop_words, &ask, sizeof ask, 0, cudaMemcpyHostToDevice, own));
		OK(cudaStreamSynchronize(work));
		us.push_back(1e6 * (seconds() - from));
		OK(cudaMemcpyFromSymbolAsync(found, case_stop_words, sizeof found, 0, cudaMemcpyDeviceToHost, own));
		OK(cudaMemcpyToSymbolAsync(case_stop_words, clear, sizeof clear, 0, cudaMemcpyHostToDevice, own));
		OK(cudaStreamSynchronize(own));
		if (found[1] != 1) {
			fprintf(stderr, "stop: %s has not said that it stopped\n", name);
			exit(1);
		}
	}
	std::sort(us.begin(), us.end());
	printf("%-24s %10.0f %10.0f %10.0f\n", name, us[us.size() / 2], us[us.size() * 99 / 100], us.back());
}

int main(int argc, char **argv)
{
	const size_t mib = argc > 1 ? strtoul(argv[1], nullptr, 10) : 1024;
	const int count = argc > 2 ? atoi(argv[2]) : 500, rounds = 20;
	cudaDeviceProp device;

	if (mib == 0 || count <= 0 || argc > 3) {
		fprintf(stderr, "usage: stop [MIB [STOPS]]\n");
		return 2;
	}
	OK(cudaGetDeviceProperties(&device, 0));
	n = mib << 18;
	blocks = 8 * device.multiProcessorCount;
	OK(cudaMalloc(&in, n * sizeof(float)));
	OK(cudaMalloc(&out, n * sizeof(float)));
	OK(cudaMemset(in, 0, n * sizeof(float)));
	printf("%s, %zu MiB\n\n%-24s %10s %10s %10s\n", device.name, mib, "stops, us", "p50", "p99", "most");
	stops("each round", sweep<each_round>, count);
	stops("each element", sweep<each_element>, count);
	stops("each round, voting", votes, count);
	printf("\n%-24s %10s %10s\n", "20 rounds, ms", "median", "of never");
	const double plain = ms(sweep<never>, rounds), round = ms(sweep<each_round>, rounds), element = ms(sweep<each_element>, rounds);
	printf("%-24s %10.2f %10.3f\n%-24s %10.2f %10.3f\n%-24s %10.2f %10.3f\n", "never", plain, 1.0, "each round", round, round / plain, "each element", element, element / plain);
	return 0;
}
