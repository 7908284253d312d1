/* cuBLAS: a handle made before the first allocation, with the program's own
 * stream, and kernels of the program before and after the library's. */
#include "common.h"

#ifdef HAVE_CUBLAS

#include <cublas_v2.h>

static void blas(cublasStatus_t status, const char *call)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return;
	fprintf(stderr, "cuBLAS status %d in %s\n", (int)status, call);
	exit(status == CUBLAS_STATUS_ALLOC_FAILED ? 2 : 3);
}
#define BLAS(call) blas((call), #call)

static __global__ void halve(float *x, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i] *= 0.5f;
}

int main()
{
	const int size = 384, n = size * size;
	const float one = 1, half = 0.5f;
	std::vector<float> host(n);
	cublasHandle_t handle;
	cudaStream_t stream;
	digest sum;

	BLAS(cublasCreate(&handle));
	CUDA(cudaStreamCreate(&stream));
	BLAS(cublasSetStream(handle, stream));
	float *a = device_alloc<float>(n), *b = device_alloc<float>(n), *c = device_alloc<float>(n);
	for (int i = 0; i < n; i++)
		host[i] = (float)(mix(i) % 1000) / 1000;
	BLAS(cublasSetMatrix(size, size, sizeof(float), host.data(), size, a, size));
	CUDA(cudaMemcpyAsync(b, host.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
	CUDA(cudaMemsetAsync(c, 0, n * sizeof(float), stream));
	for (int round = 0; round < 4; round++) {
		BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, size, size, size, &one, a, size, b, size, &half, c, size));
		halve<<<blocks_for(n), BLOCK, 0, stream>>>(c, n);
		CUDA_LAUNCHED();
	}
	float norm = 0;
	BLAS(cublasSnrm2(handle, n, c, 1, &norm));
	CUDA(cudaStreamSynchronize(stream));
	sum.add(&norm, sizeof norm);
	sum.add_device(c, n);
	BLAS(cublasDestroy(handle));
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
	CUDA(cudaFree(c));
	sum.print();
	return 0;
}

#else

int main()
{
	cannot_run("built without cuBLAS");
}

#endif
