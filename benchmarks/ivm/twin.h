/* twin.h: what the MPI programs share. The work is divided equally among the ranks, and stays so. */
#ifndef TWIN_H
#define TWIN_H

#include <limits.h>
#include <mpi.h>
#include <stdint.h>

#include "measure.h"
#include "options.h"
#include "processor.h"

struct twin {
	long slow; /* the last rank does its work so many times */
	long omit; /* a rank whose work is left out, so that --verify has something to find. -1: none */
	long bind; /* a rank has one processor */
	int rank, ranks;
	int *counts, *starts; /* of what each rank has, for calls of MPI that gather or scatter */
};

#define TWIN_DEFAULT (struct twin){.slow = 1, .omit = -1}

#define TWIN_OPTIONS(twin)                                                            \
	{"--slow", &(twin).slow, 1, 1000, "how often the last rank does its work"}, \
		{"--omit", &(twin).omit, 0, 100000, "a rank whose work to leave out"}, BIND_OPTION((twin).bind)

static inline void twin_start(struct twin *t)
{
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &t->ranks);
	t->counts = calloc((size_t)t->ranks, sizeof *t->counts);
	t->starts = calloc((size_t)t->ranks, sizeof *t->starts);
	if (t->bind)
		bind_to(t->rank);
	if (t->counts == NULL || t->starts == NULL)
		abort();
}

/* twin_begin is where the part of a rank begins, and that of the rank before ends. */
static inline long twin_begin(const struct twin *t, long count, int rank)
{
	return count * rank / t->ranks;
}

/* twin_parts sets counts and starts to the parts of so many things, each of some elements. */
static inline void twin_parts(struct twin *t, long count, long elements)
{
	if (count * elements > INT_MAX) {
		fprintf(stderr, "%ld elements are more than MPI can count\n", count * elements);
		MPI_Abort(MPI_COMM_WORLD, USAGE);
	}
	for (int i = 0; i < t->ranks; i++) {
		t->starts[i] = (int)(twin_begin(t, count, i) * elements);
		t->counts[i] = (int)(twin_begin(t, count, i + 1) * elements) - t->starts[i];
	}
}

/* twin_scatter gives each rank its part of what rank 0 has, and twin_gather gives rank 0 the parts. A part is at the same place in each rank. */
static inline void twin_scatter(const struct twin *t, void *at, MPI_Datatype type)
{
	MPI_Aint least, bytes;

	MPI_Type_get_extent(type, &least, &bytes);
	void *own = t->rank == 0 ? MPI_IN_PLACE : (char *)at + t->starts[t->rank] * bytes;
	MPI_Scatterv(at, t->counts, t->starts, type, own, t->counts[t->rank], type, 0, MPI_COMM_WORLD);
}

static inline void twin_gather(const struct twin *t, void *at, MPI_Datatype type)
{
	MPI_Aint least, bytes;

	MPI_Type_get_extent(type, &least, &bytes);
	const void *own = t->rank == 0 ? MPI_IN_PLACE : (char *)at + t->starts[t->rank] * bytes;
	MPI_Gatherv(own, t->counts[t->rank], type, at, t->counts, t->starts, type, 0, MPI_COMM_WORLD);
}

/* twin_times returns how often to do the work. */
static inline long twin_times(const struct twin *t)
{
	if (t->rank == t->omit)
		return 0;
	return t->rank == t->ranks - 1 ? t->slow : 1;
}

static inline void *twin_memory(long count, size_t bytes)
{
	void *at = calloc((size_t)count + 1, bytes); /* a part may be empty */

	if (at == NULL) {
		fprintf(stderr, "there is not so much memory: %ld times %zu bytes\n", count, bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return at;
}

/* twin_clock returns the time when all ranks have come. */
static inline double twin_clock(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return now();
}

/* twin_end ends MPI. Each rank returns the status of rank 0. */
static inline int twin_end(int status)
{
	MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return status;
}

#endif
