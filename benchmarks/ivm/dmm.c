/* dmm.c: the product of two square matrices, with DS-LB. A portion is one of M x M tiles of the result. It maps only the rows of one
 * matrix and the columns of the other that it needs. */
#include "dmm.h"
#include "ds_lb.h"

static struct dmm d = DMM_DEFAULT;
static long whole;

static float *matrix(const char *name)
{
	void *at;

	must("malloc", ivm_malloc(name, (size_t)(d.rows * d.rows) * sizeof(float), &at));
	return at;
}

static int root(struct ds_lb *b)
{
	float *rows = matrix("first"), *columns = matrix("second"), *product = matrix("product");

	initial(&d, rows, columns);
	const double start = now();
	ds_lb_round(b, 0);
	const double seconds = now() - start;
	printf("checksum %.12g\n", checksum(&d, product));
	ds_lb_report(b);
	return report("dmm", seconds, !d.verify || right(&d, product));
}

/* part maps so many floats of a matrix from an index on, or the whole matrix. It returns where they are. */
static float *part(const char *name, long from, long count)
{
	void *at;

	if (whole) {
		must("map", ivm_map(name, &at, NULL));
		return (float *)at + from;
	}
	must("map_subset", ivm_map_subset(name, (size_t)from * sizeof(float), (size_t)count * sizeof(float), &at));
	return at;
}

static void portion(struct ds_lb *b)
{
	const long s = side(&d), number = ds_lb_portion(b);
	const float *rows = part("first", row_of(&d, number) * d.rows, s * d.rows);
	const float *columns = part("second", column_of(&d, number) * d.rows, s * d.rows);
	float *tile = part("product", number * s * s, s * s);

	for (long i = ds_lb_times(b); i > 0; i--)
		multiply(rows, columns, tile, s, d.rows);
	ds_lb_next(b);
	must("sync_put", ivm_sync_put(tile, (size_t)(s * s) * sizeof *tile));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {DMM_OPTIONS(d), DS_LB_OPTIONS(b), {"--whole", &whole, 0, 0, "map whole matrices"}, {0}};

	read_options(argc, argv, "The product of two square matrices, with DS-LB and mapped parts of objects.", options);
	if (d.rows % d.tiles != 0) {
		fprintf(stderr, "dmm: --rows %ld is not a multiple of --tiles %ld\n", d.rows, d.tiles);
		return USAGE;
	}
	b.portions = d.tiles * d.tiles;
	return ds_lb_run(&b, root, portion);
}
