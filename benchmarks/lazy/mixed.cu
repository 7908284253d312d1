/* Runtime and driver API in one program: the runtime allocates memory, and the driver
 * loads a kernel and launches it in the runtime's context. */
#include "driver.h"

int main()
{
	unsigned n = 70000;
	const size_t bytes = n * sizeof(uint32_t);
	const std::vector<uint32_t> host = numbers(n, 6);
	std::vector<uint32_t> back(n);
	CUcontext current = nullptr;
	CUmodule module;
	CUfunction triple;
	CUdeviceptr own;
	digest sum;

	uint32_t *x = device_alloc<uint32_t>(n);
	to_device(x, host);
	DRIVER(cuInit(0));
	DRIVER(cuCtxGetCurrent(&current));
	if (!current) { /* the runtime has no context yet: this creates one */
		CUDA(cudaFree(nullptr));
		DRIVER(cuCtxGetCurrent(&current));
	}
	expect(current != nullptr, "a current context");
	DRIVER(cuModuleLoadData(&module, triple_ptx));
	DRIVER(cuModuleGetFunction(&triple, module, "triple"));
	void *arguments[] = {&x, &n};
	DRIVER(cuLaunchKernel(triple, blocks_for(n), 1, 1, BLOCK, 1, 1, 0, nullptr, arguments, nullptr));
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 5, 1);
	CUDA_LAUNCHED();
	DRIVER(cuMemAlloc(&own, bytes));
	DRIVER(cuMemcpyDtoD(own, reinterpret_cast<CUdeviceptr>(x), bytes));
	CUDA(cudaMemcpy(back.data(), reinterpret_cast<void *>(own), bytes, cudaMemcpyDeviceToHost));
	for (unsigned i = 0; i < n; i++)
		expect(back[i] == (host[i] * 3 + i) * 5 + 1 + i, "the kernels' values");
	sum.add(back);
	CUDA(cudaMemset(x, 0, bytes));
	DRIVER(cuMemcpyDtoH(back.data(), reinterpret_cast<CUdeviceptr>(x), bytes));
	sum.add(back);
	DRIVER(cuMemFree(own));
	CUDA(cudaFree(x));
	sum.print();
	return 0;
}
