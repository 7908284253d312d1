/* dmm.c: the product of two square matrices. A portion is one of M x M tiles of the result. It maps only the rows of one matrix and the
 * columns of the other that it needs. */
#include "ds_lb.h"

static long tiles = 4, rows = 240, verify;

/* The first matrix is in rows, the second in columns, and the product in tiles, so that what a tile needs is contiguous. */
static float first(long row, long column) { return (float)((row * 7 + column * 3) % 11 - 5); }
static float second(long row, long column) { return (float)((row * 5 + column * 2) % 13 - 6); }

/* multiply computes a tile of so many rows and columns. */
static void multiply(const float *a, const float *b, float *tile, long side)
{
	for (long i = 0; i < side; i++)
		for (long j = 0; j < side; j++) {
			float sum = 0;
			for (long k = 0; k < rows; k++)
				sum += a[i * rows + k] * b[j * rows + k];
			tile[i * side + j] = sum;
		}
}

static void *matrix(const char *name)
{
	void *at;

	must("malloc", ivm_malloc(name, (size_t)(rows * rows) * sizeof(float), &at));
	return at;
}

static bool right(const float *product)
{
	const long side = rows / tiles;

	for (long i = 0; i < rows; i++)
		for (long j = 0; j < rows; j++) {
			float sum = 0;
			for (long k = 0; k < rows; k++)
				sum += first(i, k) * second(k, j);
			if (product[(i / side * tiles + j / side) * side * side + i % side * side + j % side] != sum)
				return false;
		}
	return true;
}

static int root(struct ds_lb *b)
{
	float *a = matrix("first"), *columns = matrix("second"), *product = matrix("product");
	double sum = 0;

	for (long i = 0; i < rows; i++)
		for (long j = 0; j < rows; j++) {
			a[i * rows + j] = first(i, j);
			columns[i * rows + j] = second(j, i);
		}
	ds_lb_round(b, 0);
	for (long i = 0; i < rows * rows; i++)
		sum += product[i];
	printf("checksum %.12g\n", sum);
	ds_lb_report(b);
	if (verify && !right(product)) {
		fprintf(stderr, "dmm: the result is not that of the sequential program\n");
		return WRONG;
	}
	return 0;
}

/* part maps so many floats from an index on. */
static float *part(const char *name, long from, long count)
{
	void *at;

	must("map_subset", ivm_map_subset(name, (size_t)from * sizeof(float), (size_t)count * sizeof(float), &at));
	return at;
}

static void portion(struct ds_lb *b)
{
	const long side = rows / tiles, number = ds_lb_portion(b);
	const float *a = part("first", number / tiles * side * rows, side * rows);
	const float *columns = part("second", number % tiles * side * rows, side * rows);
	float *tile = part("product", number * side * side, side * side);

	for (long i = ds_lb_times(b); i > 0; i--)
		multiply(a, columns, tile, side);
	ds_lb_next(b);
	must("sync_put", ivm_sync_put(tile, (size_t)(side * side) * sizeof *tile));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {{"--rows", &rows, 1, 30000, "rows of a matrix: a multiple of M"}, {"--tiles", &tiles, 1, 300, "M: the product has M x M portions"},
						    DS_LB_OPTIONS(b), {"--verify", &verify, 0, 0, "compare with the sequential program"}, {0}};

	read_options(argc, argv, "The product of two square matrices, with DS-LB and mapped parts of objects.", options);
	if (rows % tiles != 0) {
		fprintf(stderr, "dmm: --rows %ld is not a multiple of --tiles %ld\n", rows, tiles);
		return USAGE;
	}
	b.portions = tiles * tiles;
	return ds_lb_run(&b, root, portion);
}
