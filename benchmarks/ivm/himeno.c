/* himeno.c: the Himeno benchmark, with OM-LB. A PE has a range of planes. It keeps them in the mirror of its device while the division
 * stays, and PEs exchange only the planes at the ends of their ranges, through slots of a buffer. */
#include "himeno.h"
#include "measure.h"
#include "om_lb.h"

static struct himeno h = HIMENO_DEFAULT;

/* The planes are there twice: an iteration reads one object and writes the other. */
static const char *const halves[] = {"even", "odd"};

static size_t planes(long count) { return (size_t)(count * plane(&h)) * sizeof(float); }

/* begin_of is the first plane of a PE. The planes before the first PE's and after the last PE's stay as they are. */
static long begin_of(const struct om_lb *b, ivm_pe pe) { return 1 + om_lb_begin_of(b, pe, h.z - 2); }

/* The buffer is there twice, too. Slot 2 * PE has the PE's first plane, and the next slot its last. So a PE writes two slots, and
 * nobody else in the iteration; and it reads the slots beside them, and nobody else does. Slot 1 has the first plane of all, and
 * the slot after the last PE's has the last. */
static float *slot(const struct om_lb *b, float *slots, long iteration, long number)
{
	return slots + (iteration % 2 * (2 * b->most + 3) + number) * plane(&h);
}

static size_t slots_of_all(const struct om_lb *b) { return planes(2 * (2 * b->most + 3)); }

/* fill sets the slots for the next iteration from the master copy, after the division has changed. */
static void fill(const struct om_lb *b, float *const values[2], float *slots)
{
	const long n = b->shared->iteration;
	const ivm_pe pes = b->shared->pes;

	for (long i = n; i < n + 2; i++) {
		memcpy(slot(b, slots, i, 1), values[0], planes(1));
		memcpy(slot(b, slots, i, 2 * pes + 2), values[0] + (h.z - 1) * plane(&h), planes(1));
	}
	for (ivm_pe pe = 1; pe <= pes; pe++) {
		memcpy(slot(b, slots, n, 2 * pe), values[n % 2] + begin_of(b, pe) * plane(&h), planes(1));
		memcpy(slot(b, slots, n, 2 * pe + 1), values[n % 2] + (begin_of(b, pe + 1) - 1) * plane(&h), planes(1));
	}
}

/* The parts of an object that PEs have in their mirrors. */
static struct ivm_part *parts_of(const struct om_lb *b, float *values)
{
	struct ivm_part *parts = calloc((size_t)b->shared->pes, sizeof *parts);

	if (parts == NULL)
		must("malloc", -ENOMEM);
	for (ivm_pe pe = 1; pe <= b->shared->pes; pe++)
		parts[pe - 1] = (struct ivm_part){device(b->shared->device[pe - 1]), values + begin_of(b, pe) * plane(&h), planes(begin_of(b, pe + 1) - begin_of(b, pe))};
	return parts;
}

static int root(struct om_lb *b)
{
	float *values[2], *coefficients, *slots;
	double *sums;

	for (int i = 0; i < 2; i++)
		must("malloc", ivm_malloc(halves[i], planes(h.z), (void **)&values[i]));
	must("malloc", ivm_malloc("coefficients", planes(h.z * COEFFICIENTS), (void **)&coefficients));
	must("malloc", ivm_malloc("slots", slots_of_all(b), (void **)&slots));
	must("malloc", ivm_malloc("sums", (size_t)h.z * sizeof *sums, (void **)&sums));
	for (long z = 0; z < h.z; z++)
		initial(&h, values[0] + z * plane(&h), coefficients + z * COEFFICIENTS * plane(&h), z);
	memcpy(values[1], values[0], planes(h.z));
	const double start = now();
	om_lb_start(b);
	fill(b, values, slots);
	for (long n = 1; n <= h.iterations; n++) {
		om_lb_iterate(b);
		const int pes = b->shared->pes;
		struct ivm_part *parts = parts_of(b, values[n % 2]);
		const bool changes = n < h.iterations && om_lb_balance(b) > 0;
		if (changes || n == h.iterations)
			must("sync_get_group", ivm_sync_get_group(parts, pes));
		if (changes)
			fill(b, values, slots);
		free(parts);
	}
	const double seconds = now() - start, gosa = sum_of_planes(&h, sums);
	om_lb_finish(b);
	printf("checksum %.12g\ngosa %.6e\n", checksum(&h, values[h.iterations % 2]), gosa);
	om_lb_report(b, "planes", h.z - 2);
	return report("himeno", seconds, !h.verify || right(&h, values[h.iterations % 2], gosa));
}

