/* The queries that programs make before they allocate, and queries about memory.
 * Checks that the answers are consistent. Does not print the number of devices,
 * because a scheduler may hide devices. */
#include "common.h"

#include <string.h>

int main()
{
	int count = 0, device = -1, driver = 0, runtime = 0, sms = 0, per_sm = 0, grid = 0, block = 0;
	size_t free_bytes = 0, total = 0, stack = 0;
	cudaDeviceProp properties;
	cudaFuncAttributes function;
	digest sum;

	CUDA(cudaGetDeviceCount(&count));
	expect(count >= 1, "a device");
	CUDA(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	CUDA(cudaDriverGetVersion(&driver));
	CUDA(cudaRuntimeGetVersion(&runtime));
	expect(runtime == CUDART_VERSION && driver > 0, "versions");
	CUDA(cudaSetDevice(count - 1));
	CUDA(cudaGetDevice(&device));
	expect(device == count - 1, "the device that was set");
	expect(cudaSetDevice(count) == cudaErrorInvalidDevice, "a device too many is refused");
	CUDA(cudaGetLastError() == cudaErrorInvalidDevice ? cudaSuccess : cudaErrorUnknown);
	CUDA(cudaPeekAtLastError());
	CUDA(cudaGetDeviceProperties(&properties, device));
	CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
	expect(sms == properties.multiProcessorCount && properties.warpSize == 32, "properties");
	CUDA(cudaMemGetInfo(&free_bytes, &total));
	expect(free_bytes > 0 && free_bytes <= total, "free memory");
	CUDA(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
	CUDA(cudaFuncGetAttributes(&function, affine<uint32_t>));
	expect(function.maxThreadsPerBlock >= BLOCK && function.numRegs > 0, "attributes of a kernel");
	CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, affine<uint32_t>, BLOCK, 0));
	CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, affine<uint32_t>, 0, 0));
	expect(per_sm >= 1 && block >= 32 && grid >= sms, "occupancy");
	CUDA(cudaFuncSetCacheConfig(affine<uint32_t>, cudaFuncCachePreferL1));

	const size_t n = 1 << 20;
	uint32_t *memory = device_alloc<uint32_t>(n), *pinned, on_stack = 0;
	cudaPointerAttributes what;
	CUDA(cudaMallocHost((void **)&pinned, 4096));
	for (int after = 0; after < 2; after++) { /* before and after the first launch */
		CUDA(cudaPointerGetAttributes(&what, memory + 17));
		expect(what.type == cudaMemoryTypeDevice && what.device == device &&
		       what.devicePointer == memory + 17, "device memory is known");
		CUDA(cudaPointerGetAttributes(&what, pinned));
		expect(what.type == cudaMemoryTypeHost, "pinned memory is known");
		CUDA(cudaPointerGetAttributes(&what, &on_stack));
		expect(what.type == cudaMemoryTypeUnregistered, "other memory is not");
		if (after == 0) {
			CUDA(cudaMemset(memory, 3, n * sizeof *memory));
			affine<uint32_t><<<blocks_for(n), BLOCK>>>(memory, n, 3, (uint32_t)block);
			CUDA_LAUNCHED();
		}
	}
	CUDA(cudaGetDevice(&device));
	expect(device == count - 1, "the device is still the one that was set");
	sum.add_device(memory, n);
	CUDA(cudaFree(memory));
	CUDA(cudaFreeHost(pinned));
	expect(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"), "names of errors");
	sum.add(&properties.totalGlobalMem, sizeof properties.totalGlobalMem);
	sum.add(&function.numRegs, sizeof function.numRegs);
	sum.add(&sms, sizeof sms);
	sum.add(&per_sm, sizeof per_sm);
	sum.print();
	return 0;
}
