/* 200 allocations. Under the lazy runtime (CASE_BINDING is "task") kernels may read and
 * write 2 MiB before and after each. Natively the program stays inside them. All
 * allocations keep their content. Stderr says how long binding took. */
#include "common.h"

#include <chrono>
#include <string>

static const size_t MARGIN = 2 << 20;

/* One block for each allocation: every page of both margins, and their ends. */
static __global__ void around(char *const *all, const size_t *bytes)
{
	char *const begin = all[blockIdx.x], *const end = begin + bytes[blockIdx.x];

	for (size_t far = 4096 * (threadIdx.x + 1); far <= MARGIN; far += 4096 * blockDim.x) {
		atomicAdd(reinterpret_cast<unsigned *>(begin - far), 1);
		atomicAdd(reinterpret_cast<unsigned *>(end + far - 4), 1);
	}
	if (threadIdx.x == 0) {
		atomicAdd(reinterpret_cast<unsigned *>(begin - 4), 1);
		atomicAdd(reinterpret_cast<unsigned *>(end), 1);
	}
}

int main()
{
	const int count = 200;
	const char *binding = getenv("CASE_BINDING");
	const bool ours = binding != nullptr && std::string(binding) == "task"; /* the library allocates the memory */
	std::vector<char *> all(count);
	std::vector<size_t> bytes(count);
	digest sum;
	size_t free_bytes = 0, total = 0;

	for (int i = 0; i < count; i++) {
		bytes[i] = (1 << 20) + (size_t)i * 4096; /* each is a reservation of its own */
		all[i] = device_alloc<char>(bytes[i]);
		CUDA(cudaMemset(all[i], i + 1, bytes[i]));
	}
	char **device_all = device_alloc<char *>(count);
	size_t *device_bytes = device_alloc<size_t>(count);
	to_device(device_all, all);
	to_device(device_bytes, bytes);
	const auto before = std::chrono::steady_clock::now();
	affine<uint32_t><<<1, BLOCK>>>(reinterpret_cast<uint32_t *>(device_all), 0, 1, 1);
	CUDA_LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
	CUDA(cudaMemGetInfo(&free_bytes, &total));
	if (ours) {
		around<<<count, BLOCK>>>(device_all, device_bytes);
		CUDA_LAUNCHED();
		CUDA(cudaDeviceSynchronize());
	}
	int refused = 0;
	for (int i = 0; i < count; i++) {
		refused += cudaMemset(all[i], 0, bytes[i] + MARGIN) == cudaErrorInvalidValue;
		refused += cudaMemcpy(device_all, all[i] + bytes[i], 1, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue;
		sum.add_device(all[i], bytes[i]);
	}
	cudaGetLastError();
	/* Natively one of the 400 succeeded, because it hit another allocation. */
	expect(!ours || refused == 2 * count, "copies and sets beyond an allocation are refused");
	fprintf(stderr, "%d of %d copies and sets beyond the allocations refused; the first launch took %.2f ms; then %.2f MiB of the device were in use\n", refused, 2 * count, took.count(),
	        (total - free_bytes) / 1048576.0);
	for (char *p : all)
		CUDA(cudaFree(p));
	CUDA(cudaFree(device_all));
	CUDA(cudaFree(device_bytes));
	sum.print();
	return 0;
}
