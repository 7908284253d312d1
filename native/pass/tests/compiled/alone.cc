// alone.cc: a program for casecc with a static CUDA runtime (native/lazy/lazytest/compiled_linked_test.go). Its
// task is static. With FALLBACK the pointers to its memory outlive the function, so its launches are
// left to the lazy runtime that casecc links.
#include <stdio.h>

#include "program.h"

void add(int *a, int n, int by)
{
	for (int i = 0; i < n; i++)
		a[i] += by + i;
}

void both(int *a, const int *b, int n)
{
	for (int i = 0; i < n; i++)
		a[i] = a[i] * 3 + b[i];
}

int main()
{
	enum { N = 1 << 20 };
	static int host[N];
#ifdef FALLBACK
	static int *a, *b;
#else
	int *a = nullptr, *b = nullptr;
#endif

	const int failed = cudaMalloc(reinterpret_cast<void **>(&a), sizeof host);
	if (failed == cudaSuccess && cudaMalloc(reinterpret_cast<void **>(&b), sizeof host) == cudaSuccess) {
		cudaMemset(a, 1, sizeof host);
		cudaMemset(b, 2, sizeof host);
		RUN(add, (dim3{16, 2, 1}), (dim3{96, 1, 1}), nullptr, a, N, 3);
		RUN(both, (dim3{16, 2, 1}), (dim3{96, 1, 1}), nullptr, a, b, N);
		cudaMemcpy(host, a, sizeof host, 2);
		cudaFree(b);
		cudaFree(a);
	}
	printf("allocation %d, error %d, sum %016lx\n", failed, cudaGetLastError(), mix(0, host, N));
	return 0;
}
