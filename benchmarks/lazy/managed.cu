/* Managed memory: the host writes it before the first kernel and reads it between
 * kernels, with advice, prefetches and copies to and from it. */
#include "common.h"

/* CUDA 13 names the location with a struct. */
static void prefetch(const void *memory, size_t bytes, int device)
{
#if CUDART_VERSION >= 13000
	cudaMemLocation place = {};
	place.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
	place.id = device == cudaCpuDeviceId ? 0 : device;
	CUDA(cudaMemPrefetchAsync(memory, bytes, place, 0, 0));
#else
	CUDA(cudaMemPrefetchAsync(memory, bytes, device, 0));
#endif
}

static void prefer(const void *memory, size_t bytes, int device)
{
#if CUDART_VERSION >= 13000
	cudaMemLocation place = {};
	place.type = cudaMemLocationTypeDevice;
	place.id = device;
	CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, place));
#else
	CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, device));
#endif
}

static __global__ void add(uint32_t *to, const uint32_t *from, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] += from[i];
}

int main()
{
	const size_t n = 3 << 18, bytes = n * sizeof(uint32_t);
	uint32_t *x, *y, *z;
	int device = -1, concurrent = 0;
	digest sum;

	CUDA(cudaGetDevice(&device));
	CUDA(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
	CUDA(cudaMallocManaged(&x, bytes));
	CUDA(cudaMallocManaged(&y, bytes, cudaMemAttachGlobal));
	CUDA(cudaMallocManaged(&z, 100));
	for (size_t i = 0; i < n; i++)
		x[i] = (uint32_t)mix(i);
	for (int i = 0; i < 25; i++)
		z[i] = i;
	uint32_t *plain = device_alloc<uint32_t>(n);
	CUDA(cudaMemcpy(plain, x, bytes, cudaMemcpyDefault));
	CUDA(cudaMemset(y, 0x11, bytes));
	if (concurrent) {
		prefer(x, bytes, device);
		prefetch(x, bytes, device);
	}
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 7, 1);
	CUDA_LAUNCHED();
	add<<<blocks_for(n), BLOCK>>>(y, x, n);
	CUDA_LAUNCHED();
	add<<<1, 32>>>(z, plain, 25);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	sum.add(x, bytes);
	sum.add(y, bytes);
	sum.add(z, 100);

	for (size_t i = 0; i < n; i += 1000)
		x[i] = (uint32_t)i; /* the host writes between two kernels */
	if (concurrent)
		prefetch(y, bytes, cudaCpuDeviceId);
	add<<<blocks_for(n), BLOCK>>>(plain, x, n);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	sum.add(y, bytes);
	sum.add_device(plain, n);

	uint32_t *late; /* managed memory allocated after the first kernel */
	CUDA(cudaMallocManaged(&late, bytes));
	for (size_t i = 0; i < n; i++)
		late[i] = (uint32_t)(n - i);
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(late, n, 9, 2);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	sum.add(late, bytes);
	CUDA(cudaFree(x));
	CUDA(cudaFree(y));
	CUDA(cudaFree(z));
	CUDA(cudaFree(late));
	CUDA(cudaFree(plain));
	sum.print();
	return 0;
}
