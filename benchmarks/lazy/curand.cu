/* cuRAND: a generator of the host API on the program's stream. */
#include "common.h"

#ifdef HAVE_CURAND

#include <curand.h>

static void rnd(curandStatus_t status, const char *call)
{
	if (status == CURAND_STATUS_SUCCESS)
		return;
	fprintf(stderr, "cuRAND status %d in %s\n", (int)status, call);
	exit(status == CURAND_STATUS_ALLOCATION_FAILED ? 2 : 3);
}
#define RAND(call) rnd((call), #call)

int main()
{
	const size_t n = 1 << 20;
	curandGenerator_t generator;
	cudaStream_t stream;
	digest sum;

	CUDA(cudaStreamCreate(&stream));
	RAND(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
	RAND(curandSetPseudoRandomGeneratorSeed(generator, 1234));
	RAND(curandSetStream(generator, stream));
	uint32_t *x = device_alloc<uint32_t>(n);
	float *y = device_alloc<float>(n);
	for (int round = 0; round < 3; round++) {
		RAND(curandGenerate(generator, x, n));
		RAND(curandGenerateNormal(generator, y, n, 0, 1));
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(x, n, 3, 1);
		CUDA_LAUNCHED();
		CUDA(cudaStreamSynchronize(stream));
		sum.add_device(x, n);
		sum.add_device(y, n);
	}
	RAND(curandDestroyGenerator(generator));
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaFree(x));
	CUDA(cudaFree(y));
	sum.print();
	return 0;
}

#else

int main()
{
	cannot_run("built without cuRAND");
}

#endif
