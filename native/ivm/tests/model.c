/* model.c SEED STEPS [TYPES MASTER]: random calls about memory, compared with a model. Each PE draws the same calls from the seed and plays all
 * of them on its own model. The PE whose turn it is makes the call too, and compares what it has mapped with the model. TYPES has a letter for
 * each device: c is a processor, g a GPU. The root is on device 0. MASTER is the device of the master copies. */
#include "bytes.h"
#include "hosts.h"

#include <stdint.h>

enum { PES = 5, DEVS = 3, OBJECTS = 2, MOST = 30000, PARTS = 3 };

static const int dev_of[PES] = {0, 1, 1, 2, 0};
static const size_t bytes_of[OBJECTS] = {MOST, 4097};

static struct {
	bool exists, valid[MOST]; /* the bytes that a mirror has */
	unsigned char byte[MOST];
} copies[OBJECTS][DEVS];

static struct {
	size_t offset, bytes; /* no bytes: not mapped */
	char *at;             /* in the PE itself */
} maps[PES][OBJECTS];

static ivm_pe self;
static ivm_dev devs[DEVS];
static int master; /* the device with the master copies */
static uint64_t drawn;

static uint64_t below(uint64_t n) /* splitmix64 */
{
	uint64_t z = drawn += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % n;
}

static void name(int object, char text[8])
{
	snprintf(text, 8, "o%d", object);
}

/* part_of draws bytes that are mapped. */
static size_t part_of(ivm_pe pe, int object, size_t *bytes)
{
	const size_t from = below(maps[pe][object].bytes);

	*bytes = below(maps[pe][object].bytes - from + 1);
	return from;
}

static void map_again(ivm_pe pe, int object)
{
	const int dev = dev_of[pe];
	const size_t size = bytes_of[object];
	const bool whole = below(4) == 0;
	const size_t offset = whole ? 0 : below(size), bytes = whole ? size : 1 + below(size - offset);

	if (self == pe) {
		char text[8];
		name(object, text);
		if (maps[pe][object].bytes > 0)
			WANT(ivm_unmap(maps[pe][object].at), 0);
		WANT(whole ? ivm_map(text, (void **)&maps[pe][object].at, NULL) : ivm_map_subset(text, offset, bytes, (void **)&maps[pe][object].at), 0);
	}
	maps[pe][object].offset = offset;
	maps[pe][object].bytes = bytes;
	copies[object][dev].exists = true;
	for (size_t i = offset; dev != master && i < offset + bytes; i++)
		if (!copies[object][dev].valid[i]) {
			copies[object][dev].valid[i] = true;
			copies[object][dev].byte[i] = copies[object][master].byte[i];
		}
}

static void write_bytes(ivm_pe pe, int object)
{
	size_t bytes;
	const size_t from = part_of(pe, object, &bytes);

	unsigned char *values = copies[object][dev_of[pe]].byte + maps[pe][object].offset + from;

	for (size_t i = 0; i < bytes; i++)
		values[i] = (unsigned char)below(256);
	if (self == pe)
		copy_in(maps[pe][object].at + from, values, bytes);
}

/* model_sync copies as a put does, or as a get. */
static void model_sync(int object, int to, int from, size_t offset, size_t bytes)
{
	memmove(copies[object][to].byte + offset, copies[object][from].byte + offset, bytes);
}

static void sync_one(ivm_pe pe, int object, bool put)
{
	size_t bytes;
	const size_t from = part_of(pe, object, &bytes);

	if (self == pe)
		WANT(put ? ivm_sync_put(maps[pe][object].at + from, bytes) : ivm_sync_get(maps[pe][object].at + from, bytes), 0);
	model_sync(object, put ? master : dev_of[pe], put ? dev_of[pe] : master, maps[pe][object].offset + from, bytes);
}

