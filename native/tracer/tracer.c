/* tracer.c: libcasetrace, a CUPTI injection library. The CUDA driver loads it
 * into a process whose environment has CUDA_INJECTION64_PATH and calls
 * InitializeInjection in cuInit; kernels and copies of the process go to a file
 * in the directory CASE_TRACE_DIR. docs/design/tracing.md says what can be lost. */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file.h"

/* A default flush hands out only buffers whose records are all complete. Small buffers let finished
 * kernels through while a long kernel runs. */
#define BUFFER_BYTES (32u << 10)
#define FLUSH_MS 100
#define SYNC_LIMIT_S 5 /* as the note below says */
#define MAX_DEVICES 64

static pid_t owner; /* a child of fork inherits the exit handler, but no tracer */

static struct {
	CUresult (*context_synchronize)(void);
	CUresult (*context_push)(CUcontext);
	CUresult (*context_pop)(CUcontext *);
	CUresult (*device_get)(CUdevice *, int);
	CUresult (*device_uuid)(CUuuid *, CUdevice);
} driver;

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[MAX_DEVICES];

static pthread_mutex_t flusher_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flusher_wakes;
static int ending;

static uint64_t CUPTIAPI now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* failed notes a CUPTI error in the file. */
static int failed(CUptiResult result, const char *call)
{
	const char *why = NULL;
	char text[256];

	if (result == CUPTI_SUCCESS)
		return 0;
	cuptiGetResultString(result, &why);
	snprintf(text, sizeof text, "%s: %s", call, why != NULL ? why : "unknown error");
	trace_note((uint32_t)result, text);
	return 1;
}

#define FAILED(call) failed(call, #call)

/* find_driver looks in libcuda itself, past whatever a preloaded library
 * interposes. */
static void find_driver(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (cuda == NULL)
		return;
	*(void **)&driver.context_synchronize = dlsym(cuda, "cuCtxSynchronize");
	*(void **)&driver.context_push = dlsym(cuda, "cuCtxPushCurrent_v2");
	*(void **)&driver.context_pop = dlsym(cuda, "cuCtxPopCurrent_v2");
	*(void **)&driver.device_get = dlsym(cuda, "cuDeviceGet");
	*(void **)&driver.device_uuid = dlsym(cuda, "cuDeviceGetUuid");
}

/* met writes which GPU an ordinal is, the first time it is seen. */
static void met(uint32_t ordinal)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t known;
	CUuuid uuid = {{0}};
	CUdevice device;
	int new;

	if (ordinal >= MAX_DEVICES)
		return;
	pthread_mutex_lock(&lock);
	new = !(known >> ordinal & 1);
	known |= 1ull << ordinal;
	if (new) {
		if (driver.device_get != NULL && driver.device_uuid != NULL &&
		    driver.device_get(&device, (int)ordinal) == CUDA_SUCCESS)
			driver.device_uuid(&uuid, device);
		trace_device(ordinal, (const uint8_t *)uuid.bytes);
	}
	pthread_mutex_unlock(&lock);
}

/* timed tells whether a record has times: CUPTI gives 0 for what it could not
 * collect, and for what a forced flush hands out unfinished. */
static int timed(uint64_t start, uint64_t end)
{
	if (start != 0 && end >= start)
		return 1;
	trace_lost(1);
	return 0;
}

