#include "suite.h"

void print_footprint(const footprint &need)
{
	printf("bytes=%llu kernel=%s grid=%ux%ux%u block=%ux%ux%u\n",
	       (unsigned long long)need.bytes, need.kernel, need.grid.x, need.grid.y,
	       need.grid.z, need.block.x, need.block.y, need.block.z);
}

void gpu_check(cudaError_t error, const char *call, const char *file, int line)
{
	if (error == cudaSuccess)
		return;
	if (error == cudaErrorMemoryAllocation)
		die(EXIT_OOM, "out of device memory in %s", call);
	die(EXIT_FAULT, "CUDA error %d (%s) in %s, %s:%d", (int)error,
	    cudaGetErrorString(error), call, file, line);
}

static uint64_t allocated; /* bytes of all device allocations so far */

void *device_alloc_bytes(size_t bytes, const char *name)
{
	void *memory = nullptr;
	cudaError_t error = cudaMalloc(&memory, bytes);

	if (error == cudaErrorMemoryAllocation)
		die(EXIT_OOM, "out of device memory: %s (%zu bytes)", name, bytes);
	gpu_check(error, "cudaMalloc", __FILE__, __LINE__);
	allocated += bytes;
	return memory;
}

void device_free(void *memory)
{
	GPU(cudaFree(memory));
}

void check_footprint(const footprint &need)
{
	if (allocated != need.bytes)
		die(EXIT_INPUT, "internal error: footprint %llu bytes, allocated %llu",
		    (unsigned long long)need.bytes, (unsigned long long)allocated);
}

void copy_to_device(void *device, const void *host, size_t bytes)
{
	GPU(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

void copy_to_host(void *host, const void *device, size_t bytes)
{
	GPU(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}
