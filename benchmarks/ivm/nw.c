/* nw.c: the scores of aligned pairs of sequences (Needleman and Wunsch). A portion is some of the pairs. */
#include "ds_lb.h"

enum { MATCH = 1, MISMATCH = -1, GAP = -1, LONGEST = 10000 };

static long pairs = 64, letters = 300, verify;

static char letter(long sequence, long i)
{
	uint64_t z = ((uint64_t)sequence << 32 | (uint64_t)i) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9;
	return "ACGT"[z >> 62];
}

static int greater(int a, int b) { return a > b ? a : b; }

static int32_t align(const char *a, const char *b)
{
	static int row[LONGEST + 1];

	for (long j = 0; j <= letters; j++)
		row[j] = GAP * (int)j;
	for (long i = 1; i <= letters; i++) {
		int diagonal = row[0];
		row[0] = GAP * (int)i;
		for (long j = 1; j <= letters; j++) {
			const int best = greater(diagonal + (a[i - 1] == b[j - 1] ? MATCH : MISMATCH), greater(row[j], row[j - 1]) + GAP);
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[letters];
}

static int32_t score(const char *sequences, long pair)
{
	return align(sequences + 2 * pair * letters, sequences + (2 * pair + 1) * letters);
}

static int root(struct ds_lb *b)
{
	char *sequences;
	int32_t *scores;
	long sum = 0;
	bool right = true;

	must("malloc", ivm_malloc("sequences", 2 * (size_t)(pairs * letters), (void **)&sequences));
	must("malloc", ivm_malloc("scores", (size_t)pairs * sizeof *scores, (void **)&scores));
	for (long i = 0; i < 2 * pairs; i++)
		for (long j = 0; j < letters; j++)
			sequences[i * letters + j] = letter(i, j);
	ds_lb_round(b, 0);
	for (long i = 0; i < pairs; i++) {
		sum += (i + 1) * scores[i];
		right = right && (!verify || scores[i] == score(sequences, i));
	}
	printf("checksum %ld\n", sum);
	ds_lb_report(b);
	if (!right)
		fprintf(stderr, "nw: the result is not that of the sequential program\n");
	return right ? 0 : WRONG;
}

static void portion(struct ds_lb *b)
{
	const long number = ds_lb_portion(b), begin = pairs * number / b->portions, end = pairs * (number + 1) / b->portions;
	char *sequences;
	int32_t *scores;

	must("map", ivm_map("sequences", (void **)&sequences, NULL));
	must("map", ivm_map("scores", (void **)&scores, NULL));
	for (long times = ds_lb_times(b); times > 0; times--)
		for (long i = begin; i < end; i++)
			scores[i] = score(sequences, i);
	ds_lb_next(b);
	if (begin < end)
		must("sync_put", ivm_sync_put(scores + begin, (size_t)(end - begin) * sizeof *scores));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {{"--pairs", &pairs, 1, 100000, "pairs of sequences"}, {"--letters", &letters, 1, LONGEST, "letters of a sequence"},
						    DS_LB_PORTIONS(b), DS_LB_OPTIONS(b), {"--verify", &verify, 0, 0, "compare with the sequential program"}, {0}};

	read_options(argc, argv, "Scores of aligned pairs of sequences, with DS-LB.", options);
	return ds_lb_run(&b, root, portion);
}
