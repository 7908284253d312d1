/* himeno_mpi.c: himeno.c with MPI. Each rank has the same number of planes, and exchanges the planes at the ends with its neighbours. */
#include "himeno.h"
#include "twin.h"

/* exchange gets the planes before and after a rank's own. Those of a first and a last rank stay. */
static void exchange(const struct himeno *h, const struct twin *t, float *values, long begin, long end)
{
	const int p = (int)plane(h), down = t->rank > 0 ? t->rank - 1 : MPI_PROC_NULL, up = t->rank < t->ranks - 1 ? t->rank + 1 : MPI_PROC_NULL;

	MPI_Sendrecv(values + begin * p, p, MPI_FLOAT, down, 0, values + end * p, p, MPI_FLOAT, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(values + (end - 1) * p, p, MPI_FLOAT, up, 1, values + (begin - 1) * p, p, MPI_FLOAT, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	struct himeno h = HIMENO_DEFAULT;
	struct twin t = TWIN_DEFAULT;
	const struct option_of_program options[] = {HIMENO_OPTIONS(h), TWIN_OPTIONS(t), {0}};
	int status = 0;

	read_options(argc, argv, "The Himeno benchmark, with MPI.", options);
	twin_start(&t);
	if (t.ranks > h.z - 2) {
		fprintf(stderr, "himeno_mpi: %d ranks are more than --z minus 2, %ld\n", t.ranks, h.z - 2);
		MPI_Abort(MPI_COMM_WORLD, USAGE);
	}
	const long p = plane(&h), begin = 1 + twin_begin(&t, h.z - 2, t.rank), end = 1 + twin_begin(&t, h.z - 2, t.rank + 1);
	float *values[2] = {twin_memory(h.z * p, sizeof(float)), twin_memory(h.z * p, sizeof(float))};
	float *coefficients = twin_memory(h.z * p * COEFFICIENTS, sizeof *coefficients);
	double *sums = twin_memory(h.z, sizeof *sums);

	for (long z = 0; z < h.z && t.rank == 0; z++)
		initial(&h, values[0] + z * p, coefficients + z * COEFFICIENTS * p, z);
	const double start = twin_clock();
	twin_parts(&t, h.z - 2, p * COEFFICIENTS);
	twin_scatter(&t, coefficients + p * COEFFICIENTS, MPI_FLOAT);
	MPI_Bcast(values[0], (int)(h.z * p), MPI_FLOAT, 0, MPI_COMM_WORLD);
	memcpy(values[1], values[0], (size_t)(h.z * p) * sizeof(float));
	twin_parts(&t, h.z - 2, 1);
	for (long n = 0; n < h.iterations; n++) {
		float *from = values[n % 2], *to = values[(n + 1) % 2];
		if (n > 0)
			exchange(&h, &t, from, begin, end);
		for (long i = twin_times(&t); i > 0; i--)
			jacobi_planes(&h, coefficients + begin * COEFFICIENTS * p, from + (begin - 1) * p, from + begin * p, from + end * p, to + begin * p, sums + begin, end - begin);
		twin_gather(&t, sums + 1, MPI_DOUBLE);
	}
	twin_parts(&t, h.z - 2, p);
	twin_gather(&t, values[h.iterations % 2] + p, MPI_FLOAT);
	const double seconds = twin_clock() - start, gosa = sum_of_planes(&h, sums);
	if (t.rank == 0) {
		printf("checksum %.12g\ngosa %.6e\n", checksum(&h, values[h.iterations % 2]), gosa);
		status = report("himeno_mpi", seconds, !h.verify || right(&h, values[h.iterations % 2], gosa));
	}
	free(values[0]);
	free(values[1]);
	free(coefficients);
	free(sums);
	return twin_end(status);
}