static void take_kernel(const KERNEL_RECORD *k)
{
	if (!timed(k->start, k->end))
		return;
	struct case_trace_kernel record = {
		.start_ns = k->start,
		.end_ns = k->end,
		.grid = {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
		.block = {(uint16_t)k->blockX, (uint16_t)k->blockY, (uint16_t)k->blockZ},
		.registers = k->registersPerThread,
		.static_shared = (uint32_t)k->staticSharedMemory,
		.dynamic_shared = (uint32_t)k->dynamicSharedMemory,
		.stream = k->streamId,
		.correlation = k->correlationId,
		.device = k->deviceId,
	};
	met(k->deviceId);
	trace_kernel(&record, k->name != NULL ? k->name : "(unnamed)");
}

static void take_copy(uint64_t start, uint64_t end, struct case_trace_copy record)
{
	if (!timed(start, end))
		return;
	record.start_ns = start;
	record.end_ns = end;
	met(record.device);
	trace_copy(&record);
}

static void take(const CUpti_Activity *activity)
{
	switch (activity->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel((const void *)activity);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY: {
		const COPY_RECORD *c = (const void *)activity;
		take_copy(c->start, c->end, (struct case_trace_copy){.kind = c->copyKind, .bytes = c->bytes,
			.stream = c->streamId, .correlation = c->correlationId, .device = c->deviceId});
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMCPY2: {
		const PEER_RECORD *c = (const void *)activity;
		take_copy(c->start, c->end, (struct case_trace_copy){.kind = CASE_TRACE_COPY_PTOP, .bytes = c->bytes,
			.stream = c->streamId, .correlation = c->correlationId, .device = c->deviceId});
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMSET: {
		const SET_RECORD *c = (const void *)activity;
		take_copy(c->start, c->end, (struct case_trace_copy){.kind = CASE_TRACE_COPY_SET, .bytes = c->bytes,
			.stream = c->streamId, .correlation = c->correlationId, .device = c->deviceId});
		break;
	}
	default:
		break;
	}
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*buffer = aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, BUFFER_BYTES);
	*size = *buffer != NULL ? BUFFER_BYTES : 0; /* without memory CUPTI drops and counts */
	*max_records = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	CUpti_Activity *activity = NULL;
	size_t dropped = 0;
	CUptiResult result;

	(void)size;
	while (valid > 0 && (result = cuptiActivityGetNextRecord(buffer, valid, &activity)) != CUPTI_ERROR_MAX_LIMIT_REACHED) {
		if (failed(result, "cuptiActivityGetNextRecord"))
			break;
		take(activity);
	}
	if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
		trace_lost(dropped);
	trace_flush();
	free(buffer);
}

static void *flusher(void *unused)
{
	struct timespec at;

	(void)unused;
	pthread_mutex_lock(&flusher_lock);
	while (!ending) {
		clock_gettime(CLOCK_MONOTONIC, &at);
		at.tv_nsec += FLUSH_MS * 1000000l;
		at.tv_sec += at.tv_nsec / 1000000000l;
		at.tv_nsec %= 1000000000l;
		pthread_cond_timedwait(&flusher_wakes, &flusher_lock, &at);
		if (ending)
			break;
		pthread_mutex_unlock(&flusher_lock);
		cuptiActivityFlushAll(0);
		pthread_mutex_lock(&flusher_lock);
	}
	pthread_mutex_unlock(&flusher_lock);
	return NULL;
}

static pthread_t flusher_thread;

static int start_flusher(void)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&flusher_wakes, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return pthread_create(&flusher_thread, NULL, flusher, NULL);
}

static void stop_flusher(void)
{
	pthread_mutex_lock(&flusher_lock);
	ending = 1;
	pthread_cond_signal(&flusher_wakes);
	pthread_mutex_unlock(&flusher_lock);
	pthread_join(flusher_thread, NULL);
}

/* remember keeps the live contexts, because the exit handler needs them. */
static void remember(CUcontext context, int lives)
{
	pthread_mutex_lock(&contexts_lock);
	for (unsigned i = 0; i < MAX_DEVICES; i++) {
		if (contexts[i] == (lives ? NULL : context)) {
			contexts[i] = lives ? context : NULL;
			break;
		}
	}
	pthread_mutex_unlock(&contexts_lock);
}

static void *synchronize(void *unused)
{
	(void)unused;
	if (driver.context_synchronize == NULL || driver.context_push == NULL || driver.context_pop == NULL)
		return NULL;
	for (unsigned i = 0; i < MAX_DEVICES; i++) {
		pthread_mutex_lock(&contexts_lock);
		CUcontext context = contexts[i];
		pthread_mutex_unlock(&contexts_lock);
		if (context != NULL && driver.context_push(context) == CUDA_SUCCESS) {
			driver.context_synchronize();
			driver.context_pop(&context);
		}
	}
	return NULL;
}

/* settle waits for the work of all contexts, at most SYNC_LIMIT_S because a kernel may never end, and
 * flushes what is complete. */
static void settle(void)
{
	struct timespec limit;
	pthread_t waiter;

	if (pthread_create(&waiter, NULL, synchronize, NULL) != 0)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += SYNC_LIMIT_S;
	if (pthread_timedjoin_np(waiter, NULL, &limit) != 0) {
		pthread_detach(waiter);
		trace_note(0, "kernels still ran 5 s after the exit began: they are lost");
	}
	FAILED(cuptiActivityFlushAll(0));
}

/* called tracks the contexts that are made and destroyed, whose records come and go with them. */
static void CUPTIAPI called(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	(void)unused;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		const CUpti_ResourceData *resource = data;
		remember(resource->context, id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
		return;
	}
	const CUpti_CallbackData *call = data;
	if (call->callbackSite == CUPTI_API_ENTER) {
		if (driver.context_synchronize != NULL)
			driver.context_synchronize();
		cuptiActivityFlushAll(0);
	}
}

static void watch_contexts(void)
{
	static const CUpti_CallbackId ends[] = {
		CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy, CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2,
		CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2,
		CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2,
	};
	CUpti_SubscriberHandle subscriber;

	if (FAILED(cuptiSubscribe(&subscriber, called, NULL)))
		return;
	for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++)
		FAILED(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, ends[i]));
	FAILED(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
	                           CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020));
	FAILED(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED));
	FAILED(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING));
}

/* finish runs at exit, before the driver's handlers, because those were registered earlier. */
static void finish(void)
{
	if (getpid() != owner)
		return;
	stop_flusher();
	settle();
	FAILED(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	trace_end(now());
	trace_flush();
}

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, /* KERNEL would serialize them */
	CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMCPY2,
	CUPTI_ACTIVITY_KIND_MEMSET,
};

static int start(void)
{
	if (FAILED(cuptiActivityRegisterTimestampCallback(now)) ||
	    FAILED(cuptiActivityRegisterCallbacks(requested, completed)))
		return 0;
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (FAILED(cuptiActivityEnable(kinds[i])))
			return 0;
	watch_contexts();
	return 1;
}

/* InitializeInjection is the entry that the driver calls once (CUPTI User's
 * Guide, "CUDA injection"). */
__attribute__((visibility("default"))) int InitializeInjection(void);

int InitializeInjection(void)
{
	const char *dir = getenv("CASE_TRACE_DIR");

	if (dir == NULL || owner != 0)
		return 1;
	owner = getpid();
	if (trace_open(dir, (uint32_t)owner, CUPTI_API_VERSION, now()) != 0) {
		fprintf(stderr, "casetrace: cannot write to %s: %m; kernels are not traced\n", dir);
		return 1;
	}
	find_driver();
	if (start() && start_flusher() == 0)
		atexit(finish);
	trace_flush();
	return 1;
}
