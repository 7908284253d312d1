#include "suite.h"

void print_footprint(const footprint &need)
{
	printf("bytes=%llu kernel=%s grid=%ux%ux%u block=%ux%ux%u\n",
	       (unsigned long long)need.bytes, need.kernel, need.grid.x, need.grid.y,
	       need.grid.z, need.block.x, need.block.y, need.block.z);
}

void gpu_failed(cudaError_t error, const char *call, const char *file, int line)
{
	if (error == cudaErrorMemoryAllocation)
		die(EXIT_OOM, "out of device memory in %s", call);
	die(EXIT_FAULT, "CUDA error %d (%s) in %s, %s:%d", (int)error,
	    cudaGetErrorString(error), call, file, line);
}

void allocation_failed(cudaError_t error, size_t bytes, const char *name)
{
	if (error == cudaErrorMemoryAllocation)
		die(EXIT_OOM, "out of device memory: %s (%zu bytes)", name, bytes);
	gpu_failed(error, "cudaMalloc", __FILE__, __LINE__);
}

uint64_t allocated;

void check_footprint(const footprint &need)
{
	if (allocated != need.bytes)
		die(EXIT_INPUT, "internal error: footprint %llu bytes, allocated %llu",
		    (unsigned long long)need.bytes, (unsigned long long)allocated);
}
