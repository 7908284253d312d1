/* nbody.c: particles that attract each other. A portion is some of the particles in a step. */
#include <math.h>

#include "ds_lb.h"

struct body {
	double x[3], mass;
};

struct speed {
	double v[3];
};

static long particles = 1000, steps = 4, verify;

/* initial places a particle where its number says. */
static void initial(long i, struct body *body, struct speed *speed)
{
	for (int k = 0; k < 3; k++) {
		body->x[k] = sin(1.0 + 12.9898 * (double)i + 78.233 * k);
		speed->v[k] = 0.1 * cos(1.0 + 39.425 * (double)i + 11.135 * k);
	}
	body->mass = 1.0 / (double)particles;
}

/* step moves particles from begin to before end. */
static void step(const struct body *from, struct body *to, const struct speed *speeds, struct speed *moved, long begin, long end)
{
	const double time = 0.01, softening = 1e-3;

	for (long i = begin; i < end; i++) {
		double a[3] = {0};
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
}

/* The particles are there twice: a step reads one half, which others read too, and writes the other. */
static struct body *half(struct body *bodies, long number)
{
	return bodies + number % 2 * particles;
}

static struct speed *half_of_speeds(struct speed *speeds, long number)
{
	return speeds + number % 2 * particles;
}

static void sequential(struct body *bodies, struct speed *speeds)
{
	for (long i = 0; i < particles; i++)
		initial(i, &bodies[i], &speeds[i]);
	for (long s = 0; s < steps; s++)
		step(half(bodies, s), half(bodies, s + 1), half_of_speeds(speeds, s), half_of_speeds(speeds, s + 1), 0, particles);
}

static bool right(struct body *bodies)
{
	struct body *own = calloc(2 * (size_t)particles, sizeof *own);
	struct speed *speeds = calloc(2 * (size_t)particles, sizeof *speeds);

	if (own == NULL || speeds == NULL)
		abort();
	sequential(own, speeds);
	const bool same = memcmp(half(own, steps), half(bodies, steps), (size_t)particles * sizeof *own) == 0;
	free(own);
	free(speeds);
	return same;
}

static int root(struct ds_lb *b)
{
	struct body *bodies;
	struct speed *speeds;
	double sum = 0;

	must("malloc", ivm_malloc("bodies", 2 * (size_t)particles * sizeof *bodies, (void **)&bodies));
	must("malloc", ivm_malloc("speeds", 2 * (size_t)particles * sizeof *speeds, (void **)&speeds));
	for (long i = 0; i < particles; i++)
		initial(i, &bodies[i], &speeds[i]);
	for (long s = 0; s < steps; s++)
		ds_lb_round(b, s);
	for (long i = 0; i < particles; i++)
		sum += half(bodies, steps)[i].x[0];
	printf("checksum %.12g\n", sum);
	ds_lb_report(b);
	if (verify && !right(bodies)) {
		fprintf(stderr, "nbody: the result is not that of the sequential program\n");
		return WRONG;
	}
	return 0;
}

static void portion(struct ds_lb *b)
{
	const long s = (b->id - 1) / b->portions, number = ds_lb_portion(b);
	const long begin = particles * number / b->portions, end = particles * (number + 1) / b->portions;
	const size_t own = (size_t)(end - begin);
	struct body *bodies;
	struct speed *speeds;

	must("map", ivm_map("bodies", (void **)&bodies, NULL));
	must("map", ivm_map("speeds", (void **)&speeds, NULL));
	must("sync_get", ivm_sync_get(half(bodies, s), (size_t)particles * sizeof *bodies));
	must("sync_get", ivm_sync_get(half_of_speeds(speeds, s) + begin, own * sizeof *speeds));
	for (long i = ds_lb_times(b); i > 0; i--)
		step(half(bodies, s), half(bodies, s + 1), half_of_speeds(speeds, s), half_of_speeds(speeds, s + 1), begin, end);
	ds_lb_next(b);
	must("sync_put", ivm_sync_put(half(bodies, s + 1) + begin, own * sizeof *bodies));
	must("sync_put", ivm_sync_put(half_of_speeds(speeds, s + 1) + begin, own * sizeof *speeds));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {{"--particles", &particles, 1, 10000000, "particles"}, {"--steps", &steps, 1, 1000, "steps"},
						    DS_LB_PORTIONS(b), DS_LB_OPTIONS(b), {"--verify", &verify, 0, 0, "compare with the sequential program"}, {0}};

	read_options(argc, argv, "Particles that attract each other, with DS-LB.", options);
	return ds_lb_run(&b, root, portion);
}
