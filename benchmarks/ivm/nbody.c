/* nbody.c: particles that attract each other, with DS-LB. A portion is some of the particles in a step. */
#include "ds_lb.h"
#include "nbody_gpu.h"

static struct nbody n = NBODY_DEFAULT;
static step_of_some *how = step;

static int root(struct ds_lb *b)
{
	struct body *bodies;
	struct speed *speeds;

	must("malloc", ivm_malloc("bodies", 2 * (size_t)n.particles * sizeof *bodies, (void **)&bodies));
	must("malloc", ivm_malloc("speeds", 2 * (size_t)n.particles * sizeof *speeds, (void **)&speeds));
	initial(bodies, speeds, n.particles);
	const double start = now();
	for (long s = 0; s < n.steps; s++)
		ds_lb_round(b, s);
	const double seconds = now() - start;
	printf("checksum %.12g\n", checksum(&n, bodies));
	ds_lb_report(b);
	return report("nbody", seconds, !n.verify || right(&n, bodies));
}

static void portion(struct ds_lb *b)
{
	const long s = (b->id - 1) / b->portions, number = ds_lb_portion(b);
	const long begin = n.particles * number / b->portions, end = n.particles * (number + 1) / b->portions;
	const size_t own = (size_t)(end - begin);
	struct body *bodies;
	struct speed *speeds;

	must("map", ivm_map("bodies", (void **)&bodies, NULL));
	must("map", ivm_map("speeds", (void **)&speeds, NULL));
	must("sync_get", ivm_sync_get(half(&n, bodies, s), (size_t)n.particles * sizeof *bodies));
	must("sync_get", ivm_sync_get(half_of_speeds(&n, speeds, s) + begin, own * sizeof *speeds));
	for (long i = ds_lb_times(b); i > 0; i--)
		move(&n, how, bodies, speeds, s, begin, end);
	ds_lb_next(b);
	must("sync_put", ivm_sync_put(half(&n, bodies, s + 1) + begin, own * sizeof *bodies));
	must("sync_put", ivm_sync_put(half_of_speeds(&n, speeds, s + 1) + begin, own * sizeof *speeds));
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {NBODY_OPTIONS(n), DS_LB_PORTIONS(b), DS_LB_OPTIONS(b), {0}};

	read_options(argc, argv, "Particles that attract each other, with DS-LB.", options);
	if (n.gpu) {
		const struct nbody_gpu *gpu = load_nbody_gpu();
		how = gpu->step;
		b.copy = gpu->copy;
		b.type = IVM_GPU;
	}
	return ds_lb_run(&b, root, portion);
}
