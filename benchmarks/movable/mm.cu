/* mm: products of large matrices, with work of the host between them (MM-S and MM-L of the
 * dissertation on runtime support for CPU-GPU clusters, Table 3-2).
 *
 *   mm [--size N] [--matrices M] [--products P] [--cpu-fraction F]
 *
 * M matrices of N x N 32-bit integers below 3 (10000, 3). P times (10) the product of two of them, modulo 3,
 * replaces a third, in turn. So a kernel is given three matrices, whatever M is. After each product the host works
 * F times (0) as long as the kernel ran, by the device's clock. The last product is checked with a random vector (Freivalds), and a
 * checksum of all matrices is printed: it depends on N, M and P alone.
 *
 * Exit status: 0 done; 1 usage; 2 out of device memory; 3 another CUDA error; 4 a wrong result. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vector>

#include <cuda_runtime.h>

static void check_cuda(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "mm: %s: CUDA error %d (%s)\n", call, (int)error, cudaGetErrorString(error));
	exit(error == cudaErrorMemoryAllocation ? 2 : 3);
}
#define CUDA(call) check_cuda((call), #call)
#define LAUNCHED() check_cuda(cudaGetLastError(), "launch")

static const int tile = 128, depth = 8, part = 8, side = tile / part; /* a thread computes part x part entries */

__device__ static int at(const int *m, int n, int row, int column) { return row < n && column < n ? m[(size_t)row * n + column] : 0; }

/* When the first block of a kernel began and the last one ended, in nanoseconds of the device's clock. It is in memory
 * of the device: kernels that write to the host slow the page tables of neighbours. */
struct span {
	unsigned long long from, to;
};

__device__ static unsigned long long clock_ns(void)
{
	unsigned long long ns;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

__global__ void __launch_bounds__(side * side) multiply(const int *a, const int *b, int *c, int n, span *ran)
{
	if (threadIdx.x == 0)
		atomicMin(&ran->from, clock_ns());

	__shared__ int of_a[depth][tile], of_b[depth][tile];
	const int x = threadIdx.x % side, y = threadIdx.x / side, row = blockIdx.y * tile, column = blockIdx.x * tile;
	int sum[part][part] = {};

	for (int from = 0; from < n; from += depth) {
		for (int i = threadIdx.x; i < tile * depth; i += side * side) {
			of_a[i % depth][i / depth] = at(a, n, row + i / depth, from + i % depth);
			of_b[i / tile][i % tile] = at(b, n, from + i / tile, column + i % tile);
		}
		__syncthreads();
		for (int k = 0; k < depth; k++) {
			int left[part], right[part];
			for (int i = 0; i < part; i++) {
				left[i] = of_a[k][y + i * side];
				right[i] = of_b[k][x + i * side];
			}
			for (int i = 0; i < part; i++)
				for (int j = 0; j < part; j++)
					sum[i][j] += left[i] * right[j];
		}
		__syncthreads();
	}
	for (int i = 0; i < part; i++)
		for (int j = 0; j < part; j++)
			if (row + y + i * side < n && column + x + j * side < n)
				c[(size_t)(row + y + i * side) * n + column + x + j * side] = sum[i][j] % 3;
	__syncthreads();
	if (threadIdx.x == 0)
		atomicMax(&ran->to, clock_ns());
}

__device__ static uint64_t mixed(uint64_t z) /* SplitMix64's finalizer */
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

__global__ void fill(int *m, size_t count, uint64_t seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
		m[i] = (int)(mixed(seed + i) % 3);
}

/* times is the vector v times the matrix, modulo 3. */
__global__ void times(const int *v, const int *m, int *out, int n)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	int sum = 0;

	for (int row = 0; row < n && column < n; row++)
		sum += v[row] * m[(size_t)row * n + column];
	if (column < n)
		out[column] = sum % 3;
}

__global__ void add_up(const int *m, size_t count, uint64_t seed, unsigned long long *sum)
{
	unsigned long long own = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (size_t)blockDim.x)
		own += mixed(seed + i) * (uint64_t)(m[i] + 1);
	atomicAdd(sum, own);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double number(const char *option, const char *text, double least)
{
	char *end;
	const double value = text == NULL ? -1 : strtod(text, &end);

	if (text == NULL || *end != '\0' || end == text || !(value >= least)) {
		fprintf(stderr, "mm: %s: %s is not a number of at least %g\n"
		                "usage: mm [--size N] [--matrices M] [--products P] [--cpu-fraction F]\n",
		        option, text == NULL ? "nothing" : text, least);
		exit(1);
	}
	return value;
}

