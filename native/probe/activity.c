/* activity.c: see activity.h. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "activity.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "the page holds plain integers");

typedef _Atomic uint64_t since; /* nanoseconds; 0: nothing is running */

static since unshared;                           /* until there is a page */
static _Atomic(since *) busy_since = &unshared; /* in the page, once there is one */
static _Atomic uint64_t submitted;
static atomic_bool watched;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* start sets what is nothing yet. */
static void start(since *s, uint64_t at)
{
	uint64_t nothing = 0;

	atomic_compare_exchange_strong(s, &nothing, at);
}

void activity_watched(void) { atomic_store(&watched, true); }

void activity_began(void)
{
	since *s = atomic_load(&busy_since);

	atomic_fetch_add(&submitted, 1);
	if (atomic_load(s) == 0)
		start(s, now());
}

uint64_t activity_mark(void) { return atomic_load(&submitted); }

/* Who submits after the store sees nothing running and starts anew; who did before
 * it has counted, which is seen here. */
void activity_over(uint64_t mark)
{
	since *s = atomic_load(&busy_since);
	const uint64_t before = atomic_load(s);

	if (before == 0 || atomic_load(&submitted) != mark)
		return;
	atomic_store(s, 0);
	if (atomic_load(&submitted) != mark)
		start(s, before);
}

int activity_share(void)
{
	const int page = atomic_load(&watched) ? memfd_create("case-activity", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
	void *shared = MAP_FAILED;

	if (page < 0)
		return -1;
	/* The server maps no page that could shrink under it. */
	if (ftruncate(page, sizeof(struct case_activity)) == 0 && fcntl(page, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
		shared = mmap(NULL, sizeof(struct case_activity), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
	if (shared == MAP_FAILED) {
		close(page);
		return -1;
	}
	since *before = atomic_exchange(&busy_since, (since *)shared);
	if (atomic_load(before) != 0) /* another thread may still write there: it stays mapped */
		start(shared, atomic_load(before));
	return page;
}

/* A child made by fork has submitted nothing, and its parent's page is not its own. */
static void renew(void)
{
	atomic_store(&unshared, 0);
	atomic_store(&submitted, 0);
	atomic_store(&busy_since, &unshared);
}

__attribute__((constructor)) static void renew_in_children(void) { pthread_atfork(NULL, NULL, renew); }
