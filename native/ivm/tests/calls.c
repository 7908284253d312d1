/* calls.c [gpu]: what each call does, and each of its errors. All devices but the root's are processors, or GPUs. */
#include "bytes.h"
#include "hosts.h"

enum { BYTES = 100000, FIRST = 1, SECOND = 2 }; /* FIRST and SECOND are numbers of devices */

static ivm_dev home, first, second;
static enum ivm_dev_type type; /* of FIRST and SECOND */
static char *a; /* object "a" */

/* start starts a PE. What it does depends on its id: main says so. */
static ivm_pe start(ivm_dev dev)
{
	ivm_pe pe;

	WANT(ivm_create_pes(dev, 1, &pe), 1);
	return pe;
}

static void before_enter(void)
{
	void *at;

	WANT(ivm_exit(), -ENOTCONN);
	WANT(ivm_get_my_id(&(ivm_pe){0}), -ENOTCONN);
	WANT(ivm_malloc("a", 1, &at), -ENOTCONN);
	WANT(ivm_sync_put(&at, 1), -ENOTCONN);
	WANT(ivm_signal(), -ENOTCONN);
	WANT(ivm_unmap(NULL), -ENOTCONN);
}

static void devices(void)
{
	ivm_dev again;
	enum ivm_dev_type own_type;

	WANT(ivm_create_dev(NULL, IVM_THIS_DEV, 7, &home), 0);
	WANT(ivm_create_dev(NULL, IVM_CPU, 0, &again), 0);
	HOLDS(again == home);
	WANT(ivm_create_dev(NULL, type, FIRST, &first), 0);
	WANT(ivm_create_dev(host_of(1), type, SECOND, &second), 0);
	WANT(ivm_create_dev(NULL, type, FIRST, &again), 0);
	HOLDS(again == first && first != home && second != first);
	WANT(ivm_create_dev("no such node", IVM_CPU, 0, &again), -EHOSTUNREACH);
	WANT(ivm_create_dev(NULL, type, -1, &again), -ENODEV);
	WANT(ivm_create_dev(NULL, IVM_GPU, 99, &again), -ENODEV);
	WANT(ivm_create_dev(NULL, (enum ivm_dev_type)9, 0, &again), -ENODEV);
	WANT(ivm_destroy_dev(99), -ENODEV);
	WANT(ivm_destroy_dev(home), -EBUSY); /* this PE is on it */
	WANT(ivm_get_my_dev_type(&own_type), 0);
	HOLDS(own_type == IVM_CPU);
}

static void objects(void)
{
	char longest[IVM_NAME + 2];
	void *at, *other;
	size_t bytes;

	WANT(ivm_malloc("a", BYTES, (void **)&a), 0);
	HOLDS(all(a, BYTES, 0));
	WANT(ivm_malloc("a", 1, &at), -EEXIST);
	WANT(ivm_malloc("", 1, &at), -EINVAL);
	WANT(ivm_malloc(NULL, 1, &at), -EINVAL);
	WANT(ivm_malloc("b", 0, &at), -EINVAL);
	WANT(ivm_malloc("b", (size_t)-1, &at), -ENOMEM);
	WANT(ivm_malloc("b", (size_t)1 << 60, &at), -ENOMEM);
	WANT(ivm_map("b", &at, NULL), -ENOENT); /* nothing is left of it */
	memset(longest, 'x', sizeof longest - 1);
	longest[IVM_NAME + 1] = '\0';
	WANT(ivm_malloc(longest, 1, &at), -EINVAL);
	longest[IVM_NAME] = '\0';
	WANT(ivm_malloc(longest, 1, &at), 0);
	WANT(ivm_free(at), 0);
	WANT(ivm_map(longest, &at, NULL), -ENOENT);

	/* On one device mappings share the copy. */
	WANT(ivm_map("a", &at, &bytes), 0);
	HOLDS(bytes == BYTES);
	a[BYTES - 1] = 5;
	HOLDS(((char *)at)[BYTES - 1] == 5);
	WANT(ivm_map_subset("a", 5000, 10, &other), 0);
	memset(other, 6, 10);
	HOLDS(a[4999] == 0 && all(a + 5000, 10, 6) && a[5010] == 0);
	WANT(ivm_map_subset("a", BYTES - 1, 1, &at), 0);
	HOLDS(*(char *)at == 5);
	WANT(ivm_map_subset("a", BYTES, 1, &at), -ERANGE);
	WANT(ivm_map_subset("a", 0, BYTES + 1, &at), -ERANGE);
	WANT(ivm_map_subset("a", 8, (size_t)-4, &at), -ERANGE);
	WANT(ivm_map_subset("a", 8, 0, &at), -EINVAL);
	WANT(ivm_map_subset("none", 0, 1, &at), -ENOENT);

	WANT(ivm_sync_put(a, BYTES), 0);
	WANT(ivm_sync_get(a + BYTES - 1, 1), 0);
	WANT(ivm_sync_put(a + 1, BYTES), -ERANGE);
	WANT(ivm_sync_get(a, (size_t)-1), -ERANGE);
	WANT(ivm_sync_get((char *)other + 10, 1), -EFAULT);
	WANT(ivm_sync_put(&at, 1), -EFAULT);
	WANT(ivm_unmap((char *)other + 1), -EFAULT);
	WANT(ivm_unmap(other), 0);
	WANT(ivm_unmap(other), -EFAULT);
	WANT(ivm_free(other), -EFAULT);
	memset(a, 0, BYTES);
}

