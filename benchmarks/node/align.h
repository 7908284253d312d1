/* align.h: alignment of two sequences of n letters (Needleman and Wunsch): a matrix of (n + 1) x (n + 1) scores, whose letters are from 1 to n. */
#ifndef ALIGN_H
#define ALIGN_H

#include <cuda_runtime.h>

#include <vector>

enum { TILE = 16, GAP = -2 };

__host__ __device__ inline int score(int corner, int up, int left, bool same)
{
	const int match = corner + (same ? 5 : -3), gap = (up > left ? up : left) + GAP;
	return match > gap ? match : gap;
}

/* align_tile computes a tile of TILE x TILE scores, once the tiles above and left of it are there. same(row, column) is whether the letters are.
 * All threads of a block call it, at least TILE. */
template <class F> __device__ inline void align_tile(int *scores, size_t n, size_t down, size_t right, F same)
{
	const size_t wide = n + 1;

	for (unsigned step = 0; step < 2 * TILE - 1; step++) {
		const size_t row = down * TILE + threadIdx.x + 1, column = right * TILE + (step - threadIdx.x) + 1, at = row * wide + column;
		if (threadIdx.x < TILE && threadIdx.x <= step && step - threadIdx.x < TILE && row <= n && column <= n)
			scores[at] = score(scores[at - wide - 1], scores[at - wide], scores[at - 1], same(row, column));
		__syncthreads();
	}
}

/* aligned is the whole matrix, computed by the host. */
template <class F> std::vector<int> aligned(size_t n, F same)
{
	const size_t wide = n + 1;
	std::vector<int> scores(wide * wide);

	for (size_t i = 0; i <= n; i++)
		scores[i] = scores[i * wide] = GAP * (int)i;
	for (size_t row = 1; row <= n; row++)
		for (size_t column = 1, at = row * wide + 1; column <= n; column++, at++)
			scores[at] = score(scores[at - wide - 1], scores[at - wide], scores[at - 1], same(row, column));
	return scores;
}

#endif
