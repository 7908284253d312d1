/* himeno.h: iterations of Jacobi's method for a pressure on a grid: the work of himeno.c and himeno_mpi.c. It is the Himeno benchmark
 * (R. Himeno, RIKEN, http://accc.riken.jp/en/supercom/himenobmt/), written anew from its definition: its stencil of 19 points, its arrays
 * and their first values. A plane is X x Y values, and the first and the last plane are never computed. */
#ifndef HIMENO_H
#define HIMENO_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct himeno {
	long x, y, z, iterations, verify;
};

#define HIMENO_DEFAULT {.x = 64, .y = 64, .z = 66, .iterations = 20}

#define HIMENO_OPTIONS(h)                                                               \
	{"--x", &(h).x, 3, 10000, "values of a plane in one direction"},                \
		{"--y", &(h).y, 3, 10000, "values of a plane in the other"},            \
		{"--z", &(h).z, 3, 100000, "planes"},                                   \
		{"--iterations", &(h).iterations, 1, 100000, "iterations"},             \
		{"--verify", &(h).verify, 0, 0, "compare with the sequential program"}

/* A plane has so many coefficients of each value: a[4], b[3], c[3], wrk1 and bnd of the benchmark. */
enum { A = 0, B = 4, C = 7, WRK1 = 10, BND = 11, COEFFICIENTS = 12 };

static inline long plane(const struct himeno *h) { return h->x * h->y; }

/* initial sets a plane and its coefficients to the first values of the benchmark. */
static inline void initial(const struct himeno *h, float *values, float *coefficients, long z)
{
	static const float first[COEFFICIENTS] = {[A] = 1, 1, 1, 1.0F / 6, [B] = 0, 0, 0, [C] = 1, 1, 1, [WRK1] = 0, [BND] = 1};

	for (long i = 0; i < plane(h); i++) {
		values[i] = (float)(z * z) / (float)((h->z - 1) * (h->z - 1));
		for (int k = 0; k < COEFFICIENTS; k++)
			coefficients[k * plane(h) + i] = first[k];
	}
}

/* jacobi computes the inner values of a plane from it and from the planes before and after it. It returns the sum of squares of the
 * residual (gosa), whose order of summation depends on the plane only. */
static inline double jacobi(const struct himeno *h, const float *coefficients, const float *before, const float *at, const float *after, float *to)
{
	const long j = h->x; /* from one row to the next */
	const float *c[COEFFICIENTS];
	double sum = 0;

	for (int k = 0; k < COEFFICIENTS; k++)
		c[k] = coefficients + k * plane(h);
	for (long y = 1; y < h->y - 1; y++)
		for (long i = y * j + 1; i < (y + 1) * j - 1; i++) {
			const float s0 = c[A][i] * after[i] + c[A + 1][i] * at[i + j] + c[A + 2][i] * at[i + 1] +
					 c[B][i] * (after[i + j] - after[i - j] - before[i + j] + before[i - j]) +
					 c[B + 1][i] * (at[i + j + 1] - at[i - j + 1] - at[i + j - 1] + at[i - j - 1]) +
					 c[B + 2][i] * (after[i + 1] - before[i + 1] - after[i - 1] + before[i - 1]) +
					 c[C][i] * before[i] + c[C + 1][i] * at[i - j] + c[C + 2][i] * at[i - 1] + c[WRK1][i];
			const float ss = (s0 * c[A + 3][i] - at[i]) * c[BND][i];
			sum += (double)(ss * ss);
			to[i] = at[i] + 0.8F * ss;
		}
	return sum;
}

/* jacobi_planes computes so many planes, which lie one after the other, and the sum of each. Before and after are the planes beside them. */
static inline void jacobi_planes(const struct himeno *h, const float *coefficients, const float *before, const float *from, const float *after, float *to, double *sums,
				 long planes)
{
	const long p = plane(h);

	for (long i = 0; i < planes; i++)
		sums[i] = jacobi(h, coefficients + i * COEFFICIENTS * p, i == 0 ? before : from + (i - 1) * p, from + i * p,
				 i == planes - 1 ? after : from + (i + 1) * p, to + i * p);
}

static inline double sum_of_planes(const struct himeno *h, const double *sums)
{
	double sum = 0;

	for (long z = 1; z < h->z - 1; z++)
		sum += sums[z];
	return sum;
}

static inline double checksum(const struct himeno *h, const float *values)
{
	double sum = 0;

	for (long i = 0; i < h->z * plane(h); i++)
		sum += (double)values[i];
	return sum;
}

/* right reports whether a result is that of the sequential program, to the bit. */
static inline bool right(const struct himeno *h, const float *result, double gosa)
{
	const long p = plane(h), all = h->z * p;
	float *own[2] = {(float *)calloc((size_t)all, sizeof *own[0]), (float *)calloc((size_t)all, sizeof *own[0])};
	float *coefficients = (float *)calloc((size_t)(all * COEFFICIENTS), sizeof *coefficients);
	double *sums = (double *)calloc((size_t)h->z, sizeof *sums);

	if (own[0] == NULL || own[1] == NULL || coefficients == NULL || sums == NULL)
		abort();
	for (long z = 0; z < h->z; z++)
		initial(h, own[0] + z * p, coefficients + z * COEFFICIENTS * p, z);
	memcpy(own[1], own[0], (size_t)all * sizeof *own[0]);
	for (long n = 0; n < h->iterations; n++) {
		const float *from = own[n % 2];
		jacobi_planes(h, coefficients + COEFFICIENTS * p, from, from + p, from + all - p, own[(n + 1) % 2] + p, sums + 1, h->z - 2);
	}
	const bool same = memcmp(own[h->iterations % 2], result, (size_t)all * sizeof *result) == 0 && sum_of_planes(h, sums) == gosa;
	free(own[0]);
	free(own[1]);
	free(coefficients);
	free(sums);
	return same;
}

#endif
