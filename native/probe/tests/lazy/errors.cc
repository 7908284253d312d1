// errors.cc: what goes wrong.
#include "program.h"

void too_much()
{
	void *p = nullptr;
	cudaError_t error = cudaMalloc(&p, 800 * mib);
	say("first %d", error);
	error = cudaMalloc(&p, 800 * mib);
	say("second %d last %d", error, cudaGetLastError());
}

// fault: seen by the copy after the kernel, and by all later calls.
void fault()
{
	int *x = device<int>(1000), value = -1;
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	TRY(cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost));
	TRY(cudaFree(x));
	say("value %d", value);
}

void fault_unseen() // nobody waits for the kernel
{
	device<int>(1000);
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
}

void fault_unseen_late() // the same of a program whose first call makes the context
{
	void *address = nullptr;
	register_variables();
	TRY(cudaGetSymbolAddress(&address, table));
	fault_unseen();
}

void launch_only() // a launch without any memory
{
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaDeviceSynchronize());
}
