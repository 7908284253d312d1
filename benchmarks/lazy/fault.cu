/* An illegal address on purpose, in a program that ignores errors. The launch
 * succeeds, only a later copy shows the error, and the exit status is 0. The run
 * must report the fault all the same. */
#include "common.h"

static __global__ void stray(uint32_t *x, size_t far)
{
	x[far + threadIdx.x] = 1;
}

static void report(const char *call, cudaError_t error)
{
	printf("%s %s\n", call, error == cudaSuccess ? "succeeded" : "failed");
}

int main()
{
	uint32_t *x = nullptr, host[256] = {};

	report("cudaMalloc", cudaMalloc((void **)&x, sizeof host));
	stray<<<1, 256>>>(x, (size_t)1 << 40);
	report("launch", cudaPeekAtLastError());
	report("cudaMemcpy", cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
	report("cudaFree", cudaFree(x));
	return 0;
}
