/* division.c: how DS-LB divides portions among devices of different speed. A portion takes R^D of virtual time on device D. PEs come and go
 * as in any program with DS-LB, but a PE ends when the root says so, which always chooses the one that is first in virtual time. So the
 * division depends on no clock. */
#include "ds_lb.h"

static long ratio = 2;

static volatile int32_t *go; /* for each portion, whether its PE may end */

static int root(struct ds_lb *b)
{
	double *due = calloc((size_t)b->devices, sizeof *due), *cost = calloc((size_t)b->devices, sizeof *cost), speed = 0;
	ivm_pe *running = calloc((size_t)b->devices, sizeof *running); /* by device. 0: none is left for it */

	if (due == NULL || cost == NULL || running == NULL)
		abort();
	must("malloc", ivm_malloc("go", (size_t)b->portions * sizeof *go, (void **)&go));
	ivm_pe last = (ivm_pe)b->devices;
	must("set_max_pes_id", ivm_set_max_pes_id((ivm_pe)b->portions));
	for (long i = 0; i < b->devices; i++) {
		cost[i] = i == 0 ? 1 : cost[i - 1] * (double)ratio;
		speed += 1 / cost[i];
		due[i] = cost[i];
		must("create_pes", ivm_create_pes(device(i), 1, &running[i]));
		must("wait", ivm_wait(running[i])); /* it works */
	}
	for (long left = b->portions; left > 0; left--) {
		long next = -1;
		for (long i = 0; i < b->devices; i++)
			if (running[i] > 0 && (next < 0 || due[i] < due[next]))
				next = i;
		go[running[next] - 1] = 1;
		must("wait", ivm_wait(running[next])); /* it has ended, and the next PE of its device is started */
		running[next] = last < b->portions ? ++last : 0;
		due[next] += cost[next];
		if (running[next] > 0)
			must("wait", ivm_wait(running[next]));
	}
	ds_lb_report(b);
	printf("ideal division:");
	for (long i = 0; i < b->devices; i++)
		printf(" %.1f", (double)b->portions / cost[i] / speed);
	printf("\n");
	free(due);
	free(cost);
	free(running);
	return 0;
}

static void portion(struct ds_lb *b)
{
	must("map", ivm_map("go", (void **)&go, NULL));
	volatile int32_t *own = &go[ds_lb_portion(b)];
	must("signal", ivm_signal());
	for (; *own == 0; usleep(100))
		must("sync_get", ivm_sync_get((void *)own, sizeof *own));
	ds_lb_next(b);
	ds_lb_done(b);
}

int main(int argc, char **argv)
{
	struct ds_lb b = DS_LB_DEFAULT;
	const struct option_of_program options[] = {{"--portions", &b.portions, 1, 100000, "portions, at least as many as devices"}, {"--devices", &b.devices, 1, 30, "devices"},
						    {"--ratio", &ratio, 1, 1000, "R: a portion takes R^D of virtual time on device D"}, {0}};

	b.portions = 140;
	b.devices = 3;
	read_options(argc, argv, "How DS-LB divides portions among devices of different speed.", options);
	if (b.portions < b.devices) {
		fprintf(stderr, "division: --portions %ld are fewer than --devices %ld\n", b.portions, b.devices);
		return USAGE;
	}
	return ds_lb_run(&b, root, portion);
}
