#include "blas.h"

#include "common/suite.h"

static void check(cublasStatus_t status, const char *call)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return;
	if (status == CUBLAS_STATUS_ALLOC_FAILED)
		die(EXIT_OOM, "out of device memory in %s", call);
	/* An error of the runtime is closer to the cause. */
	GPU(cudaGetLastError());
	die(EXIT_FAULT, "cuBLAS status %d in %s", int(status), call);
}

static void check(curandStatus_t status, const char *call)
{
	if (status == CURAND_STATUS_SUCCESS)
		return;
	if (status == CURAND_STATUS_ALLOCATION_FAILED)
		die(EXIT_OOM, "out of device memory in %s", call);
	GPU(cudaGetLastError());
	die(EXIT_FAULT, "cuRAND status %d in %s", int(status), call);
}

blas::blas(void *workspace, size_t bytes)
{
	check(cublasCreate(&handle_), "cublasCreate");
	check(cublasSetWorkspace(handle_, workspace, bytes), "cublasSetWorkspace");
}

blas::~blas()
{
	cublasDestroy(handle_);
}

void blas::multiply(bool transpose_a, bool transpose_b, int m, int n, int k, const float *a, const float *b,
                    float old, float *c) const
{
	const float one = 1;

	/* cuBLAS is column-major: it computes c's transpose, b' a'. */
	check(cublasSgemm(handle_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n,
	                  m, k, &one, b, transpose_b ? k : n, a, transpose_a ? m : k, &old, c, n),
	      "cublasSgemm");
}

device_random::device_random(uint64_t seed)
{
	check(curandCreateGenerator(&generator_, CURAND_RNG_PSEUDO_DEFAULT), "curandCreateGenerator");
	check(curandSetPseudoRandomGeneratorSeed(generator_, seed), "curandSetPseudoRandomGeneratorSeed");
}

device_random::~device_random()
{
	curandDestroyGenerator(generator_);
}

void device_random::fill(float *values, size_t count) const
{
	check(curandGenerateUniform(generator_, values, count), "curandGenerateUniform");
}
