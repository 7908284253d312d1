/* fill.c [gpu]: of two PEs that map an object on a new device at once, the one that makes the mirror is killed, sooner or later. The other makes
 * the rest. Then PEs are killed while they put. Nothing of them is written later. */
#include "bytes.h"
#include "hosts.h"

enum { ROUNDS = 8, BYTES = 16 << 20 };

enum { PUT = 1, OWN };

static void put_for_ever(void)
{
	unsigned char *at;

	WANT(ivm_map("object", (void **)&at, NULL), 0);
	memset(at, PUT, BYTES);
	WANT(ivm_signal(), 0);
	for (;;)
		WANT(ivm_sync_put(at, BYTES), 0);
}

static void kill_while_it_puts(unsigned char *at, unsigned char *own, int round)
{
	ivm_dev dev;
	ivm_pe pe;

	WANT(ivm_create_dev(host_of(round + 1), IVM_CPU, ROUNDS + round + 1, &dev), 0);
	WANT(ivm_create_pes(dev, 1, &pe), 1);
	WANT(ivm_wait(pe), 0);
	usleep(10000 + 700 * (unsigned)round);
	WANT(ivm_kill_pes(dev, 1, &pe), 0);
	memset(at, OWN, BYTES);
	usleep(20000);
	copy_out(own, at, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		HOLDS(own[i] == OWN);
}

int main(int argc, char **argv)
{
	const enum ivm_dev_type type = argc == 2 && strcmp(argv[1], "gpu") == 0 ? IVM_GPU : IVM_CPU;
	ivm_pe self, pes[2];
	ivm_dev dev;
	static unsigned char own[BYTES];
	unsigned char *at;

	WANT(ivm_enter(), 0);
	WANT(ivm_get_my_id(&self), 0);
	if (self > 2 * ROUNDS)
		put_for_ever();
	if (self > 0) {
		WANT(ivm_map("object", (void **)&at, NULL), 0);
		copy_out(own, at, BYTES);
		for (size_t i = 0; i < BYTES; i++)
			HOLDS(own[i] == (i >> 12 & 255));
		WANT(ivm_signal(), 0);
		WANT(ivm_wait(0), 0);
		WANT(ivm_exit(), 0);
		return 0;
	}
	WANT(ivm_malloc("object", BYTES, (void **)&at), 0);
	for (size_t i = 0; i < BYTES; i++)
		at[i] = (unsigned char)(i >> 12);
	for (int round = 0; round < ROUNDS; round++) {
		WANT(ivm_create_dev(host_of(round + 1), type, type == IVM_GPU ? 0 : round + 1, &dev), 0);
		WANT(ivm_create_pes(dev, 2, pes), 2);
		usleep(500 * (unsigned)round);
		WANT(ivm_kill_pes(dev, 1, &pes[0]), 0);
		WANT(ivm_wait(pes[1]), 0);
		WANT(ivm_signal(), 0);
		while (ivm_destroy_dev(dev) == -EBUSY)
			usleep(1000);
	}
	for (int round = 0; type == IVM_CPU && round < ROUNDS; round++)
		kill_while_it_puts(at, own, round);
	WANT(ivm_exit(), 0);
	return 0;
}
