// What stands beside a fault: neighbours ROLE [ARGUMENTS]. Runtime API only, so that libcase sees all of it.
//   fault KIND SECONDS MIB          holds MIB, works, and faults after SECONDS; exits 1 if it is shown an error, else 0
//   cycle MIB SECONDS checks|ignores  allocates, works, frees, pauses, again and again
//   host MIB SECONDS                works once, and then stays on the host with its memory before it frees it
//   wait MIB SECONDS                works with one long kernel after the other
//   copies MIB SECONDS              short kernels, each followed by a copy back
//   new MIB                         allocates, works, checks
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

static double now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static __global__ void work(unsigned *x, size_t n, unsigned add, long long clocks)
{
	const long long begin = clock64();
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
		x[i] += add;
	while (clock64() - begin < clocks)
		;
}
static __global__ void illegal(unsigned *x) { *(volatile unsigned *)0x7fff00000000 = 1; }
static __global__ void misaligned(unsigned *x) { *(volatile unsigned *)((char *)x + 1) = 1; }
static __global__ void traps(unsigned *x) { asm volatile("trap;"); }

static bool ignores;

static bool ok(cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return true;
	printf("%.3f %s: error %d\n", now(), what, (int)e);
	fflush(stdout);
	if (!ignores)
		exit(1);
	return false;
}

static void works(unsigned *x, size_t n, long long clocks)
{
	work<<<64, 256>>>(x, n, 1, clocks);
	ok(cudaGetLastError(), "launch");
	ok(cudaDeviceSynchronize(), "synchronize");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 9;
	const char *role = argv[1];
	const bool faults = strcmp(role, "fault") == 0;
	const size_t bytes = (size_t)atol(argv[faults ? 4 : 2]) << 20, n = bytes / 4, some = n < (1u << 20) ? n : (1u << 20);
	const double seconds = argc > 3 ? atof(argv[3]) : 0, begin = now();
	unsigned *x = nullptr;
	static unsigned got[1 << 20];

	ignores = argc > 4 && strcmp(argv[4], "ignores") == 0;
	if (faults) {
		ok(cudaMalloc(&x, bytes), "malloc");
		while (now() - begin < seconds) {
			works(x, some, 1000000);
			usleep(20000);
		}
		printf("%.3f faults now\n", now());
		if (strcmp(argv[2], "illegal") == 0)
			illegal<<<1, 1>>>(x);
		else if (strcmp(argv[2], "misaligned") == 0)
			misaligned<<<1, 1>>>(x);
		else
			traps<<<1, 1>>>(x);
		ok(cudaDeviceSynchronize(), "the kernel that faults");
		ok(cudaFree(x), "free");
		printf("%.3f was shown nothing\n", now());
		return 0;
	}
	if (strcmp(role, "cycle") == 0) {
		unsigned seed = getpid();
		while (now() - begin < seconds) {
			if (ok(cudaMalloc(&x, bytes), "malloc")) {
				ok(cudaMemset(x, 0, bytes), "memset");
				works(x, some, 1000000);
				ok(cudaFree(x), "free");
			}
			usleep(50000 + rand_r(&seed) % 150000);
		}
		return 0;
	}
	ok(cudaMalloc(&x, bytes), "malloc");
	ok(cudaMemset(x, 0, bytes), "memset");
	unsigned times = 0;
	do {
		works(x, some, strcmp(role, "wait") == 0 ? 300000000 : 1000000);
		times++;
		if (strcmp(role, "copies") == 0)
			ok(cudaMemcpy(got, x, some * 4, cudaMemcpyDeviceToHost), "copy");
		if (strcmp(role, "host") == 0)
			usleep((useconds_t)(seconds * 1e6));
	} while (strcmp(role, "new") != 0 && now() - begin < seconds);
	ok(cudaMemcpy(got, x, some * 4, cudaMemcpyDeviceToHost), "copy");
	for (size_t i = 0; i < some; i++)
		if (got[i] != times) {
			printf("wrong\n");
			return 4;
		}
	ok(cudaFree(x), "free");
	return 0;
}
