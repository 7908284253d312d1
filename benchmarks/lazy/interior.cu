/* Copies and sets of every kind before the first launch: with interior addresses,
 * between device allocations, and to the same addresses, where the last write wins.
 * A second part never launches a kernel. */
#include "common.h"

static void without_kernel(digest *sum)
{
	const size_t n = 100000;
	uint32_t *x = device_alloc<uint32_t>(n), *y = device_alloc<uint32_t>(n);

	to_device(x, numbers(n, 20));
	CUDA(cudaMemcpy(y + 10, x, (n - 10) * sizeof *x, cudaMemcpyDeviceToDevice));
	CUDA(cudaMemset(y, 0, 40));
	sum->add_device(y, n);
	CUDA(cudaFree(x));
	CUDA(cudaFree(y));
}

int main()
{
	const size_t n = 1 << 18;
	std::vector<uint32_t> host = numbers(n, 1), back(n);
	digest sum;

	without_kernel(&sum);
	uint32_t *a = device_alloc<uint32_t>(n), *b = device_alloc<uint32_t>(n), *c = device_alloc<uint32_t>(n);
	uint32_t *unused = device_alloc<uint32_t>(12345);
	CUDA(cudaMemset(a, 0xee, n * sizeof *a));
	CUDA(cudaMemset(c, 0, n * sizeof *c));
	to_device(b, host);
	CUDA(cudaMemcpy(a + 1000, b + 5, 50000 * sizeof *a, cudaMemcpyDeviceToDevice));
	CUDA(cudaMemcpy(b + 5, host.data() + 7, 9 * sizeof *b, cudaMemcpyDefault)); /* after it was read */
	CUDA(cudaMemcpy(c + n / 2, a, n / 2 * sizeof *a, cudaMemcpyDefault));
	CUDA(cudaMemset(reinterpret_cast<char *>(a) + 4003, 0x77, 13)); /* odd address and length */
	CUDA(cudaMemcpyAsync(c + 3, a + 1000, 77 * sizeof *a, cudaMemcpyDeviceToDevice, 0));
	CUDA(cudaMemcpyPeer(c + 100000, 0, b, 0, 1000 * sizeof *b));
	CUDA(cudaMemsetAsync(c + n - 5, 0x12, 5 * sizeof *c, 0));
	CUDA(cudaMemcpy(back.data(), host.data(), n * sizeof(uint32_t), cudaMemcpyHostToHost));
	sum.add(back);
	CUDA(cudaMemset(a, 0, 0)); /* nothing, and no error */
	CUDA(cudaFree(unused));
	unused = device_alloc<uint32_t>(777); /* may get the same address */
	CUDA(cudaMemset(unused, 0x31, 777 * sizeof *unused));

	affine<uint32_t><<<blocks_for(n - 100), BLOCK>>>(a + 100, n - 100, 3, 1); /* interior argument */
	CUDA_LAUNCHED();
	affine<uint32_t><<<blocks_for(n), BLOCK>>>(c, n, 5, 2);
	CUDA_LAUNCHED();
	CUDA(cudaMemcpy(b + 200, a + 300, 4000, cudaMemcpyDeviceToDevice));
	sum.add_device(a, n);
	sum.add_device(b, n);
	sum.add_device(c + 1, n - 1);
	sum.add_device(unused, 777);
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
	CUDA(cudaFree(c));
	CUDA(cudaFree(unused));
	sum.print();
	return 0;
}
