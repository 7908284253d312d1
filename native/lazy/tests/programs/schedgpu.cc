// schedgpu.cc: programs that say themselves what they need (../../schedgpu.h). libcase has this API,
// so the programs run only with libcase.
#include "../../../probe/schedgpu.h"
#include "program.h"

extern "C" {
__attribute__((weak)) int schedGPUInit(void);
__attribute__((weak)) int preCudaMalloc(size_t bytes, int device, unsigned wait_ms);
__attribute__((weak)) int postCudaFree(size_t bytes, int device);
}

static void use(int *x, int n)
{
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, 1));
	TRY(cudaDeviceSynchronize());
}

// explicit_memory allocates less than it has reserved, then more, then less again.
void explicit_memory()
{
	say("init %d device %d", schedGPUInit(), preCudaMalloc(mib, 1, SCHEDGPU_NO_WAIT));
	say("pre %d", preCudaMalloc(64 * mib, 0, SCHEDGPU_NO_WAIT));
	int *x = device<int>(4 * mib), *y = device<int>(8 * mib); // 16 and 32 MiB
	use(x, 1000);
	int *z = device<int>(4 * mib), *more = device<int>(2 * mib); // all of it, and 8 MiB
	use(z, 1000);
	say("pre %d", preCudaMalloc(32 * mib, 0, 7)); // of which 8 are there
	TRY(cudaFree(more));
	say("post %d", postCudaFree(97 * mib, 0));
	say("post %d", postCudaFree(32 * mib, 0));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
	TRY(cudaFree(z));
	say("post %d", postCudaFree(48 * mib, 0));
	say("post %d", postCudaFree(16 * mib, 0));
	say("post %d", postCudaFree(1, 0));
}

// explicit_waits reserves memory, and goes on without it when the wait ends.
void explicit_waits()
{
	say("pre %d", preCudaMalloc(64 * mib, 0, 7));
	int *x = device<int>(mib);
	use(x, 1000);
	say("pre %d", preCudaMalloc(64 * mib, 0, SCHEDGPU_NO_WAIT));
	TRY(cudaFree(x));
}
