/* ds_lb.h: the balancer DS-LB (section 5.4.1 of the dissertation). The work of a round is in portions. A PE does one, and starts the next
 * PE on its device if portions are left. So faster devices do more. PE 1 of the first round does portion 0, and so on: ids are given
 * once, so portions are. */
#ifndef DS_LB_H
#define DS_LB_H

#include <stdint.h>

#include "measure.h"
#include "processor.h"
#include "program.h"

struct ds_lb {
	long portions, devices; /* the devices are of the type and have numbers from 0. The root is on IVM_CPU 0. */
	enum ivm_dev_type type;
	long slow;              /* PEs of the last device do their work so many times */
	long omit;              /* a portion whose work is left out, so that --verify has something to find. -1: none */
	long bind;              /* a device is one processor */
	ivm_pe id;
	ivm_dev own;
	int32_t *by; /* each portion's device, in the last round */

	/* writes to memory of the device. Devices that are GPUs need another function than memcpy. */
	void (*copy)(void *to, const void *from, size_t bytes);
};

static inline void copy_of_processor(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

#define DS_LB_DEFAULT (struct ds_lb){.portions = 16, .devices = 2, .type = IVM_CPU, .slow = 1, .omit = -1, .copy = copy_of_processor}

#define DS_LB_OPTIONS(balance)                                                                   \
	{"--devices", &(balance).devices, 1, 1000, "devices"},                                   \
		{"--slow", &(balance).slow, 1, 1000, "how often the last device does its work"}, \
		{"--omit", &(balance).omit, 0, 100000, "a portion to leave out"}, BIND_OPTION((balance).bind)

#define DS_LB_PORTIONS(balance) {"--portions", &(balance).portions, 1, 100000, "portions of a round"}

static inline ivm_dev ds_lb_device(const struct ds_lb *b, long number) { return device_of(b->type, number); }

/* ds_lb_run does this PE's part. It returns what the root's part returns, and 0 for the others. */
static inline int ds_lb_run(struct ds_lb *b, int (*root)(struct ds_lb *), void (*portion)(struct ds_lb *))
{
	int status = 0;

	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&b->id));
	must("create_dev", ivm_create_dev(NULL, IVM_THIS_DEV, 0, &b->own));
	if (b->id == 0)
		must("malloc", ivm_malloc("ds_lb", (size_t)b->portions * sizeof *b->by, (void **)&b->by));
	else
		must("map", ivm_map("ds_lb", (void **)&b->by, NULL));
	for (long i = 0; b->id > 0 && b->bind && i < b->devices; i++)
		if (ds_lb_device(b, i) == b->own)
			bind_to(i);
	if (b->id == 0)
		status = root(b);
	else
		portion(b);
	must("exit", ivm_exit());
	return status;
}

/* The root's part. */

/* ds_lb_start starts a round, and returns the id of its first PE. Rounds count from 0. */
static inline ivm_pe ds_lb_start(struct ds_lb *b, long round)
{
	must("set_max_pes_id", ivm_set_max_pes_id((ivm_pe)(b->portions * (round + 1))));
	for (long i = 0; i < b->devices; i++)
		must("create_pes", ivm_create_pes(ds_lb_device(b, i), 1, NULL));
	return (ivm_pe)(b->portions * round + 1);
}

static inline void ds_lb_round(struct ds_lb *b, long round)
{
	const ivm_pe first = ds_lb_start(b, round);

	for (ivm_pe pe = first; pe < first + b->portions; pe++)
		must("wait", ivm_wait(pe));
}

/* ds_lb_report prints how many portions each device did in the last round. */
static inline void ds_lb_report(const struct ds_lb *b)
{
	printf("portions by device:");
	for (long i = 0; i < b->devices; i++) {
		const ivm_dev dev = ds_lb_device(b, i);
		long count = 0;
		for (long j = 0; j < b->portions; j++)
			count += b->by[j] == dev;
		printf(" %ld", count);
	}
	printf("\n");
}

/* The part of the others: portion, work, next, put of the results, done. */

static inline long ds_lb_portion(const struct ds_lb *b)
{
	return (b->id - 1) % b->portions;
}

/* ds_lb_times returns how often to do the work. */
static inline long ds_lb_times(const struct ds_lb *b)
{
	if (ds_lb_portion(b) == b->omit)
		return 0;
	return b->own == ds_lb_device(b, b->devices - 1) ? b->slow : 1;
}

static inline void ds_lb_next(const struct ds_lb *b)
{
	must("create_pes", ivm_create_pes(b->own, 1, NULL)); /* none if all portions are given */
}

static inline void ds_lb_done(struct ds_lb *b)
{
	int32_t *by = &b->by[ds_lb_portion(b)];

	b->copy(by, &b->own, sizeof *by);
	must("sync_put", ivm_sync_put(by, sizeof *by));
	must("signal", ivm_signal());
}

#endif
