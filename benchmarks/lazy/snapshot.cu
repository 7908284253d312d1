/* Overwrites or unmaps the host buffer as soon as cudaMemcpy returns, long before the
 * first launch: 4 KB, 10 MB and 200 MB, each in its own task and then all in one. */
#include "common.h"

#include <string.h>

/* copied allocates n values and fills them from a buffer that no longer holds the
 * values when copied returns. */
static uint32_t *copied(size_t n, uint64_t seed, bool unmap)
{
	const size_t bytes = n * sizeof(uint32_t);
	uint32_t *device = device_alloc<uint32_t>(n);
	static std::vector<uint32_t> kept;
	uint32_t *buffer = static_cast<uint32_t *>(unmap ? malloc(bytes) : nullptr);

	if (!unmap) {
		kept.resize(n > kept.size() ? n : kept.size());
		buffer = kept.data();
	}
	for (size_t i = 0; i < n; i++)
		buffer[i] = (uint32_t)(i * 2654435761u + seed);
	CUDA(cudaMemcpy(device, buffer, bytes, cudaMemcpyHostToDevice));
	memset(buffer, 0xbd, bytes);
	if (unmap)
		free(buffer);
	return device;
}

/* finish launches on the values, checks a part of them and frees them. */
static void finish(uint32_t *device, size_t n, uint64_t seed, digest *sum)
{
	std::vector<uint32_t> back(n);

	affine<uint32_t><<<blocks_for(n), BLOCK>>>(device, n, 3, 1);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpy(back.data(), device, n * sizeof *device, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i += 513)
		expect(back[i] == (uint32_t)(i * 2654435761u + seed) * 3 + 1 + (uint32_t)i, "the values at the copy");
	sum->add(back.data(), (n < 1 << 20 ? n : 1 << 20) * sizeof(uint32_t));
	CUDA(cudaFree(device));
}

int main()
{
	static const size_t sizes[] = {4000 / 4, 10000000 / 4, 200000000 / 4};
	uint32_t *device[3];
	digest sum;

	for (int i = 0; i < 3; i++)
		for (int unmap = 0; unmap < 2; unmap++)
			finish(copied(sizes[i], 10 * i + unmap, unmap), sizes[i], 10 * i + unmap, &sum);
	for (int i = 0; i < 3; i++)
		device[i] = copied(sizes[i], 100 + i, i != 1);
	for (int i = 2; i >= 0; i--)
		finish(device[i], sizes[i], 100 + i, &sum);
	sum.print();
	return 0;
}
