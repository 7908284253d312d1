/* Pinned host memory: allocated, mapped into the device and registered. */
#include "common.h"

#include <string.h>

static __global__ void transform(uint32_t *to, const uint32_t *from, size_t n, uint32_t salt)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] = from[i] * 13 + salt;
}

int main()
{
	const size_t n = 300000, bytes = n * sizeof(uint32_t);
	uint32_t *pinned, *mapped, *mapped_device, *written, *registered_device;
	unsigned flags = 0;
	digest sum;

	CUDA(cudaMallocHost((void **)&pinned, bytes));
	CUDA(cudaHostAlloc((void **)&mapped, bytes, cudaHostAllocMapped));
	CUDA(cudaHostAlloc((void **)&written, bytes, cudaHostAllocWriteCombined | cudaHostAllocPortable));
	CUDA(cudaHostGetFlags(&flags, mapped));
	expect(flags & cudaHostAllocMapped, "flags of mapped memory");
	CUDA(cudaHostGetDevicePointer((void **)&mapped_device, mapped, 0));
	std::vector<uint32_t> registered = numbers(n, 3);
	CUDA(cudaHostRegister(registered.data(), bytes, cudaHostRegisterMapped));
	CUDA(cudaHostGetDevicePointer((void **)&registered_device, registered.data(), 0));
	for (size_t i = 0; i < n; i++) {
		pinned[i] = (uint32_t)mix(i);
		mapped[i] = (uint32_t)mix(i + n);
		written[i] = (uint32_t)mix(i + 2 * n);
	}

	uint32_t *a = device_alloc<uint32_t>(n), *b = device_alloc<uint32_t>(n);
	CUDA(cudaMemcpyAsync(a, pinned, bytes, cudaMemcpyHostToDevice, 0));
	CUDA(cudaStreamSynchronize(0));
	memset(pinned, 0, bytes); /* the copy above is over */
	transform<<<blocks_for(n), BLOCK>>>(b, mapped_device, n, 1);
	CUDA_LAUNCHED();
	transform<<<blocks_for(n), BLOCK>>>(registered_device, b, n, 2);
	CUDA_LAUNCHED();
	transform<<<blocks_for(n), BLOCK>>>(mapped_device, a, n, 3);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	sum.add(registered);
	sum.add(mapped, bytes);
	CUDA(cudaMemcpy(b, written, bytes, cudaMemcpyHostToDevice));
	CUDA(cudaMemcpyAsync(pinned, b, bytes, cudaMemcpyDefault, 0));
	CUDA(cudaDeviceSynchronize());
	sum.add(pinned, bytes);

	uint32_t *later; /* allocated when the context exists */
	CUDA(cudaMallocHost((void **)&later, bytes));
	CUDA(cudaMemcpy(later, a, bytes, cudaMemcpyDeviceToHost));
	sum.add(later, bytes);
	CUDA(cudaHostUnregister(registered.data()));
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
	CUDA(cudaFreeHost(pinned));
	CUDA(cudaFreeHost(mapped));
	CUDA(cudaFreeHost(written));
	CUDA(cudaFreeHost(later));
	sum.print();
	return 0;
}
