/* fork before any CUDA call: parent and children are CUDA programs of their
 * own, at the same time. */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

static uint64_t compute(uint32_t seed)
{
	const size_t n = 1 << (16 + seed);
	uint32_t *x = device_alloc<uint32_t>(n);
	digest sum;

	to_device(x, numbers(n, seed));
	for (uint32_t step = 0; step < 20; step++) {
		affine<uint32_t><<<blocks_for(n), BLOCK>>>(x, n, 3, step);
		CUDA_LAUNCHED();
	}
	sum.add_device(x, n);
	CUDA(cudaFree(x));
	return sum.value();
}

int main()
{
	enum { CHILDREN = 2 };
	int ends[CHILDREN][2];
	pid_t child[CHILDREN];
	digest sum;

	for (int i = 0; i < CHILDREN; i++) {
		expect(pipe(ends[i]) == 0, "pipe");
		child[i] = fork();
		expect(child[i] >= 0, "fork");
		if (child[i] == 0) {
			const uint64_t value = compute(1 + i);
			exit(write(ends[i][1], &value, sizeof value) == (ssize_t)sizeof value ? 0 : 1);
		}
	}
	const uint64_t mine = compute(0);
	sum.add(&mine, sizeof mine);
	for (int i = 0; i < CHILDREN; i++) {
		uint64_t value;
		int status;
		expect(waitpid(child[i], &status, 0) == child[i] && status == 0, "a child's end");
		expect(read(ends[i][0], &value, sizeof value) == (ssize_t)sizeof value, "a child's value");
		sum.add(&value, sizeof value);
	}
	sum.print();
	return 0;
}