int main(int argc, char **argv)
{
	double size = 10000, matrices = 3, products = 10, fraction = 0;

	for (int i = 1; i < argc; i += 2) {
		const char *value = argv[i + 1];
		if (strcmp(argv[i], "--size") == 0)
			size = number(argv[i], value, 1);
		else if (strcmp(argv[i], "--matrices") == 0)
			matrices = number(argv[i], value, 3);
		else if (strcmp(argv[i], "--products") == 0)
			products = number(argv[i], value, 1);
		else if (strcmp(argv[i], "--cpu-fraction") == 0)
			fraction = number(argv[i], value, 0);
		else
			number(argv[i], "an unknown option, which", 0);
	}
	const int n = (int)size, count = (int)matrices, blocks = (n + tile - 1) / tile;
	const size_t entries = (size_t)n * n;
	std::vector<int *> m(count);
	int *vectors;

	for (int i = 0; i < count; i++)
		CUDA(cudaMalloc(&m[i], entries * sizeof(int)));
	CUDA(cudaMalloc(&vectors, 4 * ((size_t)n + 1) * sizeof(int)));
	for (int i = 0; i < count; i++)
		fill<<<1024, 256>>>(m[i], entries, 1000003u * (uint64_t)i);
	LAUNCHED();
	CUDA(cudaDeviceSynchronize());
	double device = 0, waited = 0, host = 0;
	const span none = {~0ull, 0};
	span *const on_device = reinterpret_cast<span *>(vectors);
	for (int p = 0; p < (int)products; p++) {
		const double began = now();
		span it;
		CUDA(cudaMemcpy(on_device, &none, sizeof none, cudaMemcpyHostToDevice));
		multiply<<<dim3(blocks, blocks), side * side>>>(m[p % count], m[(p + 1) % count], m[(p + 2) % count], n, on_device);
		LAUNCHED();
		CUDA(cudaDeviceSynchronize());
		CUDA(cudaMemcpy(&it, on_device, sizeof it, cudaMemcpyDeviceToHost));
		const double over = now(), ran = (double)(it.to - it.from) * 1e-9;
		device += ran;
		waited += over - began - ran;
		volatile uint64_t work = 0;
		while (now() < over + fraction * ran)
			for (int i = 0; i < 10000; i++)
				work = work * 6364136223846793005u + 1;
		host += now() - over;
	}
	const int last = (int)products - 1, threads = 256, lines = (n + threads - 1) / threads;
	int *const v = vectors, *const va = v + n, *const vab = va + n, *const vc = vab + n;
	fill<<<64, 256>>>(v, n, 77);
	times<<<lines, threads>>>(v, m[last % count], va, n);
	times<<<lines, threads>>>(va, m[(last + 1) % count], vab, n);
	times<<<lines, threads>>>(v, m[(last + 2) % count], vc, n);
	LAUNCHED();
	std::vector<int> want(n), got(n);
	CUDA(cudaMemcpy(want.data(), vab, n * sizeof(int), cudaMemcpyDeviceToHost));
	CUDA(cudaMemcpy(got.data(), vc, n * sizeof(int), cudaMemcpyDeviceToHost));
	if (want != got) {
		fprintf(stderr, "mm: the last product is wrong\n");
		return 4;
	}
	unsigned long long sum = 0;
	CUDA(cudaMemset(vectors, 0, sizeof sum));
	for (int i = 0; i < count; i++)
		add_up<<<1024, 256>>>(m[i], entries, (uint64_t)i << 40, reinterpret_cast<unsigned long long *>(vectors));
	LAUNCHED();
	CUDA(cudaMemcpy(&sum, vectors, sizeof sum, cudaMemcpyDeviceToHost));
	for (int *matrix : m)
		CUDA(cudaFree(matrix));
	CUDA(cudaFree(vectors));
	fprintf(stderr, "products %.3f s, host work %.3f s, waited %.3f s\n", device, host, waited);
	printf("checksum %016llx\n", sum);
	return 0;
}
