/* Uses only the driver API, with a context of its own. */
#include "driver.h"

static void create_context(CUcontext *context, CUdevice device)
{
#if CUDA_VERSION >= 13000
	DRIVER(cuCtxCreate(context, nullptr, 0, device));
#else
	DRIVER(cuCtxCreate(context, 0, device));
#endif
}

int main()
{
	unsigned n = 100000;
	const std::vector<uint32_t> host = numbers(n, 4);
	std::vector<uint32_t> back(n);
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction triple;
	CUdeviceptr x;
	CUstream stream;
	digest sum;

	DRIVER(cuInit(0));
	DRIVER(cuDeviceGet(&device, 0));
	create_context(&context, device);
	DRIVER(cuModuleLoadData(&module, triple_ptx));
	DRIVER(cuModuleGetFunction(&triple, module, "triple"));
	DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	DRIVER(cuMemAlloc(&x, n * sizeof(uint32_t)));
	DRIVER(cuMemcpyHtoD(x, host.data(), n * sizeof(uint32_t)));
	/* A copy from pageable memory may return before the data has arrived, and the stream
	 * below does not wait for the data (CUDA Driver API, "API synchronization behavior"). */
	DRIVER(cuCtxSynchronize());
	void *arguments[] = {&x, &n};
	DRIVER(cuLaunchKernel(triple, blocks_for(n), 1, 1, BLOCK, 1, 1, 0, stream, arguments, nullptr));
	DRIVER(cuStreamSynchronize(stream));
	DRIVER(cuMemcpyDtoH(back.data(), x, n * sizeof(uint32_t)));
	for (unsigned i = 0; i < n; i++)
		expect(back[i] == host[i] * 3 + i, "the kernel's values");
	sum.add(back);
	DRIVER(cuMemFree(x));
	DRIVER(cuStreamDestroy(stream));
	DRIVER(cuModuleUnload(module));
	DRIVER(cuCtxDestroy(context));
	sum.print();
	return 0;
}
