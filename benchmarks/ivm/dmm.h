/* dmm.h: the product of two square matrices: the work of dmm.c and dmm_mpi.c. */
#ifndef DMM_H
#define DMM_H

#include <stdbool.h>

struct dmm {
	long rows, tiles, verify;
};

#define DMM_DEFAULT {.rows = 240, .tiles = 4}

#define DMM_OPTIONS(d)                                                                              \
	{"--rows", &(d).rows, 1, 30000, "rows of a matrix: a multiple of M"},                       \
		{"--tiles", &(d).tiles, 1, 300, "M: the product has M x M tiles"},                  \
		{"--verify", &(d).verify, 0, 0, "compare with the sequential program"}

/* The first matrix is in rows, the second in columns, and the product in tiles, so that what a tile needs is contiguous. */
static inline float first(long row, long column) { return (float)((row * 7 + column * 3) % 11 - 5); }
static inline float second(long row, long column) { return (float)((row * 5 + column * 2) % 13 - 6); }

static inline void initial(const struct dmm *d, float *rows, float *columns)
{
	for (long i = 0; i < d->rows; i++)
		for (long j = 0; j < d->rows; j++) {
			rows[i * d->rows + j] = first(i, j);
			columns[i * d->rows + j] = second(j, i);
		}
}

static inline long side(const struct dmm *d) { return d->rows / d->tiles; }

/* Tiles have numbers down a column of tiles, then down the next. row_of and column_of are the first row and column of a tile. */
static inline long row_of(const struct dmm *d, long tile) { return tile % d->tiles * side(d); }
static inline long column_of(const struct dmm *d, long tile) { return tile / d->tiles * side(d); }

/* multiply computes a tile of so many rows and columns of the matrices, which have so many elements each. */
static inline void multiply(const float *rows, const float *columns, float *tile, long side, long elements)
{
	for (long i = 0; i < side; i++)
		for (long j = 0; j < side; j++) {
			float sum = 0;
			for (long k = 0; k < elements; k++)
				sum += rows[i * elements + k] * columns[j * elements + k];
			tile[i * side + j] = sum;
		}
}

static inline double checksum(const struct dmm *d, const float *product)
{
	double sum = 0;

	for (long i = 0; i < d->rows * d->rows; i++)
		sum += product[i];
	return sum;
}

/* right reports whether a result is that of the sequential program. */
static inline bool right(const struct dmm *d, const float *product)
{
	const long rows = d->rows, s = side(d);

	for (long i = 0; i < rows; i++)
		for (long j = 0; j < rows; j++) {
			float sum = 0;
			for (long k = 0; k < rows; k++)
				sum += first(i, k) * second(k, j);
			if (product[(j / s * d->tiles + i / s) * s * s + i % s * s + j % s] != sum)
				return false;
		}
	return true;
}

#endif
