/* nw_mpi.c: nw.c with MPI. Each rank has the same number of pairs. */
#include "nw.h"
#include "twin.h"

int main(int argc, char **argv)
{
	struct nw w = NW_DEFAULT;
	struct twin t = TWIN_DEFAULT;
	const struct option_of_program options[] = {NW_OPTIONS(w), TWIN_OPTIONS(t), {0}};
	int status = 0;

	read_options(argc, argv, "Scores of aligned pairs of sequences, with MPI.", options);
	twin_start(&t);
	char *sequences = twin_memory(2 * w.pairs, (size_t)w.letters);
	int32_t *scores = twin_memory(w.pairs, sizeof *scores);

	if (t.rank == 0)
		initial(&w, sequences);
	const double start = twin_clock();
	twin_parts(&t, w.pairs, 2 * w.letters);
	twin_scatter(&t, sequences, MPI_CHAR);
	for (long i = twin_times(&t); i > 0; i--)
		score(&w, sequences, scores, twin_begin(&t, w.pairs, t.rank), twin_begin(&t, w.pairs, t.rank + 1));
	twin_parts(&t, w.pairs, 1);
	twin_gather(&t, scores, MPI_INT32_T);
	const double seconds = twin_clock() - start;
	if (t.rank == 0) {
		printf("checksum %ld\n", checksum(&w, scores));
		status = report("nw_mpi", seconds, !w.verify || right(&w, sequences, scores));
	}
	free(sequences);
	free(scores);
	return twin_end(status);
}
