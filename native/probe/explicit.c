/* explicit.c: the calls of case.h about tasks, as the program makes them. The lazy runtime
 * hears of each explicit task, because it makes tasks only of what none of these covers.
 *
 * The names of these calls in an object tell the lazy runtime that the program asks for
 * tasks itself (lazy/program/objects.cc). So they are in a file of their own, which the linker
 * leaves out of a program that uses schedgpu.h alone. */
#pragma GCC visibility push(default)
#include "case.h"
#pragma GCC visibility pop

#include <stddef.h>

#include "client.h"

int case_task_ask(const struct case_need *need, struct case_task *task)
{
	struct case_need settled = *need;
	int answer = CASE_OK;

	CLIENT_FORWARD(case_task_ask, need, task);
	*task = (struct case_task){.device = -1};
	if (lazy_await_before_ask)
		answer = lazy_await_before_ask(&settled, task);
	if (answer != CASE_OK)
		return answer;
	if (task->id == 0)
		answer = client_await_grant(&settled, task);
	if (lazy_await_after_ask)
		lazy_await_after_ask(&settled, task, answer);
	return answer;
}

int case_task_begin(uint64_t bytes, uint64_t blocks, uint32_t threads_per_block,
                    uint64_t heap_bytes, uint32_t flags, struct case_task *task)
{
	struct case_need need = {
		.bytes = bytes,
		.blocks = blocks,
		.heap_bytes = heap_bytes,
		.threads_per_block = threads_per_block,
		.flags = flags,
	};
	return case_task_ask(&need, task);
}

int case_task_shape(struct case_task *task, uint64_t blocks, uint32_t threads_per_block,
                    uint32_t blocks_per_sm)
{
	CLIENT_FORWARD(case_task_shape, task, blocks, threads_per_block, blocks_per_sm);
	return client_shape(task, blocks, threads_per_block, blocks_per_sm);
}

int case_task_grow(struct case_task *task, uint64_t bytes, uint32_t wait_ms)
{
	CLIENT_FORWARD(case_task_grow, task, bytes, wait_ms);
	const int answer = client_await_growth(task, bytes, wait_ms);
	if (answer == CASE_OK && lazy_task_grew)
		lazy_task_grew(task, bytes);
	return answer;
}

int case_task_shrink(struct case_task *task, uint64_t bytes)
{
	CLIENT_FORWARD(case_task_shrink, task, bytes);
	const int answer = client_shrink(task, bytes);
	if (answer == CASE_OK && lazy_task_shrank)
		lazy_task_shrank(task, bytes);
	return answer;
}

int case_task_free(struct case_task *task)
{
	CLIENT_FORWARD(case_task_free, task);
	if (lazy_task_ends)
		lazy_task_ends(task);
	return client_free(task);
}
