/* Kernels with 256 bytes to 16 KiB of local memory a thread, in a launch and in a graph, and one that recurses
 * under a larger stack limit. The driver's pool for them is far larger than the memory that the program allocates.
 * An argument is how many seconds it then stays. */
#include <unistd.h>

#include "common.h"

template <int BYTES> static __global__ void local(uint32_t *x, unsigned seed)
{
	volatile unsigned char a[BYTES];
	uint32_t all = 0;

	for (int i = 0; i < BYTES; i++)
		a[(i * 37u + threadIdx.x) % BYTES] = (unsigned char)(i * seed);
	for (int i = 0; i < BYTES; i += 5)
		all = all * 31 + a[i];
	x[blockIdx.x * blockDim.x + threadIdx.x] += all;
}

static __device__ __noinline__ uint32_t down(unsigned n, volatile uint32_t *x)
{
	volatile uint32_t a[16];

	a[n % 16] = n;
	return n == 0 ? x[0] : down(n - 1, x) + a[n % 16];
}

static __global__ void recurses(uint32_t *x, unsigned n) { x[threadIdx.x + 1] += down(n, x); }

int main(int count, char **arguments)
{
	const size_t n = 1 << 16;
	uint32_t *x = device_alloc<uint32_t>(n);
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t executable;
	digest sum;

	to_device(x, numbers(n, 1));
	local<256><<<blocks_for(n), BLOCK>>>(x, 3);
	CUDA_LAUNCHED();
	local<4096><<<blocks_for(n), BLOCK>>>(x, 5);
	CUDA_LAUNCHED();
	local<2048><<<blocks_for(n), BLOCK>>>(x, 7);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 6144));
	recurses<<<1, 32>>>(x, 20);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaStreamCreate(&stream));
	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	local<16384><<<blocks_for(n), BLOCK, 0, stream>>>(x, 9);
	CUDA_LAUNCHED();
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
	CUDA(cudaGraphLaunch(executable, stream));
	CUDA(cudaDeviceSynchronize());
	if (count > 1)
		sleep((unsigned)atoi(arguments[1]));
	sum.add_device(x, n);
	CUDA(cudaFree(x));
	sum.print();
	return 0;
}
