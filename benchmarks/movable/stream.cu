/* stream: kernels that are bound by the device's memory.
 *
 *   stream [--seconds S]
 *
 * Copies 512 MiB of device memory to other 512 MiB of it, in one kernel after the other, for S seconds (10). It prints to
 * standard error how many bytes per second it read and wrote.
 *
 * Exit status: 0 done; 1 usage; 2 out of device memory; 3 another CUDA error; 4 a wrong copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

static void check_cuda(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "stream: %s: CUDA error %d (%s)\n", call, (int)error, cudaGetErrorString(error));
	exit(error == cudaErrorMemoryAllocation ? 2 : 3);
}
#define CUDA(call) check_cuda((call), #call)

__global__ void fill(uint4 *to, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
		to[i] = make_uint4(i, i >> 32, 2 * i, 3 * i);
}

__global__ void copy(uint4 *to, const uint4 *from, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
		to[i] = from[i];
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	char *end;
	double seconds = 10;

	if (argc != 1) {
		seconds = argc == 3 && strcmp(argv[1], "--seconds") == 0 ? strtod(argv[2], &end) : -1;
		if (!(seconds > 0) || *end != '\0') {
			fputs("usage: stream [--seconds S]\n", stderr);
			return 1;
		}
	}
	const size_t bytes = (size_t)512 << 20, count = bytes / sizeof(uint4);
	const int at_once = 16, blocks = 1024, threads = 512;
	uint4 *from, *to, first, last;

	CUDA(cudaMalloc(&from, bytes));
	CUDA(cudaMalloc(&to, bytes));
	fill<<<blocks, threads>>>(from, count);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
	const double began = now();
	double moved = 0;
	while (now() < began + seconds) {
		for (int i = 0; i < at_once; i++)
			copy<<<blocks, threads>>>(to, from, count);
		CUDA(cudaGetLastError());
		CUDA(cudaDeviceSynchronize());
		moved += 2.0 * at_once * (double)bytes;
	}
	fprintf(stderr, "%.1f GB/s\n", moved / (now() - began) * 1e-9);
	CUDA(cudaMemcpy(&first, to, sizeof first, cudaMemcpyDeviceToHost));
	CUDA(cudaMemcpy(&last, to + count - 1, sizeof last, cudaMemcpyDeviceToHost));
	CUDA(cudaFree(from));
	CUDA(cudaFree(to));
	if (first.x != 0 || first.w != 0 || last.x != count - 1 || last.w != (unsigned)(3 * (count - 1))) {
		fputs("stream: the copy is wrong\n", stderr);
		return 4;
	}
	return 0;
}
