/* Reads and writes before its first allocation. Like Rodinia's srad_v2, the kernel
 * reads 1,536 bytes before the first of six images, as neighbours of its first rows,
 * and does not use them. The write, 4 bytes before the allocation, does not change
 * the memory there. Natively both hit the driver's memory. */
#include "common.h"

enum { COLUMNS = 512, ROWS = 512, ABOVE = 384 };

static __global__ void differences(const uint32_t *image, uint32_t *out)
{
	const long at = (long)blockIdx.x * blockDim.x + threadIdx.x;
	const uint32_t above = *(volatile const uint32_t *)(image + at - ABOVE); /* any value for the first rows */

	out[at] = image[at] - (at < ABOVE ? image[at] : above);
}

static __global__ void touch(uint32_t *at)
{
	atomicAdd(at, 0);
}

int main()
{
	const size_t n = (size_t)ROWS * COLUMNS;
	uint32_t *images[6];
	digest sum;

	for (uint32_t *&image : images)
		image = device_alloc<uint32_t>(n);
	to_device(images[0], numbers(n, 1));
	for (int i = 1; i < 6; i++) {
		differences<<<blocks_for(n), BLOCK>>>(images[0], images[i]);
		CUDA_LAUNCHED();
		touch<<<1, 1>>>(images[0] - 1);
		CUDA_LAUNCHED();
	}
	for (const uint32_t *image : images)
		sum.add_device(image, n);
	for (uint32_t *image : images)
		CUDA(cudaFree(image));
	sum.print();
	return 0;
}
