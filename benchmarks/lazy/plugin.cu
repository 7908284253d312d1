/* plugin.cu is built twice. With LIBRARY it is a shared object with a kernel, a device
 * variable and allocations. Without LIBRARY it is the program that opens the object
 * after work of its own. */
#include "common.h"

#ifdef LIBRARY

__device__ uint32_t calls = 10;

static __global__ void count_calls(uint32_t *x, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] += calls;
}

extern "C" uint64_t plugin_compute(uint32_t *values, size_t n)
{
	const uint32_t more = 90;
	uint32_t *own = device_alloc<uint32_t>(n);
	digest sum;

	CUDA(cudaMemcpyToSymbol(calls, &more, sizeof more));
	CUDA(cudaMemcpy(own, values, n * sizeof *own, cudaMemcpyDeviceToDevice));
	count_calls<<<blocks_for(n), BLOCK>>>(own, n);
	CUDA_LAUNCHED();
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(values, n, 3, 2);
	CUDA_LAUNCHED();
	sum.add_device(own, n);
	CUDA(cudaFree(own));
	return sum.value();
}

#else

#include <dlfcn.h>

#include <string>

/* beside returns the path of `name` in the program's own directory. */
static std::string beside(const char *program, const char *name)
{
	const std::string path = program;
	const size_t slash = path.rfind('/');

	return (slash == std::string::npos ? "./" : path.substr(0, slash + 1)) + name;
}

int main(int, char **argv)
{
	const size_t n = 200000;
	uint32_t *x = device_alloc<uint32_t>(n);
	digest sum;

	to_device(x, numbers(n, 1));
	for (int round = 0; round < 2; round++) {
		void *library = dlopen(beside(argv[0], "libplugin.so").c_str(), RTLD_NOW | RTLD_LOCAL);
		expect(library != nullptr, "libplugin.so is beside the program");
		auto compute = reinterpret_cast<uint64_t (*)(uint32_t *, size_t)>(dlsym(library, "plugin_compute"));
		expect(compute != nullptr, "plugin_compute");
		const uint64_t value = compute(x, n);
		sum.add(&value, sizeof value);
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 5, round);
		CUDA_LAUNCHED();
		if (round == 0)
			CUDA(cudaDeviceSynchronize());
	}
	sum.add_device(x, n);
	CUDA(cudaFree(x));
	sum.print();
	return 0;
}

#endif
