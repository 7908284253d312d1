/* nw.h: the scores of aligned pairs of sequences (Needleman and Wunsch): the work of nw.c and nw_mpi.c. */
#ifndef NW_H
#define NW_H

#include <stdbool.h>
#include <stdint.h>

enum { MATCH = 1, MISMATCH = -1, GAP = -1, LONGEST = 10000 };

struct nw {
	long pairs, letters, verify;
};

#define NW_DEFAULT {.pairs = 64, .letters = 300}

#define NW_OPTIONS(w)                                                                     \
	{"--pairs", &(w).pairs, 1, 100000, "pairs of sequences"},                         \
		{"--letters", &(w).letters, 1, LONGEST, "letters of a sequence"},         \
		{"--verify", &(w).verify, 0, 0, "compare with the sequential program"}

static inline char letter(long sequence, long i)
{
	uint64_t z = ((uint64_t)sequence << 32 | (uint64_t)i) * 0x9e3779b97f4a7c15;

	z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9;
	return "ACGT"[z >> 62];
}

static inline void initial(const struct nw *w, char *sequences)
{
	for (long i = 0; i < 2 * w->pairs; i++)
		for (long j = 0; j < w->letters; j++)
			sequences[i * w->letters + j] = letter(i, j);
}

static inline int greater(int a, int b) { return a > b ? a : b; }

static inline int32_t align(const char *a, const char *b, long letters)
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

/* score sets the scores of pairs from begin to before end. */
static inline void score(const struct nw *w, const char *sequences, int32_t *scores, long begin, long end)
{
	for (long i = begin; i < end; i++)
		scores[i] = align(sequences + 2 * i * w->letters, sequences + (2 * i + 1) * w->letters, w->letters);
}

static inline long checksum(const struct nw *w, const int32_t *scores)
{
	long sum = 0;

	for (long i = 0; i < w->pairs; i++)
		sum += (i + 1) * scores[i];
	return sum;
}

/* right reports whether a result is that of the sequential program. */
static inline bool right(const struct nw *w, const char *sequences, const int32_t *scores)
{
	for (long i = 0; i < w->pairs; i++)
		if (scores[i] != align(sequences + 2 * i * w->letters, sequences + (2 * i + 1) * w->letters, w->letters))
			return false;
	return true;
}

#endif
