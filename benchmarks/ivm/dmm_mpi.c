/* dmm_mpi.c: dmm.c with MPI. Each rank has the same number of tiles, which go down a column of tiles and then down the next. */
#include "dmm.h"
#include "twin.h"

int main(int argc, char **argv)
{
	struct dmm d = DMM_DEFAULT;
	struct twin t = TWIN_DEFAULT;
	const struct option_of_program options[] = {DMM_OPTIONS(d), TWIN_OPTIONS(t), {0}};
	int status = 0;

	read_options(argc, argv, "The product of two square matrices, with MPI.", options);
	if (d.rows % d.tiles != 0) {
		fprintf(stderr, "dmm_mpi: --rows %ld is not a multiple of --tiles %ld\n", d.rows, d.tiles);
		return USAGE;
	}
	twin_start(&t);
	const long s = side(&d), elements = d.rows * d.rows, begin = twin_begin(&t, d.tiles * d.tiles, t.rank), end = twin_begin(&t, d.tiles * d.tiles, t.rank + 1);
	float *rows = twin_memory(elements, sizeof *rows), *columns = twin_memory(elements, sizeof *columns), *product = twin_memory(elements, sizeof *product);

	if (t.rank == 0)
		initial(&d, rows, columns);
	twin_parts(&t, d.tiles * d.tiles, s * s);
	const double start = twin_clock();
	MPI_Bcast(rows, (int)elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
	MPI_Bcast(columns, (int)elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
	for (long i = twin_times(&t); i > 0; i--)
		for (long tile = begin; tile < end; tile++)
			multiply(rows + row_of(&d, tile) * d.rows, columns + column_of(&d, tile) * d.rows, product + tile * s * s, s, d.rows);
	twin_gather(&t, product, MPI_FLOAT);
	const double seconds = twin_clock() - start;
	if (t.rank == 0) {
		printf("checksum %.12g\n", checksum(&d, product));
		status = report("dmm_mpi", seconds, !d.verify || right(&d, product));
	}
	free(rows);
	free(columns);
	free(product);
	return twin_end(status);
}
