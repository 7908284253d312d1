/* tracer_test.c: the tracer against a CUPTI made of this file, in processes of
 * its own: what reaches the file when a process exits, is killed, forks, or when
 * CUPTI refuses or drops. Needs CUPTI's headers, no library and no GPU. */
#define _GNU_SOURCE
#include <cupti.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../trace.h"

int InitializeInjection(void);

/* The CUPTI of this file. */
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_CallbackFunc callback;
static KERNEL_RECORD pending[64];
static int pending_count, handed, default_flushes;
static size_t dropped;
static CUptiResult enable_result;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the records */

static void launch(uint64_t start, uint64_t end)
{
	KERNEL_RECORD k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = start, .end = end, .gridX = 2, .gridY = 1,
		.gridZ = 1, .blockX = 32, .blockY = 1, .blockZ = 1, .name = "k", .deviceId = 0};

	pthread_mutex_lock(&lock);
	pending[pending_count++] = k;
	pthread_mutex_unlock(&lock);
}

/* hand_out is a flush: like CUPTI's default one it keeps the buffer back while
 * one of its records is unfinished. */
static void hand_out(int forced)
{
	uint8_t *buffer;
	size_t size, records;

	for (int i = 0; i < pending_count; i++)
		if (pending[i].end == 0 && !forced)
			return;
	if (pending_count == 0)
		return;
	handed = 0;
	request(&buffer, &size, &records);
	memcpy(buffer, pending, (size_t)pending_count * sizeof *pending);
	complete(NULL, 0, buffer, size, (size_t)pending_count * sizeof *pending);
	pending_count = 0;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c)
{
	request = r;
	complete = c;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	if ((size_t)handed * sizeof *pending >= valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)(buffer + (size_t)handed++ * sizeof *pending);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	*n = dropped;
	dropped = 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	if (flag == 0)
		__atomic_add_fetch(&default_flushes, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&lock);
	hand_out(flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc f, void *data)
{
	(void)data;
	*subscriber = NULL;
	callback = f;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	(void)on, (void)s, (void)domain, (void)id;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? enable_result : CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
	return now() > 0 ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	(void)result;
	*text = "a reason";
	return CUPTI_SUCCESS;
}

/* The traced processes. */
static void wait_for_flushes(int n)
{
	int from = __atomic_load_n(&default_flushes, __ATOMIC_SEQ_CST);

	while (__atomic_load_n(&default_flushes, __ATOMIC_SEQ_CST) < from + n)
		sched_yield();
}

static int traced(const char *mode)
{
	if (strcmp(mode, "refused") == 0)
		enable_result = CUPTI_ERROR_NOT_COMPATIBLE;
	if (InitializeInjection() != 1 || InitializeInjection() != 1)
		return 1;
	if (strcmp(mode, "dropped") == 0)
		dropped = 7;
	launch(100, 200);
	launch(300, 400);
	if (strcmp(mode, "untimed") == 0)
		launch(0, 0);
	if (strcmp(mode, "killed") == 0) {
		wait_for_flushes(2); /* the second begins when the first has written */
		launch(500, 0);
		wait_for_flushes(1);
		raise(SIGKILL);
	}
	if (strcmp(mode, "reset") == 0) {
		CUpti_CallbackData call = {.callbackSite = CUPTI_API_ENTER};
		callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset, &call);
		_exit(0);
	}
	if (strcmp(mode, "forked") == 0) {
		wait_for_flushes(2);
		pid_t child = fork();
		if (child == 0)
			exit(0); /* must not speak for its parent */
		waitpid(child, NULL, 0);
		raise(SIGKILL);
	}
	return 0;
}

static int failures;

static void expect(const char *mode, const char *dir, unsigned kernels, uint64_t lost, unsigned notes, unsigned ends)
{
	static unsigned char content[1 << 16];
	unsigned counts[8] = {0};
	uint64_t lost_records = 0;
	char path[4096];

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("CASE_TRACE_DIR", dir, 1);
		exit(traced(mode));
	}
	waitpid(pid, NULL, 0);
	snprintf(path, sizeof path, "%s/%d.trace", dir, (int)pid);
	int fd = open(path, O_RDONLY);
	ssize_t size = fd < 0 ? 0 : read(fd, content, sizeof content);
	close(fd);
	unlink(path);
	for (size_t at = sizeof(struct case_trace_header); (ssize_t)(at + 8) <= size;) {
		struct case_trace_lost record;
		memcpy(&record, content + at, sizeof record);
		if (record.type > 7 || record.size < 8)
			break;
		counts[record.type]++;
		if (record.type == CASE_TRACE_LOST)
			lost_records += record.records;
		at += record.size;
	}
	if (counts[CASE_TRACE_KERNEL] != kernels || lost_records != lost || counts[CASE_TRACE_NOTE] != notes ||
	    counts[CASE_TRACE_END] != ends) {
		fprintf(stderr, "tracer_test: %s: %u kernels, %lu lost, %u notes, %u ends; want %u, %lu, %u, %u\n", mode,
		        counts[CASE_TRACE_KERNEL], (unsigned long)lost_records, counts[CASE_TRACE_NOTE], counts[CASE_TRACE_END], kernels,
		        (unsigned long)lost, notes, ends);
		failures++;
	}
}

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : ".";

	expect("exits", dir, 2, 0, 0, 1);
	expect("dropped", dir, 2, 7, 0, 1);
	expect("untimed", dir, 2, 1, 0, 1);
	expect("killed", dir, 2, 0, 0, 0);
	expect("reset", dir, 2, 0, 0, 0);
	expect("forked", dir, 2, 0, 0, 0);
	expect("refused", dir, 0, 0, 1, 0);
	if (failures == 0)
		puts("tracer_test: ok");
	return failures != 0;
}
