/* gpu.c MODE: copies on GPUs.
 *   master   an object whose master copy is on GPU 0, mapped by PEs on it, on GPU 1 and on processors. Its PEs end before the others
 *   memory   there is none left on GPU 0
 *   huge     more memory is asked for than a GPU has
 *   without  GPU 0 is there, but its driver is not */
#include "bytes.h"

enum { BYTES = 3 << 20, PART = 1000 };

/* PE 1, on GPU 0, makes the object. */
static void make(void)
{
	char *at, *again;
	void *other;

	WANT(ivm_malloc("object", BYTES, (void **)&at), 0);
	HOLDS(all(at, BYTES, 0));
	WANT(ivm_malloc("object", 1, &other), -EEXIST);
	set(at, BYTES, 1);
	WANT(ivm_map_subset("object", PART + 1, PART, (void **)&again), 0);
	HOLDS(all(again, PART, 1));
	set(again, PART, 2); /* at once in each mapping */
	HOLDS(all(at, PART + 1, 1) && all(at + PART + 1, PART, 2) && all(at + 2 * PART + 1, PART, 1));
	WANT(ivm_unmap(again), 0);
	WANT(ivm_sync_put(at, BYTES), 0);
	WANT(ivm_sync_put(at + 1, BYTES), -ERANGE);
}

/* PE 2, on GPU 0 when PE 1 has ended. */
static void use(void)
{
	char *at;

	WANT(ivm_map("object", (void **)&at, NULL), 0);
	HOLDS(all(at + PART + 1, PART, 2) && all(at + 2 * PART + 1, BYTES - 2 * PART - 1, 1));
	set(at, 1, 3);
}

/* PE 3, on GPU 1, has a part of the object only. */
static void use_elsewhere(void)
{
	char *at;

	WANT(ivm_map_subset("object", 0, 2 * PART, (void **)&at), 0);
	HOLDS(all(at, 1, 3) && all(at + 1, PART, 1) && all(at + PART + 1, PART - 1, 2));
	set(at, PART, 4);
	WANT(ivm_sync_put(at, PART / 2), 0);
}

static void start(ivm_dev dev)
{
	ivm_pe pe;

	WANT(ivm_create_pes(dev, 1, &pe), 1);
	WANT(ivm_wait(pe), 0);
	while (ivm_wait(pe) != -ESRCH) /* it has left */
		;
}

static void master(const ivm_dev devs[2])
{
	char *at;

	start(devs[0]);
	start(devs[0]);
	start(devs[1]);
	WANT(ivm_map("object", (void **)&at, NULL), 0); /* on processors */
	HOLDS(all(at, PART / 2, 4) && all(at + PART / 2, PART / 2 + 1, 1) && all(at + PART + 1, PART, 2));
	struct ivm_part part = {devs[1], at + PART / 2, PART / 2}, beyond = {devs[1], at + 2 * PART, 1};
	WANT(ivm_sync_get_group(&part, 1), 0); /* from GPU 1 to GPU 0 */
	WANT(ivm_sync_get_group(&beyond, 1), -ENXIO);
	WANT(ivm_sync_get(at, 2 * PART), 0);
	HOLDS(all(at, PART, 4) && all(at + PART, 1, 1));
	WANT(ivm_destroy_dev(devs[0]), -EBUSY); /* the master copy is there */
	WANT(ivm_free(at), 0);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";
	ivm_pe self;
	ivm_dev devs[2];
	char *at;

	WANT(ivm_enter(), 0);
	WANT(ivm_get_my_id(&self), 0);
	for (int i = 0; self == 0 && i < (strcmp(mode, "master") == 0 ? 2 : 1); i++)
		WANT(ivm_create_dev(NULL, IVM_GPU, i, &devs[i]), 0);
	if (self == 0 && strcmp(mode, "master") == 0) {
		master(devs);
	} else if (self == 0) {
		WANT(ivm_malloc("object", BYTES, (void **)&at), 0);
		WANT(ivm_create_pes(devs[0], 3, NULL), 3);
		for (ivm_pe i = 1; i <= 3; i++)
			WANT(ivm_wait(i), 0);
		WANT(ivm_sync_put_group(&(struct ivm_part){devs[0], at, 1}, 1), strcmp(mode, "huge") == 0 ? 0 : -ENXIO);
	} else if (strcmp(mode, "master") == 0) {
		(self == 1 ? make : self == 2 ? use : use_elsewhere)();
		WANT(ivm_signal(), 0);
	} else if (strcmp(mode, "huge") == 0) {
		for (int i = 40; i < 64; i++)
			WANT(ivm_malloc("huge", (size_t)1 << i, (void **)&at), -ENOMEM);
		WANT(ivm_malloc("huge", (size_t)-1, (void **)&at), -ENOMEM);
		WANT(ivm_map("object", (void **)&at, NULL), 0);
		WANT(ivm_unmap(at), 0);
		WANT(ivm_signal(), 0);
	} else { /* at once: who cannot make the copy lets the next try */
		const int wanted = strcmp(mode, "memory") == 0 ? -ENOMEM : -ENODEV;
		WANT(ivm_map("object", (void **)&at, NULL), wanted);
		WANT(ivm_malloc("other", BYTES, (void **)&at), wanted);
		WANT(ivm_signal(), 0);
	}
	WANT(ivm_exit(), 0);
	return 0;
}
