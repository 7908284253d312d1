/* Every way to launch: cudaLaunchKernel by hand, cudaLaunchKernelExC with
 * attributes (clusters where the device has them), dynamic shared memory above
 * 48 KiB after cudaFuncSetAttribute, a large parameter by value, and device
 * malloc after cudaDeviceSetLimit. */
#include "common.h"

struct large {
	uint32_t value[900];
};

static __global__ void by_value(uint32_t *out, const large l)
{
	for (unsigned i = threadIdx.x; i < 900; i += blockDim.x)
		out[i] = l.value[i] * 3 + i;
}

extern __shared__ uint32_t shared_words[];

static __global__ void reverse(uint32_t *x, unsigned words)
{
	for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
		shared_words[words - 1 - i] = x[i];
	__syncthreads();
	for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
		x[i] = shared_words[i] + 1;
}

static __global__ void from_heap(uint32_t *out, unsigned words, uint32_t *failures)
{
	uint32_t *mine = static_cast<uint32_t *>(malloc(words * sizeof(uint32_t)));

	if (!mine) {
		atomicAdd(failures, 1);
		return;
	}
	for (unsigned i = 0; i < words; i++)
		mine[i] = i * threadIdx.x;
	uint32_t total = 0;
	for (unsigned i = 0; i < words; i++)
		total = total * 31 + mine[i];
	out[threadIdx.x] = total;
	free(mine);
}

int main()
{
	unsigned words = 60 << 8; /* 60 KiB */
	int device = 0, most_shared = 0, major = 0;
	size_t heap = 0, n = 1 << 16;
	digest sum;

	CUDA(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20));
	CUDA(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
	expect(heap >= 64 << 20, "heap limit");
	CUDA(cudaGetDevice(&device));
	CUDA(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
	CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
	if ((size_t)most_shared < words * sizeof(uint32_t))
		cannot_run("less than 60 KiB of shared memory");

	uint32_t *x = device_alloc<uint32_t>(n), a = 3, b = 4;
	to_device(x, numbers(n, 1));
	void *arguments[] = {&x, &n, &a, &b};
	CUDA(cudaLaunchKernel((void *)affine<uint32_t>, dim3(blocks_for(n)), dim3(BLOCK), arguments, 0, 0));

	cudaStream_t stream;
	CUDA(cudaStreamCreate(&stream));
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = 2;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	config.gridDim = dim3(blocks_for(n));
	config.blockDim = dim3(BLOCK);
	config.stream = stream;
	config.attrs = &attribute;
	config.numAttrs = major >= 9 ? 1 : 0;
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaLaunchKernelExC(&config, (void *)affine<uint32_t>, arguments));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaLaunchKernelEx(&config, affine<uint32_t>, x, n, 5u, 6u));
	CUDA(cudaStreamSynchronize(stream));

	CUDA(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize,
	                          (int)(words * sizeof(uint32_t))));
	reverse<<<1, BLOCK, words * sizeof(uint32_t), stream>>>(x, words);
	CUDA_LAUNCHED();
	large l;
	for (uint32_t i = 0; i < 900; i++)
		l.value[i] = (uint32_t)mix(i);
	uint32_t *out = device_alloc<uint32_t>(1000);
	CUDA(cudaMemset(out, 0, 1000 * sizeof *out));
	by_value<<<1, 128, 0, stream>>>(out, l);
	CUDA_LAUNCHED();
	uint32_t *heap_out = device_alloc<uint32_t>(BLOCK), *failures = device_alloc<uint32_t>(1);
	CUDA(cudaMemset(failures, 0, sizeof *failures));
	from_heap<<<1, BLOCK, 0, stream>>>(heap_out, 20000, failures); /* 20 MB in all */
	CUDA_LAUNCHED();
	CUDA(cudaStreamSynchronize(stream));
	sum.add_device(x, n);
	sum.add_device(out, 1000);
	sum.add_device(heap_out, BLOCK);
	sum.add_device(failures, 1);
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaFree(x));
	CUDA(cudaFree(out));
	CUDA(cudaFree(heap_out));
	CUDA(cudaFree(failures));
	sum.print();
	return 0;
}
