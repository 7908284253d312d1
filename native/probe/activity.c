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

#include "descriptor.h"
#include "wire.h"

static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "the page holds plain integers");

typedef _Atomic uint64_t since; /* nanoseconds; 0: nothing is running */

/* struct case_activity, as it is written here. */
struct page {
	since busy;
	_Atomic uint64_t peak; /* bytes */
	_Atomic uint64_t calls, last_call, submissions;
	_Atomic uint64_t resident, referenced, fixed; /* bytes */
	_Atomic uint64_t permit;
	_Atomic uint64_t ended;
	_Atomic uint64_t idle;
};
static_assert(sizeof(struct page) == sizeof(struct case_activity), "the same page");

static struct page unshared;                        /* until there is a page */
static _Atomic(struct page *) current = &unshared; /* the page, once there is one */
static _Atomic uint64_t submitted;
static atomic_bool watched;

static uint64_t time_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) { return time_of(CLOCK_MONOTONIC); }

/* start sets what is nothing yet. */
static void start(since *s, uint64_t at)
{
	uint64_t nothing = 0;

	atomic_compare_exchange_strong(s, &nothing, at);
}

void activity_watched(void) { atomic_store(&watched, true); }

void activity_began(void)
{
	struct page *p = atomic_load(&current);
	const uint64_t number = atomic_fetch_add(&submitted, 1) + 1;

	/* Who reads it wants to know that it grows. Of two threads the one with the lower number may be the later. */
	atomic_store_explicit(&p->submissions, number, memory_order_relaxed);
	if (atomic_load(&p->busy) == 0)
		start(&p->busy, now());
}

uint64_t activity_mark(void) { return atomic_load(&submitted); }

/* raise_to reports whether it has changed the word. */
static bool raise_to(_Atomic uint64_t *word, uint64_t to)
{
	uint64_t most = atomic_load(word);

	while (most < to)
		if (atomic_compare_exchange_weak(word, &most, to))
			return true;
	return false;
}

/* show_ended shows what is over, as with activity_uses, and reports whether that is news. */
static bool show_ended(uint64_t mark)
{
	struct page *to;
	bool news = false;

	do
		news = raise_to(&(to = atomic_load(&current))->ended, mark) || news;
	while (to != atomic_load(&current));
	return news;
}

/* A thread that submits after the store sees nothing running and starts anew. A thread that submitted
 * before the store has counted, which this function sees. */
void activity_over(uint64_t mark)
{
	struct page *const p = atomic_load(&current);
	since *s = &p->busy;
	const uint64_t before = atomic_load(s);

	show_ended(mark);
	if (before == 0 || atomic_load(&submitted) != mark)
		return;
	atomic_store(&p->idle, time_of(CLOCK_MONOTONIC_COARSE));
	atomic_store(s, 0);
	if (atomic_load(&submitted) != mark)
		start(s, before);
}

/* If the page has been replaced in between, its contents may have been copied already. */
void activity_uses(uint64_t bytes)
{
	struct page *to;

	do
		raise_to(&(to = atomic_load(&current))->peak, bytes);
	while (to != atomic_load(&current));
}

void activity_ended(uint64_t mark)
{
	if (show_ended(mark))
		raise_to(&atomic_load(&current)->last_call, now());
}

/* Of two threads that submit, the one with the lower number may be the later to write it on the page. */
bool activity_working(void)
{
	struct page *const p = atomic_load(&current);
	const uint64_t all = atomic_load(&submitted);

	raise_to(&p->submissions, all);
	return atomic_load(&p->ended) < all;
}

void *activity_enter(void)
{
	struct page *p = atomic_load(&current);

	atomic_fetch_add(&p->calls, 1);
	return p;
}

void activity_leave(void *entered, bool rough)
{
	struct page *p = entered;

	/* The same clock at its last tick, which costs a fraction. The last instruction orders the store. A tick
	 * can be older than a time. */
	const uint64_t ended = time_of(rough ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC);
	if (ended > atomic_load_explicit(&p->last_call, memory_order_relaxed))
		atomic_store_explicit(&p->last_call, ended, memory_order_relaxed);
	atomic_fetch_sub(&p->calls, 1);
}

uint64_t activity_last_call(void) { return atomic_load(&atomic_load(&current)->last_call); }

bool activity_calls(void) { return atomic_load(&atomic_load(&current)->calls) != 0; }

/* As with activity_uses. */
void activity_holds(uint64_t resident, uint64_t referenced, uint64_t fixed)
{
	struct page *to;

	do {
		to = atomic_load(&current);
		atomic_store(&to->resident, resident);
		atomic_store(&to->referenced, referenced);
		atomic_store(&to->fixed, fixed);
	} while (to != atomic_load(&current));
}

bool activity_permitted(void) { return atomic_load(&atomic_load(&current)->permit) != 0; }

void activity_permit(bool permitted) { atomic_store(&atomic_load(&current)->permit, permitted); }

/* inherit copies what has one value. Calls under way are left out, because they end on the page on which they began. */
static void inherit(struct page *to, struct page *from)
{
	atomic_store(&to->last_call, atomic_load(&from->last_call));
	atomic_store(&to->idle, atomic_load(&from->idle));
	atomic_store(&to->submissions, atomic_load(&submitted));
	atomic_store(&to->resident, atomic_load(&from->resident));
	atomic_store(&to->referenced, atomic_load(&from->referenced));
	atomic_store(&to->fixed, atomic_load(&from->fixed));
	atomic_store(&to->permit, atomic_load(&from->permit));
}

int activity_share(void)
{
	const int page = atomic_load(&watched) ? above_standard(memfd_create("case-activity", MFD_CLOEXEC | MFD_ALLOW_SEALING)) : -1;
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
	struct page *const to = shared;
	inherit(to, atomic_load(&current));
	struct page *before = atomic_exchange(&current, to); /* another thread may still write there: it stays mapped */
	if (atomic_load(&before->busy) != 0)
		start(&to->busy, atomic_load(&before->busy));
	raise_to(&to->peak, atomic_load(&before->peak));
	raise_to(&to->ended, atomic_load(&before->ended));
	return page;
}

/* A child made by fork has submitted nothing and holds nothing, and its parent's page is
 * not its own. */
static void renew(void)
{
	static struct page nothing;

	atomic_store(&unshared.busy, 0);
	atomic_store(&unshared.peak, 0);
	atomic_store(&unshared.calls, 0);
	inherit(&unshared, &nothing);
	atomic_store(&unshared.ended, 0);
	atomic_store(&submitted, 0);
	atomic_store(&current, &unshared);
}

__attribute__((constructor)) static void renew_in_children(void) { pthread_atfork(NULL, NULL, renew); }
