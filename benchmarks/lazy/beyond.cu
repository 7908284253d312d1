/* Copies and sets that exceed their allocation, before and after the first launch.
 * Prints CUDA's error for each, and a checksum of the memory that they must not
 * change. They exceed it by one byte, up to the next multiple of 512 bytes and of
 * 2 MiB, and by more. Some begin before the allocation. */
#include "common.h"

static const size_t MIB = 1 << 20;

static void answers(const char *what, char *p, size_t n, char *other, std::vector<char> *host)
{
	const struct {
		const char *name;
		char *at;
		size_t bytes;
	} ranges[] = {{"+1", p, n + 1}, {"+512", p, n / 512 * 512 + 512}, {"+2MiB", p, n + 2 * MIB},
	              {"behind", p + n, 16}, {"before", p - 4, 8}, {"all", p, n}};

	for (const auto &r : ranges)
		printf("%s %zu %s: %d %d %d %d %d %d\n", what, n, r.name, (int)cudaMemset(r.at, 1, r.bytes),
		       (int)cudaMemsetAsync(r.at, 1, r.bytes, 0),
		       (int)cudaMemcpy(r.at, host->data(), r.bytes, cudaMemcpyHostToDevice),
		       (int)cudaMemcpy(host->data(), r.at, r.bytes, cudaMemcpyDeviceToHost),
		       (int)cudaMemcpy(r.at, other, r.bytes, cudaMemcpyDeviceToDevice),
		       (int)cudaMemcpyAsync(other, r.at, r.bytes, cudaMemcpyDeviceToDevice, 0));
	const size_t rows = n / 100 + 1;
	printf("%s %zu rows: %d %d\n", what, n, (int)cudaMemset2D(p, 100, 1, 100, rows),
	       (int)cudaMemcpy2D(p, 100, host->data(), 100, 100, rows, cudaMemcpyHostToDevice));
	cudaGetLastError();
}

int main()
{
	const size_t sizes[] = {1000, 100 * 1000, 3 * MIB / 2, 4 * MIB};
	std::vector<char> host(8 * MIB, 1);
	char *all[4], *other = device_alloc<char>(8 * MIB);
	digest sum;

	CUDA(cudaMemset(other, 1, host.size()));
	for (int i = 0; i < 4; i++) {
		all[i] = device_alloc<char>(sizes[i]);
		CUDA(cudaMemset(all[i], 1, sizes[i]));
	}
	for (int i = 0; i < 4; i++)
		answers("unbound", all[i], sizes[i], other, &host);
	affine<uint32_t><<<1, BLOCK>>>(reinterpret_cast<uint32_t *>(other), 0, 1, 1);
	CUDA_LAUNCHED();
	for (int i = 0; i < 4; i++)
		answers("bound", all[i], sizes[i], other, &host);
	CUDA(cudaDeviceSynchronize());
	for (int i = 0; i < 4; i++) {
		sum.add_device(all[i], sizes[i]);
		CUDA(cudaFree(all[i]));
	}
	sum.add_device(other, host.size());
	CUDA(cudaFree(other));
	sum.print();
	return 0;
}
