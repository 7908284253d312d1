/* nw.c: the scores of aligned pairs of sequences, with DS-LB. A portion is some of the pairs. */
#include "ds_lb.h"
#include "nw.h"

static struct nw w = NW_DEFAULT;

static int root(struct ds_lb *b)
{
	char *sequences;
	int32_t *scores;

	must("malloc", ivm_malloc("sequences", 2 * (size_t)(w.pairs * w.letters), (void **)&sequences));
	must("malloc", ivm_malloc("scores", (size_t)w.pairs * sizeof *scores, (void **)&scores));
	initial(&w, sequences);
	const double start = now();
	ds_lb_round(b, 0);
	const double seconds = now() - start;
	printf("checksum %ld\n", checksum(&w, scores));
	ds_lb_report(b);
	return report("nw", seconds, !w.verify || right(&w, sequences, scores));
}

static void portion(struct ds_lb *b)
{
	const long number = ds_lb_portion(b), begin = w.pairs * number / b->portions, end = w.pairs * (number + 1) / b->portions;
	char *sequences;
	int32_t *scores;

	must("map", ivm_map("sequences", (void **)&sequences, NULL));
	must("map", ivm_map("scores", (void **)&scores, NULL));
	for (long times = ds_lb_times(b); times > 0; times--)
		score(&w, sequences, scores, begin, end);
	ds_lb_next(b);
	if (begin < end)
		must("sync_put", ivm_sync_put(scores + begin, (size_t)(end - begin) * sizeof *scores));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {NW_OPTIONS(w), DS_LB_PORTIONS(b), DS_LB_OPTIONS(b), {0}};

	read_options(argc, argv, "Scores of aligned pairs of sequences, with DS-LB.", options);
	return ds_lb_run(&b, root, portion);
}
