/* threads.c [gpu]: threads of two PEs call at once. Each thread writes bytes of its own, so that what races is the library. The second PE is on
 * processors, or on a GPU. Its threads copy without a pause, too, while it maps. */
#include "bytes.h"
#include "hosts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum { THREADS = 4, ROUNDS = 40, BYTES = 8192, LONG = 2 << 20 };

static ivm_pe self;
static ivm_dev other;

static void *work(void *number)
{
	const size_t thread = (size_t)(uintptr_t)number, from = ((size_t)self * THREADS + thread) * BYTES;
	char own[16], *whole, *part;
	void *at;
	ivm_dev dev;
	size_t bytes;

	snprintf(own, sizeof own, "own%d.%zu", self, thread);
	WANT(ivm_map("all", (void **)&whole, &bytes), 0);
	for (int i = 1; i <= ROUNDS; i++) {
		WANT(ivm_malloc(own, (size_t)i, &at), 0);
		WANT(ivm_map_subset("all", from, BYTES, (void **)&part), 0);
		set(part, BYTES, (char)i);
		WANT(ivm_sync_put(part, BYTES), 0);
		WANT(ivm_sync_get(whole + from, BYTES), 0);
		HOLDS(all(part, BYTES, (char)i));
		WANT(ivm_sync_put_group(&(struct ivm_part){other, part, BYTES}, 1), 0);
		WANT(ivm_unmap(part), 0);
		WANT(ivm_free(at), 0);
		WANT(ivm_create_dev(NULL, IVM_THIS_DEV, 0, &dev), 0);
		WANT(ivm_signal(), 0);
		WANT(ivm_wait(self), 0);
	}
	WANT(ivm_unmap(whole), 0);
	return NULL;
}

static atomic_bool mapped;

static void *copy(void *at)
{
	while (!mapped)
		WANT(ivm_sync_put(at, LONG), 0);
	return NULL;
}

/* map_meanwhile maps while threads copy, so that there is always one that does. */
static void map_meanwhile(void)
{
	pthread_t threads[THREADS];
	char *whole;
	void *part;

	WANT(ivm_map("long", (void **)&whole, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		HOLDS(pthread_create(&threads[i], NULL, copy, whole + (size_t)i * LONG) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		WANT(ivm_map_subset("long", 0, BYTES, &part), 0);
		WANT(ivm_unmap(part), 0);
	}
	mapped = true;
	for (int i = 0; i < THREADS; i++)
		HOLDS(pthread_join(threads[i], NULL) == 0);
	WANT(ivm_unmap(whole), 0);
}

int main(int argc, char **argv)
{
	const enum ivm_dev_type type = argc == 2 && strcmp(argv[1], "gpu") == 0 ? IVM_GPU : IVM_CPU;
	pthread_t threads[THREADS];
	void *whole, *at;

	WANT(ivm_enter(), 0);
	WANT(ivm_get_my_id(&self), 0);
	WANT(ivm_create_dev(host_of(self == 0), self == 0 ? type : IVM_CPU, self == 0 && type == IVM_CPU, &other), 0);
	if (self == 0) {
		WANT(ivm_malloc("all", 2 * THREADS * BYTES, &whole), 0);
		WANT(ivm_malloc("long", (size_t)THREADS * LONG, &at), 0);
		WANT(ivm_create_pes(other, 1, NULL), 1);
		WANT(ivm_wait(1), 0); /* its device has the mirror */
	} else {
		WANT(ivm_map("all", &whole, NULL), 0);
		map_meanwhile();
		WANT(ivm_signal(), 0);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		HOLDS(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		HOLDS(pthread_join(threads[i], NULL) == 0);
	WANT(ivm_exit(), 0);
	return 0;
}
