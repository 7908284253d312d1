/* Memory of a part that has a static CUDA runtime: `memory_static SECONDS` holds it for so long. */
#include <unistd.h>

#include "common.h"

__global__ void scale(uint32_t *x, unsigned n)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		x[i] = x[i] * 3 + i;
}

extern "C" void part(int count, char **arguments)
{
	const unsigned seconds = count > 1 ? static_cast<unsigned>(atoi(arguments[1])) : 0;
	const unsigned n = 128 << 20; // 512 MiB
	const std::vector<uint32_t> host = numbers(1000, 4);
	std::vector<uint32_t> back(1000);
	uint32_t *x;
	digest sum;

	for (int round = 0; round < 2; round++) {
		CUDA(cudaMalloc(&x, size_t{4} * n));
		CUDA(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
		scale<<<n / 256, 256>>>(x, n);
		CUDA_LAUNCHED();
		CUDA(cudaMemcpy(back.data(), x, 4000, cudaMemcpyDeviceToHost));
		sleep(seconds);
		CUDA(cudaFree(x));
		sum.add(back);
	}
	sum.print();
}
