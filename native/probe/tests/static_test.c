/* static_test.c: the calls that the compiler pass inserts, over a scheduler and a CUDA runtime
 * that are this file's. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../static.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("static_test:%d: %s: %s\n", __LINE__, __func__, #condition); \
			exit(1); \
		} \
	} while (0)

/* What was called, in order. */
static char calls[1000];

static void note(const char *format, ...)
{
	const size_t at = strlen(calls);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(calls + at, sizeof calls - at, format, arguments);
	va_end(arguments);
}

#define CALLED(what) (strcmp(calls, what) == 0 ? (calls[0] = '\0', 1) : (printf("called: %s\n", calls), 0))

static int current, granted, answer; /* the thread's device, and what the scheduler says */
static int set_answer;

int case_task_ask(const struct case_need *need, struct case_task *task)
{
	note("ask %d", (int)need->bytes);
	if ((need->flags & CASE_FLAG_DEVICE) != 0)
		note(" on %d", need->device);
	note("; ");
	*task = (struct case_task){.device = -1};
	if (answer == CASE_OK)
		*task = (struct case_task){.id = 7, .device = (need->flags & CASE_FLAG_DEVICE) != 0 ? need->device : granted};
	return answer;
}

int case_task_shape(struct case_task *task, uint64_t blocks, uint32_t threads, uint32_t blocks_per_sm)
{
	(void)task, (void)blocks_per_sm;
	note("shape %dx%d; ", (int)blocks, (int)threads);
	return CASE_OK;
}

int case_task_free(struct case_task *task)
{
	note("free %d; ", (int)task->id);
	*task = (struct case_task){.device = -1};
	return CASE_OK;
}

static int get_device(int *device)
{
	*device = current;
	return 0;
}

static int set_device(int device)
{
	note("set %d; ", device);
	if (set_answer == 0)
		current = device;
	return set_answer;
}

static int allocate(void **pointer, size_t bytes)
{
	note("malloc %d; ", (int)bytes);
	*pointer = calls;
	return 0;
}

static int allocate_managed(void **pointer, size_t bytes, unsigned flags)
{
	note("managed %d %d; ", (int)bytes, (int)flags);
	*pointer = calls;
	return 0;
}

static void begin(struct case_static *t, uint64_t bytes, uint32_t flags)
{
	case_static_begin(t, bytes, 4, 0, 128, flags, get_device, set_device, NULL, 0);
}

/* The task is on the granted device, and the thread is back on its own behind it. */
static void test_device(void)
{
	struct case_static t = {0};
	void *p;

	granted = 2;
	current = 1;
	begin(&t, 100, 0);
	CHECK(current == 2);
	CHECK(case_static_malloc(&t, allocate, &p, 60) == 0);
	CHECK(case_static_managed(&t, allocate_managed, &p, 40, 1) == 0);
	case_static_end(&t, set_device);
	CHECK(current == 1);
	CHECK(CALLED("ask 100; set 2; malloc 60; managed 40 1; set 1; free 7; "));
	case_static_end(&t, set_device);
	CHECK(CALLED(""));
}

static void test_same_device(void)
{
	struct case_static t = {0};

	granted = current = 1;
	begin(&t, 100, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; free 7; "));
}

static void test_unscheduled(void)
{
	struct case_static t = {0};
	void *p;

	granted = -1;
	current = 0;
	begin(&t, 100, 0);
	CHECK(case_static_malloc(&t, allocate, &p, 60) == 0);
	case_static_shape(&t, 1, 1, NULL, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; malloc 60; free 7; "));
}

/* A refused task allocates nothing, and is told nothing. */
static void test_refused(void)
{
	struct case_static t = {0};
	void *p;

	answer = CASE_REFUSED;
	begin(&t, 100, 0);
	CHECK(case_static_malloc(&t, allocate, &p, 60) == 2);
	CHECK(case_static_managed(&t, allocate_managed, &p, 60, 1) == 2);
	case_static_shape(&t, 100, 1024, NULL, 0);
	case_static_leave(&t, set_device);
	CHECK(CALLED("ask 100; "));
	begin(&t, 100, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; "));
	answer = CASE_OK;
	begin(&t, 100, 0); /* in the next round of a loop */
	CHECK(case_static_malloc(&t, allocate, &p, 60) == 0);
	case_static_end(&t, set_device);
	calls[0] = '\0';
}

/* A device that cannot be selected is given back. */
static void test_no_such_device(void)
{
	struct case_static t = {0};
	void *p;

	granted = 3;
	current = 0;
	set_answer = 101;
	begin(&t, 100, 0);
	set_answer = 0;
	CHECK(case_static_malloc(&t, allocate, &p, 60) == 2);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; set 3; free 7; "));
}

/* Only a kernel that is larger than all before is news. */
static void test_shape(void)
{
	struct case_static t = {0};

	granted = current = 0;
	begin(&t, 100, 0); /* 4 blocks of 4 warps */
	case_static_shape(&t, 16, 32, NULL, 0);
	case_static_shape(&t, 17, 1, NULL, 0);
	case_static_shape(&t, 17, 32, NULL, 0);
	case_static_shape(&t, 9, 33, NULL, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; shape 17x1; shape 9x33; free 7; "));
}

/* A function that is left with its task open keeps the charge, and not the device. */
static void test_left(void)
{
	struct case_static t = {0};

	granted = 2;
	current = 1;
	begin(&t, 100, 0);
	case_static_leave(&t, set_device);
	case_static_leave(&t, set_device);
	CHECK(current == 1 && CALLED("ask 100; set 2; set 1; "));
}

static void test_begun_again(void)
{
	struct case_static t = {0};

	granted = 2;
	current = 1;
	begin(&t, 100, 0);
	granted = 3;
	begin(&t, 200, 0);
	case_static_end(&t, set_device);
	CHECK(current == 1 && CALLED("ask 100; set 2; set 1; ask 200; set 3; set 1; free 7; "));
}

/* Where other parts of the program use devices, a task that the pass does not wholly see stays
 * on the thread's. Where they choose one, each task does. It is last: nothing takes it back. */
static void test_elsewhere(void)
{
	struct case_static t = {0};

	granted = 2;
	current = 1;
	begin(&t, 100, CASE_STATIC_TRUSTING);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; set 2; set 1; free 7; "));
	case_static_elsewhere(0);
	begin(&t, 100, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100; set 2; set 1; free 7; "));
	begin(&t, 100, CASE_STATIC_TRUSTING);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100 on 1; free 7; "));
	case_static_elsewhere(1);
	begin(&t, 100, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED("ask 100 on 1; free 7; "));
}

/* Outside of a run a program is as it is without the pass. */
static void test_without_a_run(void)
{
	struct case_static t = {0};

	unsetenv("CASE_SOCKET");
	begin(&t, 100, 0);
	case_static_shape(&t, 100, 1024, NULL, 0);
	case_static_end(&t, set_device);
	CHECK(CALLED(""));
	setenv("CASE_SOCKET", "socket", 1);
}

int main(void)
{
	setenv("CASE_SOCKET", "socket", 1);
	test_without_a_run();
	test_device();
	test_same_device();
	test_unscheduled();
	test_refused();
	test_no_such_device();
	test_shape();
	test_left();
	test_begun_again();
	test_elsewhere();
	puts("static_test: ok");
	return 0;
}
