/* multiply.h: the product of two matrices of n x n integers, by tiles. */
#ifndef MULTIPLY_H
#define MULTIPLY_H

#include <cuda_runtime.h>

enum { side = 16 }; /* a block has side x side threads */

__device__ inline int entry(const int *m, int n, int row, int column) { return row < n && column < n ? m[(size_t)row * n + column] : 0; }

/* multiply_tile computes the tile of c that is so many tiles down and right. Each sum is reduced before it is stored. */
template <int tile, class F> __device__ inline void multiply_tile(const int *a, const int *b, int *c, int n, int down, int right, F reduced)
{
	constexpr int depth = 8, part = tile / side; /* a thread computes part x part entries */
	__shared__ int of_a[depth][tile], of_b[depth][tile];
	const int x = threadIdx.x % side, y = threadIdx.x / side, row = down * tile, column = right * tile;
	int sum[part][part] = {};

	for (int from = 0; from < n; from += depth) {
		for (int i = threadIdx.x; i < tile * depth; i += side * side) {
			of_a[i % depth][i / depth] = entry(a, n, row + i / depth, from + i % depth);
			of_b[i / tile][i % tile] = entry(b, n, from + i / tile, column + i % tile);
		}
		__syncthreads();
		for (int k = 0; k < depth; k++) {
			int left[part], right_of[part];
			for (int i = 0; i < part; i++) {
				left[i] = of_a[k][y + i * side];
				right_of[i] = of_b[k][x + i * side];
			}
			for (int i = 0; i < part; i++)
				for (int j = 0; j < part; j++)
					sum[i][j] += left[i] * right_of[j];
		}
		__syncthreads();
	}
	for (int i = 0; i < part; i++)
		for (int j = 0; j < part; j++)
			if (row + y + i * side < n && column + x + j * side < n)
				c[(size_t)(row + y + i * side) * n + column + x + j * side] = reduced(sum[i][j]);
}

#endif
