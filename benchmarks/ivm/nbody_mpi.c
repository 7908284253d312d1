/* nbody_mpi.c: nbody.c with MPI. Each rank has the same number of particles, and gets all after each step. With --gpu they are in memory of
 * the rank's GPU, too, and MPI has what the rank copies from there. */
#include "nbody_gpu.h"
#include "twin.h"

int main(int argc, char **argv)
{
	struct nbody n = NBODY_DEFAULT;
	struct twin t = TWIN_DEFAULT;
	const struct option_of_program options[] = {NBODY_OPTIONS(n), TWIN_OPTIONS(t), {0}};
	const struct nbody_gpu *gpu = NULL;
	int status = 0;

	read_options(argc, argv, "Particles that attract each other, with MPI.", options);
	if (n.gpu)
		gpu = load_nbody_gpu();
	twin_start(&t);
	struct body *bodies = twin_memory(2 * n.particles, sizeof *bodies);
	struct speed *speeds = twin_memory(2 * n.particles, sizeof *speeds);
	const long begin = twin_begin(&t, n.particles, t.rank), end = twin_begin(&t, n.particles, t.rank + 1);

	struct body *at = bodies;
	struct speed *with = speeds;
	if (gpu != NULL) {
		gpu->use(t.rank);
		at = gpu->memory(2 * (size_t)n.particles * sizeof *at);
		with = gpu->memory(2 * (size_t)n.particles * sizeof *with);
	}
	if (t.rank == 0)
		initial(bodies, speeds, n.particles);
	twin_parts(&t, n.particles, sizeof *bodies);
	const double start = twin_clock();
	MPI_Bcast(bodies, (int)(n.particles * (long)sizeof *bodies), MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Bcast(speeds, (int)(n.particles * (long)sizeof *speeds), MPI_BYTE, 0, MPI_COMM_WORLD);
	if (gpu != NULL)
		gpu->copy(with, speeds, (size_t)n.particles * sizeof *with);
	for (long s = 0; s < n.steps; s++) {
		if (gpu != NULL)
			gpu->copy(half(&n, at, s), half(&n, bodies, s), (size_t)n.particles * sizeof *at);
		for (long i = twin_times(&t); i > 0; i--)
			move(&n, gpu != NULL ? gpu->step : step, at, with, s, begin, end);
		if (gpu != NULL)
			gpu->copy(half(&n, bodies, s + 1) + begin, half(&n, at, s + 1) + begin, (size_t)(end - begin) * sizeof *at);
		MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, half(&n, bodies, s + 1), t.counts, t.starts, MPI_BYTE, MPI_COMM_WORLD);
	}
	const double seconds = twin_clock() - start;
	if (t.rank == 0) {
		printf("checksum %.12g\n", checksum(&n, bodies));
		status = report("nbody_mpi", seconds, !n.verify || right(&n, bodies));
	}
	free(bodies);
	free(speeds);
	return twin_end(status);
}
