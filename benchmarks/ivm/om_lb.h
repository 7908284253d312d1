/* om_lb.h: the balancer OM-LB (section 5.4.1 of the dissertation). PEs work in iterations, and stay until the end. After each iteration
 * they report the times of their work, and the root starts one more PE on each device that is much faster than the slowest one. Then all
 * PEs divide the work anew, each an equal part. So a device with more PEs does more.
 *
 * Listing 5-2(b) starts a PE where time[j] / min(time) is less than the threshold. That is each device but the slow ones, in each iteration and
 * without end. The text means devices that are more than threshold times as fast as the slowest. So it is here, up to a limit of PEs. */
#ifndef OM_LB_H
#define OM_LB_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "processor.h"
#include "program.h"

struct om_lb_shared {
	int32_t iteration, pes; /* PEs 1 to pes divide the work among them */
	int32_t done;           /* no iteration is left */
	int32_t device[];       /* of each PE, by id - 1 */
};

struct om_lb {
	long devices, most; /* the devices are IVM_CPU 0 and so on. The root is on 0, too. There are at most so many PEs. */
	long threshold;     /* in percent */
	long slow;          /* PEs of the last device do their work so many times */
	long omit;          /* what of the work is left out, so that --verify has something to find. -1: nothing */
	long bind;          /* a device is one processor */
	long ratio;         /* what a PE does takes ratio^D of virtual time on device D. 0: the processor's time */
	ivm_pe id;
	struct om_lb_shared *shared; /* the root writes it */
	double *times;               /* by id - 1. PEs write them. An object of its own, because a PE's get of shared would overwrite what others have not put yet */
};

#define OM_LB_DEFAULT (struct om_lb){.devices = 2, .most = 16, .threshold = 200, .slow = 1, .omit = -1}

#define OM_LB_OPTIONS(balance)                                                                                              \
	{"--devices", &(balance).devices, 1, 1000, "devices"}, {"--most", &(balance).most, 1, 1000, "the most PEs"},        \
		{"--threshold", &(balance).threshold, 100, 100000,                                                          \
		 "a device gets one more PE if the slowest needs more than so many percent of its time"},                   \
		{"--slow", &(balance).slow, 1, 1000, "how often the last device does its work"},                            \
		{"--virtual", &(balance).ratio, 1, 1000, "R: time is virtual, and a plane takes R^D of it on device D. 0: real time"},                   \
		BIND_OPTION((balance).bind)

static inline size_t om_lb_bytes(const struct om_lb *b)
{
	return sizeof *b->shared + (size_t)b->most * sizeof *b->shared->device;
}

/* om_lb_device is the number of this PE's device. */
static inline long om_lb_device(const struct om_lb *b)
{
	return b->shared->device[b->id - 1];
}

/* om_lb_run does this PE's part. It returns what the root's part returns, and 0 for the others. */
static inline int om_lb_run(struct om_lb *b, int (*root)(struct om_lb *), void (*work)(struct om_lb *))
{
	int status = 0;

	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&b->id));
	if (b->id == 0) {
		must("malloc", ivm_malloc("om_lb", om_lb_bytes(b), (void **)&b->shared));
		must("malloc", ivm_malloc("times", (size_t)b->most * sizeof *b->times, (void **)&b->times));
		status = root(b);
	} else {
		must("map", ivm_map("om_lb", (void **)&b->shared, NULL));
		must("map", ivm_map("times", (void **)&b->times, NULL));
		must("sync_get", ivm_sync_get(&b->shared->device[b->id - 1], sizeof *b->shared->device)); /* others may read the rest */
		if (b->bind)
			bind_to(om_lb_device(b));
		work(b);
	}
	must("exit", ivm_exit());
	return status;
}

/* The root's part: start, then iterate and balance for each iteration, then finish. */

static inline void om_lb_add(struct om_lb *b, long number)
{
	b->shared->device[b->shared->pes++] = (int32_t)number;
	must("create_pes", ivm_create_pes(device(number), 1, NULL));
}

static inline void om_lb_start(struct om_lb *b)
{
	for (long i = 0; i < b->devices; i++)
		om_lb_add(b, i);
}

