#include "cuda.h"

__global__ void times(float *p, float by) { p[__nvvm_read_ptx_sreg_tid_x()] *= by; }

int main()
{
	float host[32] = {}, *d;

	if (cudaMalloc(reinterpret_cast<void **>(&d), sizeof host) != 0)
		return 1;
	cudaMemcpy(d, host, sizeof host, 1);
	times<<<1, 32>>>(d, 2);
	cudaMemcpy(host, d, sizeof host, 2);
	return cudaFree(d);
}
