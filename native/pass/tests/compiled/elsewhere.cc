// elsewhere.cc: a part of a program that has a device of its own.
#include "program.h"

static int *kept;

void elsewhere(unsigned long *sum)
{
	static int host[100];

	if (kept == nullptr) {
		cudaMalloc(reinterpret_cast<void **>(&kept), sizeof host);
		cudaMemset(kept, 1, sizeof host);
	}
	RUN(add, (dim3{4, 1, 1}), (dim3{32, 1, 1}), nullptr, kept, 100, 3);
	cudaMemcpy(host, kept, sizeof host, 2);
	*sum = mix(*sum, host, 100);
}