/* om_lb_iterate has all PEs do an iteration. Signals go from PE to PE: the root's is that of PE 1, and that of a PE is the next one's. So
 * none is taken by a PE that it is not for. */
static inline void om_lb_iterate(struct om_lb *b)
{
	must("signal", ivm_signal());
	must("wait", ivm_wait(b->shared->pes));
	b->shared->iteration++;
}

/* om_lb_faster reports whether the slowest device needs more than threshold percent of a device's time. */
static inline bool om_lb_faster(const double *times, long devices, long number, long threshold)
{
	double slowest = 0;

	for (long i = 0; i < devices; i++)
		slowest = times[i] > slowest ? times[i] : slowest;
	return slowest > times[number] * (double)threshold / 100;
}

/* om_lb_balance starts PEs by the times of the last iteration. It returns how many. PEs of a device share it, so its time is the sum of theirs. */
static inline int om_lb_balance(struct om_lb *b)
{
	struct om_lb_shared *s = b->shared;
	double *times = calloc((size_t)b->devices, sizeof *times);
	const int32_t before = s->pes;

	if (times == NULL)
		must("malloc", -ENOMEM);
	for (int32_t i = 0; i < s->pes; i++)
		times[s->device[i]] += b->times[i];
	for (long i = 0; i < b->devices && s->pes < b->most; i++)
		if (om_lb_faster(times, b->devices, i, b->threshold)) {
			om_lb_add(b, i);
			printf("after iteration %d: PE %d on device %ld\n", s->iteration, s->pes, i);
		}
	free(times);
	return s->pes - before;
}

/* om_lb_finish ends the other PEs. */
static inline void om_lb_finish(struct om_lb *b)
{
	b->shared->done = 1;
	must("signal", ivm_signal());
}

/* om_lb_begin_of is where the part of a PE of so many units of work begins, and that of the PE before ends. */
static inline long om_lb_begin_of(const struct om_lb *b, ivm_pe pe, long units)
{
	return units * (pe - 1) / b->shared->pes;
}

/* om_lb_report prints how many PEs each device has, and how many units of the work. */
static inline void om_lb_report(const struct om_lb *b, const char *units, long count)
{
	for (int line = 0; line < 2; line++) {
		printf("%s by device:", line == 0 ? "PEs" : units);
		for (long i = 0; i < b->devices; i++) {
			long sum = 0;
			for (ivm_pe pe = 1; pe <= b->shared->pes; pe++)
				if (b->shared->device[pe - 1] == i)
					sum += line == 0 ? 1 : om_lb_begin_of(b, pe + 1, count) - om_lb_begin_of(b, pe, count);
			printf(" %ld", sum);
		}
		printf("\n");
	}
}

/* The part of the others: begin, work, put of the results, end. */

/* om_lb_begin waits for an iteration. It returns false if none is left. */
static inline bool om_lb_begin(struct om_lb *b)
{
	must("wait", ivm_wait(b->id - 1));
	must("sync_get", ivm_sync_get(b->shared, om_lb_bytes(b)));
	if (b->id < b->shared->pes)
		must("signal", ivm_signal());
	return b->shared->done == 0;
}

/* om_lb_times returns how often to do the work. */
static inline long om_lb_times(const struct om_lb *b)
{
	return om_lb_device(b) == b->devices - 1 ? b->slow : 1;
}

/* om_lb_clock returns the processor's time of this PE, in seconds. It does not count other PEs that use the processor in between. */
static inline double om_lb_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* om_lb_end ends an iteration in which the PE has worked on so many units, such as planes, for so many seconds. */
static inline void om_lb_end(struct om_lb *b, double seconds, long units)
{
	double *own = &b->times[b->id - 1];
	double time = (double)units;

	for (long i = om_lb_device(b); i > 0; i--)
		time *= (double)b->ratio;
	*own = b->ratio > 0 ? time : seconds;
	must("sync_put", ivm_sync_put(own, sizeof *own));
	if (b->id > 1)
		must("wait", ivm_wait(b->id - 1));
	must("signal", ivm_signal());
}

#endif
