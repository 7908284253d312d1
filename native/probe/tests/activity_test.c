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

	const volatile struct case_activity *again = share(); /* after the program closed the first */
	CHECK(again->busy_since_ns == since);

	uint64_t mark = activity_mark();
	activity_began(); /* another thread, during the wait */
	activity_over(mark);
	CHECK(again->busy_since_ns == since);
	activity_over(activity_mark());
	CHECK(again->busy_since_ns == 0);

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
	printf("activity_test: ok\n");
	return 0;
}