/* What a PE has of the objects: its planes from begin to before end. */
struct range {
	long begin, end;
	float *values[2], *coefficients;
};

/* take replaces a range by that of the division as it is now, with the values that the next iteration reads. */
static void take(const struct om_lb *b, struct range *r)
{
	for (int i = 0; i < 2 && r->end > 0; i++)
		must("unmap", ivm_unmap(r->values[i]));
	if (r->end > 0)
		must("unmap", ivm_unmap(r->coefficients));
	r->begin = begin_of(b, b->id);
	r->end = begin_of(b, b->id + 1);
	for (int i = 0; i < 2; i++)
		must("map_subset", ivm_map_subset(halves[i], planes(r->begin), planes(r->end - r->begin), (void **)&r->values[i]));
	must("map_subset", ivm_map_subset("coefficients", planes(r->begin * COEFFICIENTS), planes((r->end - r->begin) * COEFFICIENTS), (void **)&r->coefficients));
	must("sync_get", ivm_sync_get(r->values[b->shared->iteration % 2], planes(r->end - r->begin)));
}

static void work(struct om_lb *b)
{
	struct range r = {0};
	float *slots;
	double *sums;
	int32_t pes = 0;

	must("map", ivm_map("slots", (void **)&slots, NULL));
	must("map", ivm_map("sums", (void **)&sums, NULL));
	while (om_lb_begin(b)) {
		const long n = b->shared->iteration;
		if (pes != b->shared->pes)
			take(b, &r);
		pes = b->shared->pes;
		float *before = slot(b, slots, n, 2 * b->id - 1), *after = slot(b, slots, n, 2 * b->id + 2), *to = r.values[(n + 1) % 2];
		must("sync_get", ivm_sync_get(before, planes(1)));
		must("sync_get", ivm_sync_get(after, planes(1)));

		const double start = om_lb_clock();
		for (long i = om_lb_times(b); i > 0; i--)
			jacobi_planes(&h, r.coefficients, before, r.values[n % 2], after, to, sums + r.begin, r.end - r.begin);
		const double seconds = om_lb_clock() - start;
		if (r.begin <= b->omit && b->omit < r.end)
			memset(to + (b->omit - r.begin) * plane(&h), 0, planes(1));

		memcpy(slot(b, slots, n + 1, 2 * b->id), to, planes(1));
		memcpy(slot(b, slots, n + 1, 2 * b->id + 1), to + (r.end - r.begin - 1) * plane(&h), planes(1));
		must("sync_put", ivm_sync_put(slot(b, slots, n + 1, 2 * b->id), planes(2)));
		must("sync_put", ivm_sync_put(sums + r.begin, (size_t)(r.end - r.begin) * sizeof *sums));
		om_lb_end(b, seconds, r.end - r.begin);
	}
}

int main(int argc, char **argv)
{
	struct om_lb b = OM_LB_DEFAULT;
	const struct option_of_program options[] = {HIMENO_OPTIONS(h), OM_LB_OPTIONS(b), {"--omit", &b.omit, 1, 100000, "a plane whose values to leave out"}, {0}};

	read_options(argc, argv, "The Himeno benchmark, with OM-LB.", options);
	if (b.devices > b.most || b.most > h.z - 2) {
		fprintf(stderr, "himeno: --most %ld is not from --devices %ld to --z minus 2, %ld\n", b.most, b.devices, h.z - 2);
		return USAGE;
	}
	return om_lb_run(&b, root, work);
}