static void sync_some(ivm_pe pe, int object, bool put)
{
	struct ivm_part parts[PARTS];
	size_t offset[PARTS];
	int dev[PARTS], wanted = 0;

	for (int i = 0; i < PARTS; i++) {
		const size_t from = part_of(pe, object, &parts[i].bytes);
		dev[i] = (int)below(DEVS);
		parts[i].dev = devs[dev[i]];
		parts[i].at = maps[pe][object].at + from;
		offset[i] = maps[pe][object].offset + from;
		if (!copies[object][dev[i]].exists)
			wanted = -ENXIO;
		for (size_t j = offset[i]; dev[i] != master && j < offset[i] + parts[i].bytes; j++)
			if (!copies[object][dev[i]].valid[j])
				wanted = -ENXIO;
	}
	if (self == pe)
		WANT(put ? ivm_sync_put_group(parts, PARTS) : ivm_sync_get_group(parts, PARTS), wanted);
	for (int i = 0; i < PARTS && wanted == 0; i++)
		model_sync(object, put ? dev[i] : master, put ? master : dev[i], offset[i], parts[i].bytes);
}

static void step(ivm_pe pe)
{
	const int object = (int)below(OBJECTS);
	const int call = maps[pe][object].bytes == 0 ? 0 : (int)below(9);

	switch (call) {
	case 0:
		map_again(pe, object);
		break;
	case 1:
	case 2:
		sync_one(pe, object, call == 1);
		break;
	case 3:
	case 4:
		sync_some(pe, object, call == 3);
		break;
	default:
		write_bytes(pe, object);
	}
	for (int i = 0; self == pe && i < OBJECTS; i++) {
		static char own[MOST];
		copy_out(own, maps[pe][i].at, maps[pe][i].bytes);
		HOLDS(memcmp(own, copies[i][dev_of[pe]].byte + maps[pe][i].offset, maps[pe][i].bytes) == 0);
	}
}

/* How many steps there were when a PE made its last, and one. Signals would not do: a PE that is ahead could take one that is for another. */
static volatile uint32_t *done;

/* steps_done gets what PEs of other devices have put. What those of its own device write is there at once, and a get could undo it. */
static uint32_t steps_done(void)
{
	uint32_t most = 0, steps[PES];

	for (int i = 0; i < PES; i++)
		if (dev_of[i] != dev_of[self])
			WANT(ivm_sync_get((void *)&done[i], sizeof *done), 0);
	copy_out(steps, done, sizeof steps);
	for (int i = 0; i < PES; i++)
		if (steps[i] > most)
			most = steps[i];
	return most;
}

/* make_objects: a PE on the device of the master copies makes them. Then the root lets the first step be made. */
static void make_objects(void)
{
	ivm_pe maker = 0;

	while (dev_of[maker] != master)
		maker++;
	for (int i = 1; self == 0 && i < PES; i++)
		WANT(ivm_create_pes(devs[dev_of[i]], 1, NULL), 1);
	for (int i = 0; i < OBJECTS; i++) {
		char text[8];
		void *at;
		name(i, text);
		copies[i][master].exists = true;
		if (self == maker)
			WANT(ivm_malloc(text, bytes_of[i], &at), 0);
	}
	if (self == maker)
		WANT(ivm_signal(), 0);
	if (self == 0) {
		WANT(ivm_wait(maker), 0);
		done[0] = 1;
	}
}

int main(int argc, char **argv)
{
	HOLDS(argc == 3 || argc == 5);
	const char *types = argc == 5 ? argv[3] : "ccc";
	drawn = strtoull(argv[1], NULL, 10);
	master = argc == 5 ? atoi(argv[4]) : 0;
	WANT(ivm_enter(), 0);
	WANT(ivm_get_my_id(&self), 0);
	for (int i = 0; i < DEVS; i++)
		WANT(ivm_create_dev(host_of(i), types[i] == 'g' ? IVM_GPU : IVM_CPU, types[i] == 'g' ? i - 1 : i, &devs[i]), 0);
	const size_t bytes = PES * sizeof *done;
	WANT(self == 0 ? ivm_malloc("done", bytes, (void **)&done) : ivm_map("done", (void **)&done, NULL), 0);
	make_objects();
	for (uint32_t i = 1; i <= (uint32_t)atoi(argv[2]); i++) {
		const ivm_pe pe = (ivm_pe)below(PES);
		const uint32_t steps = i + 1;
		for (; self == pe && steps_done() != i; usleep(20))
			;
		step(pe);
		if (self == pe) {
			copy_in(&done[pe], &steps, sizeof steps);
			WANT(ivm_sync_put((void *)&done[pe], sizeof *done), 0);
		}
	}
	WANT(ivm_exit(), 0);
	return 0;
}