/* PE 1, on the first device, and PE 2 beside it: a mirror is made once, and shared. Put and get are all that passes between copies. */
static void mirror(void)
{
	const ivm_pe one = start(first);

	memset(a, 1, BYTES);
	WANT(ivm_wait(one), 0); /* it has entered */
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(one), 0); /* it has written 2s to its mirror */
	HOLDS(all(a, BYTES, 1));
	memset(a, 3, BYTES);
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(one), 0); /* it has put 100 bytes from 1000 on, and got 50 from 3000 on */
	HOLDS(all(a, 1000, 3) && all(a + 1000, 100, 2) && all(a + 1100, BYTES - 1100, 3));
	const ivm_pe two = start(first);
	WANT(ivm_wait(two), 0);
	WANT(ivm_signal(), 0); /* to PE 1 */
	WANT(ivm_wait(one), 0);
	WANT(ivm_wait(one), -ESRCH);
}

static void mirror_of_one(void)
{
	char *at;

	WANT(ivm_signal(), 0);
	WANT(ivm_wait(0), 0);
	WANT(ivm_map("a", (void **)&at, NULL), 0);
	HOLDS(all(at, BYTES, 1));
	set(at, BYTES, 2);
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(0), 0);
	HOLDS(all(at, BYTES, 2));
	WANT(ivm_sync_put(at + 1000, 100), 0);
	WANT(ivm_sync_get(at + 3000, 50), 0);
	HOLDS(all(at, 3000, 2) && all(at + 3000, 50, 3) && all(at + 3050, BYTES - 3050, 2));
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(0), 0);
	HOLDS(all(at + 7, 1, 9)); /* PE 2 wrote it */
	WANT(ivm_sync_put(at + BYTES - 1, 2), -ERANGE);
	WANT(ivm_signal(), 0);
}

static void mirror_of_two(void)
{
	char *at;

	WANT(ivm_map("a", (void **)&at, NULL), 0);
	HOLDS(all(at, 3000, 2) && all(at + 3000, 50, 3)); /* as the mirror was */
	set(at + 7, 1, 9);
	WANT(ivm_signal(), 0);
}

/* PE 3, on the second device: a part of a mirror is made, and the next where it is needed. */
static void subset(void)
{
	memset(a, 4, BYTES);
	const ivm_pe three = start(second);
	WANT(ivm_wait(three), 0); /* it has mapped 6000 bytes from 7 on */
	struct ivm_part inside = {second, a + 7, 6000}, beyond = {second, a + 6000, 8};
	WANT(ivm_sync_put_group(&inside, 1), 0);
	WANT(ivm_sync_put_group(&beyond, 1), -ENXIO);
	WANT(ivm_sync_get_group(&beyond, 1), -ENXIO);
	memset(a, 5, BYTES);
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(three), 0); /* it has mapped 50000 bytes from 5000 on */
	HOLDS(a[6006] == 4 && a[6007] == 5);
}

static void subset_of_three(void)
{
	char *at, *more;

	WANT(ivm_map_subset("a", 7, 6000, (void **)&at), 0);
	HOLDS(all(at, 6000, 4));
	WANT(ivm_signal(), 0);
	WANT(ivm_wait(0), 0);
	WANT(ivm_map_subset("a", 5000, 50000, (void **)&more), 0);
	HOLDS(all(more, 1007, 4) && all(more + 1007, 50000 - 1007, 5));
	WANT(ivm_sync_put(at + 5999, 1), 0);
	WANT(ivm_sync_put(at + 5999, 2), -ERANGE);
	WANT(ivm_sync_get(at - 1, 1), -EFAULT);
	WANT(ivm_signal(), 0);
}

/* Scatter and gather between the master copy and the mirrors that PEs 1 to 3 left, while the devices have no PE. */
static void groups(void)
{
	struct ivm_part parts[] = {{first, a + 10, 100}, {second, a + 5000, 1000}, {home, a, BYTES}, {first, a + 500, 0}};

	memset(a, 8, BYTES);
	WANT(ivm_sync_put_group(parts, 4), 0);
	memset(a, 0, BYTES);
	WANT(ivm_sync_get_group(parts, 4), 0);
	HOLDS(all(a, 10, 0) && all(a + 10, 100, 8) && all(a + 110, 4890, 0) && all(a + 5000, 1000, 8) && all(a + 6000, BYTES - 6000, 0));
	WANT(ivm_sync_get_group(&(struct ivm_part){first, a + 109, 2}, 1), 0);
	HOLDS(a[109] == 8 && a[110] == 2); /* PE 1 wrote it */

	/* All parts are checked before a byte is copied. */
	memset(a, 0, BYTES);
	parts[1].dev = 99;
	WANT(ivm_sync_get_group(parts, 4), -ENODEV);
	parts[1] = (struct ivm_part){first, a + BYTES - 1, 2};
	WANT(ivm_sync_get_group(parts, 4), -ERANGE);
	parts[1].at = parts;
	WANT(ivm_sync_get_group(parts, 4), -EFAULT);
	HOLDS(all(a, BYTES, 0));
	WANT(ivm_sync_get_group(parts, 0), 0);
	WANT(ivm_sync_put_group(parts, -1), -EINVAL);
}

