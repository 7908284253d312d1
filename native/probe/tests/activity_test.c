/* activity_test.c: what a process shows of its work. */
#define _GNU_SOURCE
#include "../activity.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../wire.h"

#define CHECK(holds)                                                                   \
	do {                                                                           \
		if (!(holds)) {                                                        \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds); \
			exit(1);                                                       \
		}                                                                      \
	} while (0)

static const volatile struct case_activity *share(void)
{
	int fd = activity_share();

	CHECK(fd >= 0);
	void *page = mmap(NULL, sizeof(struct case_activity), PROT_READ, MAP_SHARED, fd, 0);
	CHECK(page != MAP_FAILED);
	close(fd);
	return page;
}

static void *use(void *last)
{
	for (uint64_t bytes = 1; bytes <= *(uint64_t *)last; bytes += 2)
		activity_uses(bytes);
	return NULL;
}

static void *work(void *unused)
{
	for (int i = 0; i < 200000; i++) {
		activity_began();
		activity_over(activity_mark());
	}
	return unused;
}

static void *call(void *unused)
{
	for (int i = 0; i < 100000; i++) {
		void *entered = activity_enter();
		activity_began();
		activity_leave(entered, true);
	}
	return unused;
}

/* What a process that can give memory back shows besides. */
static void revocable(void)
{
	const volatile struct case_activity *page = share(), *next;
	const uint64_t before = activity_mark(), last = page->last_call_ns;
	pthread_t threads[3];

	CHECK(page->calls == 0 && page->submissions == before && page->permit == 0 && !activity_permitted());
	activity_permit(true);
	activity_holds(900, 600, 100);
	void *entered = activity_enter();
	CHECK(page->calls == 1 && page->last_call_ns == last);
	next = share();
	CHECK(next->permit == 1 && next->resident_bytes == 900 && next->referenced_bytes == 600 && next->fixed_bytes == 100);
	activity_leave(entered, false); /* on the page on which it began */
	CHECK(next->calls == 0 && page->calls == 0 && page->last_call_ns > last);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, call, NULL) == 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(next->calls == 0 && activity_mark() == before + 300000 && next->last_call_ns != 0);
	activity_began(); /* the last of all, where nothing else is submitted meanwhile */
	CHECK(next->submissions == before + 300001);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, call, NULL) == 0);
	for (uint64_t i = 0; i < 100; i++) { /* whatever the order, calls are counted where they end, */
		activity_holds(i, i, i); /* and the last bytes show */
		next = share();
		CHECK(next->resident_bytes == i && next->calls <= 3);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(next->calls == 0 && next->permit == 1);
	activity_permit(false);
	CHECK(next->permit == 0);
	activity_permit(true);
	const pid_t child = fork();
	if (child == 0) { /* has no permission and holds nothing */
		page = share();
		CHECK(page->permit == 0 && page->resident_bytes == 0 && page->submissions == 0 && page->last_call_ns == 0);
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	CHECK(activity_share() == -1); /* nobody watches */
	activity_watched();

	const volatile struct case_activity *page = share();
	CHECK(page->busy_since_ns == 0);
	activity_began();
	const uint64_t since = page->busy_since_ns;
	CHECK(since != 0);
	activity_began();
	CHECK(page->busy_since_ns == since); /* the first counts */
	CHECK(page->ended == 0 && page->submissions == 2 && activity_working());
	activity_ended(1);
	activity_ended(0); /* older news */
	CHECK(page->ended == 1 && activity_working() && page->busy_since_ns == since && page->last_call_ns > since);

	const volatile struct case_activity *again = share(); /* after the program closed the first */
	CHECK(again->busy_since_ns == since && again->ended == 1);

	uint64_t mark = activity_mark();
	activity_began(); /* another thread, during the wait */
	activity_over(mark);
	CHECK(again->busy_since_ns == since && again->idle_since_ns == 0);
	activity_over(activity_mark());
	const uint64_t idle = again->idle_since_ns;
	CHECK(idle != 0);
	again = share();
	CHECK(again->idle_since_ns == idle);
	CHECK(again->busy_since_ns == 0 && again->ended == again->submissions && !activity_working());

	CHECK(again->peak_bytes == 0);
	activity_uses(5);
	activity_uses(7);
	activity_uses(6);
	CHECK(again->peak_bytes == 7);
	again = share();
	CHECK(again->peak_bytes == 7);

	activity_began();
	const pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) { /* has submitted nothing, and shows a page of its own */
		activity_over(activity_mark());
		CHECK(again->busy_since_ns != 0);
		const volatile struct case_activity *own = share();
		CHECK(own->busy_since_ns == 0 && own->peak_bytes == 0);
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(again->busy_since_ns != 0);

	/* Whatever the order, what one thread has begun and nobody waited for shows. */
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
	for (int i = 0; i < 200000; i++) {
		activity_began();
		if (i % 100 == 0)
			mark = activity_mark();
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	activity_began();
	CHECK(again->busy_since_ns != 0);
	activity_over(mark);
	CHECK(again->busy_since_ns != 0);
	activity_over(activity_mark());
	CHECK(again->busy_since_ns == 0);

	/* The most stays, through whatever pages it went. */
	uint64_t lasts[3] = {200001, 100001, 300001};
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, use, &lasts[i]) == 0);
	for (int i = 0; i < 100; i++)
		again = share();
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(again->peak_bytes == 300001);
	revocable();
	printf("activity_test: ok\n");
	return 0;
}
