/* nbody.cu: nbody.h on a GPU, as a library of nbody.c and nbody_mpi.c. */
#include "../pilot/pilot.h"
#include "nbody_gpu.h"

enum { THREADS = 128, BLOCKS = 10 }; /* that a multiprocessor has at once */

__global__ void __launch_bounds__(THREADS, BLOCKS) step_of_all(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long particles, long begin, long end)
{
	for (long i = begin + (long)first_item(); i < end; i += (long)items_apart())
		step_of_one(from, to, speeds, moved, particles, i);
}
KERNEL(step_of_all);

static void step_on_gpu(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long particles, long begin, long end)
{
	if (begin == end)
		return;
	LAUNCH_ON(step_of_all, (unsigned)((end - begin + THREADS - 1) / THREADS), THREADS, from, to, speeds, moved, particles, begin, end);
	GPU(cudaDeviceSynchronize());
}

static void use(int device)
{
	int count;

	GPU(cudaGetDeviceCount(&count));
	GPU(cudaSetDevice(device % count));
}

static void *memory(size_t bytes)
{
	void *at = device_alloc_bytes(bytes, "particles");

	GPU(cudaMemset(at, 0, bytes));
	return at;
}

static void copy(void *to, const void *from, size_t bytes) { GPU(cudaMemcpy(to, from, bytes, cudaMemcpyDefault)); }

extern "C" const struct nbody_gpu nbody_gpu = {use, memory, copy, step_on_gpu};
