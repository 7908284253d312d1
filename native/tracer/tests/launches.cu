// launches.cu: a program whose trace is known, for a machine with a GPU:
//   launches N MODE
// launches N kernels of about 100 us, after a copy of 4 MiB, prints the
// CLOCK_MONOTONIC nanoseconds between which they ran, and ends as MODE says:
// exit (after a synchronization), unsynced (exit with kernels in flight), reset
// (cudaDeviceReset), kill (kill -9 to itself 500 ms later), long (kill -9 beside
// a kernel in flight), overlap (four streams).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

static unsigned long long now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

__global__ void spin(long long cycles)
{
	long long start = clock64();
	while (clock64() - start < cycles) {
	}
}

static void check(cudaError_t error)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "launches: %s\n", cudaGetErrorString(error));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10;
	const char *mode = argc > 2 ? argv[2] : "exit";
	const size_t bytes = 4 << 20;
	void *device, *host = malloc(bytes);
	cudaStream_t streams[4];

	check(cudaMalloc(&device, bytes));
	for (cudaStream_t &s : streams)
		check(cudaStreamCreate(&s));
	check(cudaDeviceSynchronize());
	unsigned long long from = now();
	check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
	for (int i = 0; i < n; i++)
		spin<<<dim3(1, 2, 1), dim3(64, 1, 1), 256, strcmp(mode, "overlap") == 0 ? streams[i % 4] : 0>>>(180000);
	check(cudaGetLastError());
	if (strcmp(mode, "unsynced") == 0)
		return 0;
	check(cudaDeviceSynchronize());
	printf("%llu %llu\n", from, now());
	fflush(stdout);
	if (strcmp(mode, "long") == 0)
		spin<<<1, 32>>>(20000000000);
	if (strcmp(mode, "kill") == 0 || strcmp(mode, "long") == 0) {
		usleep(500000);
		raise(SIGKILL);
	}
	if (strcmp(mode, "reset") == 0)
		check(cudaDeviceReset());
	return 0;
}
