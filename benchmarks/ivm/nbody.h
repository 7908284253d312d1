/* nbody.h: particles that attract each other: the work of nbody.c, nbody_mpi.c and nbody.cu. */
#ifndef NBODY_H
#define NBODY_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct nbody {
	long particles, steps, verify, gpu;
};

#define NBODY_DEFAULT {.particles = 1000, .steps = 4}

#define NBODY_OPTIONS(n)                                                         \
	{"--particles", &(n).particles, 1, 10000000, "particles"},               \
		{"--steps", &(n).steps, 1, 1000, "steps"},                       \
		{"--verify", &(n).verify, 0, 0, "compare with the sequential program"},  \
		{"--gpu", &(n).gpu, 0, 0, "device D, or rank D, is GPU D"}

#ifdef __CUDACC__
#define ALSO_ON_GPU __host__ __device__
#else
#define ALSO_ON_GPU
#endif

struct body {
	double x[3], mass;
};

struct speed {
	double v[3];
};

/* initial places each particle where its number says. */
static inline void initial(struct body *bodies, struct speed *speeds, long particles)
{
	for (long i = 0; i < particles; i++) {
		for (int k = 0; k < 3; k++) {
			bodies[i].x[k] = sin(1.0 + 12.9898 * (double)i + 78.233 * k);
			speeds[i].v[k] = 0.1 * cos(1.0 + 39.425 * (double)i + 11.135 * k);
		}
		bodies[i].mass = 1.0 / (double)particles;
	}
}

/* step_of_one moves particle i. A GPU has the same result to the bit, if its compiler makes no operation of two (-fmad=false). */
ALSO_ON_GPU static inline void step_of_one(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long particles, long i)
{
	const double time = 0.01, softening = 1e-3;
	double a[3] = {0, 0, 0};

	for (long j = 0; j < particles; j++) {
		double d[3], square = softening;
		for (int k = 0; k < 3; k++) {
			d[k] = from[j].x[k] - from[i].x[k];
			square += d[k] * d[k];
		}
		const double pull = from[j].mass / (square * sqrt(square));
		for (int k = 0; k < 3; k++)
			a[k] += pull * d[k];
	}
	to[i].mass = from[i].mass;
	for (int k = 0; k < 3; k++) {
		moved[i].v[k] = speeds[i].v[k] + time * a[k];
		to[i].x[k] = from[i].x[k] + time * moved[i].v[k];
	}
}

/* A step moves particles from begin to before end. All arrays have all particles. */
typedef void step_of_some(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long particles, long begin, long end);

/* step does so on a processor. */
static inline void step(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long particles, long begin, long end)
{
	for (long i = begin; i < end; i++)
		step_of_one(from, to, speeds, moved, particles, i);
}

/* The particles are there twice: a step reads one half, which others read too, and writes the other. */
static inline struct body *half(const struct nbody *n, struct body *bodies, long number)
{
	return bodies + number % 2 * n->particles;
}

static inline struct speed *half_of_speeds(const struct nbody *n, struct speed *speeds, long number)
{
	return speeds + number % 2 * n->particles;
}

/* move does a step of the particles from begin to before end, from one half to the other. */
static inline void move(const struct nbody *n, step_of_some *how, struct body *bodies, struct speed *speeds, long number, long begin, long end)
{
	how(half(n, bodies, number), half(n, bodies, number + 1), half_of_speeds(n, speeds, number), half_of_speeds(n, speeds, number + 1), n->particles, begin, end);
}

/* checksum is of the result. */
static inline double checksum(const struct nbody *n, struct body *bodies)
{
	double sum = 0;

	for (long i = 0; i < n->particles; i++)
		sum += half(n, bodies, n->steps)[i].x[0];
	return sum;
}

/* right reports whether a result is that of the sequential program. */
static inline bool right(const struct nbody *n, struct body *bodies)
{
	struct body *own = (struct body *)calloc(2 * (size_t)n->particles, sizeof *own);
	struct speed *speeds = (struct speed *)calloc(2 * (size_t)n->particles, sizeof *speeds);

	if (own == NULL || speeds == NULL)
		abort();
	initial(own, speeds, n->particles);
	for (long s = 0; s < n->steps; s++)
		move(n, step, own, speeds, s, 0, n->particles);
	const bool same = memcmp(half(n, own, n->steps), half(n, bodies, n->steps), (size_t)n->particles * sizeof *own) == 0;
	free(own);
	free(speeds);
	return same;
}

#endif