static void processing_elements(void)
{
	ivm_pe pes[3] = {-1, -1, -1}, pe;
	int group;

	WANT(ivm_get_my_group_id(&group), 0);
	HOLDS(group == 0);
	WANT(ivm_set_max_pes_id(-1), -EINVAL);
	WANT(ivm_set_max_pes_id(5), 0);
	WANT(ivm_create_pes(99, 1, pes), -ENODEV);
	WANT(ivm_create_pes(first, -1, pes), -EINVAL);
	WANT(ivm_create_pes(first, 0, pes), 0);
	WANT(ivm_create_pes(first, 3, pes), 2); /* the greatest id allows no more */
	HOLDS(pes[0] == 4 && pes[1] == 5 && pes[2] == -1);
	WANT(ivm_create_pes(first, 1, NULL), 0);
	WANT(ivm_wait(6), -EINVAL);
	WANT(ivm_wait(-1), -EINVAL);
	WANT(ivm_wait(4), 0);
	WANT(ivm_wait(5), 0);
	WANT(ivm_destroy_dev(first), -EBUSY);
	WANT(ivm_kill_pes(second, 2, pes), -ESRCH);
	WANT(ivm_kill_pes(first, 2, pes), 0);
	WANT(ivm_kill_pes(first, 2, pes), 0);
	WANT(ivm_kill_pes(first, 1, &(ivm_pe){3}), -ESRCH);
	WANT(ivm_kill_pes(home, 1, &(ivm_pe){0}), -EPERM);
	WANT(ivm_kill_pes(home, -1, pes), -EINVAL);
	WANT(ivm_wait(4), -ESRCH);

	/* PE 6 starts PE 7 on its device, which signals. Its ids are waited for before they are given. */
	WANT(ivm_set_max_pes_id(7), 0);
	pe = start(second);
	HOLDS(pe == 6);
	WANT(ivm_wait(7), 0);
}

static void of_six(void)
{
	ivm_dev own;
	int group;

	WANT(ivm_get_my_group_id(&group), 0);
	WANT(ivm_create_dev(NULL, IVM_THIS_DEV, 0, &own), 0);
	HOLDS(own == second);
	HOLDS(group == 5); /* the fifth that was made */
	WANT(ivm_create_pes(own, 1, NULL), 1);
}

static void removal(void)
{
	void *at;

	while (ivm_destroy_dev(first) == -EBUSY) /* PEs end some time after ivm_exit */
		usleep(1000);
	WANT(ivm_destroy_dev(first), -ENODEV);
	WANT(ivm_sync_get_group(&(struct ivm_part){first, a, 1}, 1), -ENODEV);
	WANT(ivm_map("a", &at, NULL), 0);
	WANT(ivm_free(a), 0);
	WANT(ivm_map("a", &(void *){NULL}, NULL), -ENOENT);
	HOLDS(*(char *)at == 0); /* other mappings stay */
	WANT(ivm_sync_put(at, BYTES), 0);
	WANT(ivm_sync_put_group(&(struct ivm_part){second, at, 1}, 1), -ENOENT);
	WANT(ivm_free(at), -ENOENT);
	WANT(ivm_unmap(at), -EFAULT);
	WANT(ivm_malloc("a", 1, &at), 0); /* the name is free */
}

int main(int argc, char **argv)
{
	ivm_pe id;

	type = argc == 2 && strcmp(argv[1], "gpu") == 0 ? IVM_GPU : IVM_CPU;

	before_enter();
	WANT(ivm_enter(), 0);
	WANT(ivm_enter(), -EALREADY);
	WANT(ivm_get_my_id(&id), 0);
	if (id > 0) {
		WANT(ivm_create_dev(NULL, type, FIRST, &first), 0);
		WANT(ivm_create_dev(host_of(1), type, SECOND, &second), 0);
	}
	switch (id) {
	case 0:
		devices();
		objects();
		mirror();
		subset();
		groups();
		processing_elements();
		removal();
		break;
	case 1:
		mirror_of_one();
		break;
	case 2:
		mirror_of_two();
		break;
	case 3:
		subset_of_three();
		break;
	case 4:
	case 5:
		WANT(ivm_signal(), 0);
		pause(); /* until it is killed */
		break;
	case 6:
		of_six();
		break;
	case 7:
		WANT(ivm_signal(), 0);
	}
	WANT(ivm_exit(), 0);
	WANT(ivm_exit(), -ENOTCONN);
	WANT(ivm_enter(), -EALREADY);
	return 0;
}
