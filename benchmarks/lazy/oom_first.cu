/* Like oom, but the first allocation is too large, and no call before the launch
 * returns an error: if allocations are only recorded, the launch finds no memory.
 * Ignores every error and exits 0. */
#include "common.h"

int main()
{
	const size_t n = (size_t)1 << 40;
	uint32_t *huge = nullptr;
	bool failed = cudaMalloc((void **)&huge, n * sizeof *huge) != cudaSuccess;

	affine<uint32_t><<<1, BLOCK>>>(huge, failed ? 0 : BLOCK, 3, 1);
	failed |= cudaGetLastError() != cudaSuccess;
	printf("4 TiB: %s\n", failed ? "failed" : "had");
	return 0;
}
