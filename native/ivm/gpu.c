/* gpu.c: see gpu.h. A copy is memory of cuMemCreate, whose descriptor other processes map, with MPS or without. All is done in the primary
 * contexts of GPUs, which are those of the CUDA runtime too, so that kernels of the PE have the same addresses. What is declared here is in
 * NVIDIA's "CUDA Driver API". */
#define _GNU_SOURCE /* RTLD_NOW in C11 mode, O_CLOEXEC */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr, CUhandle;

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, STUB_LIBRARY = 34, NO_DEVICE = 100, INVALID_DEVICE = 101 }; /* CUresult */
enum { PINNED = 1, FILE_DESCRIPTOR = 1, ON_DEVICE = 1, READ_WRITE = 3, PORTABLE = 1 };
enum { OWN = 0, MOST_GPUS = 64 }; /* ivmd puts the PE's own GPU first */

struct location {
	int type, id;
};

struct properties { /* CUmemAllocationProp */
	int type, handle_types;
	struct location location;
	void *win32;
	unsigned char flags[8];
};

struct access { /* CUmemAccessDesc */
	struct location location;
	int flags;
};

#define CALLS(CALL)                                                                                           \
	CALL(cuInit, (unsigned flags))                                                                        \
	CALL(cuGetErrorName, (int error, const char **name))                                                  \
	CALL(cuDeviceGet, (int *device, int ordinal))                                                         \
	CALL(cuDevicePrimaryCtxRetain, (CUcontext *context, int device))                                      \
	CALL(cuCtxGetCurrent, (CUcontext *context))                                                           \
	CALL(cuCtxSetCurrent, (CUcontext context))                                                            \
	CALL(cuStreamSynchronize, (void *stream))                                                             \
	CALL(cuMemGetAllocationGranularity, (size_t *bytes, const struct properties *of, int which))          \
	CALL(cuMemGetAllocationPropertiesFromHandle, (struct properties *of, CUhandle handle))                \
	CALL(cuMemCreate, (CUhandle *handle, size_t bytes, const struct properties *of, unsigned long long flags)) \
	CALL(cuMemRelease, (CUhandle handle))                                                                 \
	CALL(cuMemExportToShareableHandle, (void *file, CUhandle handle, int type, unsigned long long flags)) \
	CALL(cuMemImportFromShareableHandle, (CUhandle *handle, void *file, int type))                        \
	CALL(cuMemAddressReserve, (CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)) \
	CALL(cuMemAddressFree, (CUdeviceptr at, size_t bytes))                                                \
	CALL(cuMemMap, (CUdeviceptr at, size_t bytes, size_t offset, CUhandle handle, unsigned long long flags)) \
	CALL(cuMemUnmap, (CUdeviceptr at, size_t bytes))                                                      \
	CALL(cuMemSetAccess, (CUdeviceptr at, size_t bytes, const struct access *access, size_t count))       \
	CALL(cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count))                                  \
	CALL(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags))                                  \
	CALL(cuMemHostUnregister, (void *at))                                                                 \
	CALL(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                               \
	CALL(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                     \
	CALL(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                               \
	CALL(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes))

#define FIELD(name, parameters) int(*name) parameters;
static struct {
	CALLS(FIELD)
} cuda;

static int loaded; /* 0 or a negative errno value */
static CUcontext contexts[MOST_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of contexts */

/* checked turns a CUresult into a result. */
static int checked(const char *call, int error)
{
	const char *name = NULL;

	if (error == SUCCESS)
		return 0;
	if (error == OUT_OF_MEMORY)
		return -ENOMEM;
	if (error == STUB_LIBRARY || error == NO_DEVICE || error == INVALID_DEVICE)
		return -ENODEV;
	if (cuda.cuGetErrorName(error, &name) != SUCCESS || name == NULL)
		name = "an unknown error";
	fprintf(stderr, "ivm: %s: %s (%d)\n", call, name, error);
	return -EIO;
}

#define CUDA(call, ...) checked(#call, cuda.call(__VA_ARGS__))

/* CUDA_THEN calls if all has gone well so far. */
#define CUDA_THEN(result, call, ...) ((result) == 0 ? CUDA(call, __VA_ARGS__) : (result))

static void load(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	loaded = driver == NULL ? -ENODEV : 0;
#define FIND(name, parameters)                                                                                \
	if (loaded == 0 && (*(void **)&cuda.name = dlsym(driver, #name)) == NULL)                             \
		loaded = -ENODEV;
	CALLS(FIND)
	loaded = CUDA_THEN(loaded, cuInit, 0);
}

static int start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return loaded;
}

/* get_context has the process keep the primary context of a GPU until it ends. */
static int get_context(int gpu)
{
	int device, result = 0;

	if (gpu < 0 || gpu >= MOST_GPUS)
		return -ENODEV;
	pthread_mutex_lock(&lock);
	if (contexts[gpu] == NULL) {
		result = CUDA(cuDeviceGet, &device, gpu);
		result = CUDA_THEN(result, cuDevicePrimaryCtxRetain, &contexts[gpu], device);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* enter makes the context of a GPU the thread's current one. leave gives the thread back the one that it had. */
static int enter(int gpu, CUcontext *before)
{
	int result = get_context(gpu);

	result = CUDA_THEN(result, cuCtxGetCurrent, before);
	return CUDA_THEN(result, cuCtxSetCurrent, contexts[gpu]);
}

static void leave(CUcontext before)
{
	(void)CUDA(cuCtxSetCurrent, before);
}

/* rounded stores how much memory a copy of so many bytes takes. */
static int rounded(size_t bytes, const struct properties *of, size_t *whole)
{
	size_t granule = 1;
	const int result = CUDA(cuMemGetAllocationGranularity, &granule, of, 0);

	if (result == 0 && bytes > SIZE_MAX - granule)
		return -ENOMEM;
	*whole = (bytes + granule - 1) / granule * granule;
	return result;
}

static struct properties memory_of(int gpu)
{
	return (struct properties){.type = PINNED, .handle_types = FILE_DESCRIPTOR, .location = {ON_DEVICE, gpu}};
}

/* map maps all of a handle's memory. Its GPU's context is current. */
static int map(CUhandle handle, size_t whole, int gpu, CUdeviceptr *at)
{
	const struct access access = {{ON_DEVICE, gpu}, READ_WRITE};
	bool mapped = false;
	int result = CUDA(cuMemAddressReserve, at, whole, 0, 0, 0);

	if (result != 0)
		return result;
	result = CUDA(cuMemMap, *at, whole, 0, handle, 0);
	mapped = result == 0;
	result = CUDA_THEN(result, cuMemSetAccess, *at, whole, &access, 1);
	if (result != 0) {
		if (mapped)
			(void)CUDA(cuMemUnmap, *at, whole);
		(void)CUDA(cuMemAddressFree, *at, whole);
	}
	return result;
}

static void unmap(CUdeviceptr at, size_t whole)
{
	(void)CUDA(cuMemUnmap, at, whole);
	(void)CUDA(cuMemAddressFree, at, whole);
}

/* export_zeros fills mapped memory and stores its descriptor. */
static int export_zeros(CUhandle handle, CUdeviceptr at, size_t whole, int *file)
{
	int result = CUDA(cuMemsetD32_v2, at, 0, whole / 4);

	result = CUDA_THEN(result, cuStreamSynchronize, NULL);
	result = CUDA_THEN(result, cuMemExportToShareableHandle, file, handle, FILE_DESCRIPTOR, 0);
	if (result == 0)
		(void)fcntl(*file, F_SETFD, FD_CLOEXEC);
	return result;
}

int gpu_make(size_t bytes, struct place *copy, int *file)
{
	const struct properties of = memory_of(OWN);
	CUcontext before;
	CUhandle handle;
	CUdeviceptr at = 0;
	size_t whole;
	int result = start();

	if (result == 0)
		result = enter(OWN, &before);
	if (result != 0)
		return result;
	result = rounded(bytes, &of, &whole);
	result = CUDA_THEN(result, cuMemCreate, &handle, whole, &of, 0);
	if (result == 0) {
		result = map(handle, whole, OWN, &at);
		if (result == 0) {
			result = export_zeros(handle, at, whole, file);
			if (result != 0)
				unmap(at, whole);
		}
		(void)CUDA(cuMemRelease, handle); /* the mapping and the descriptor keep the memory */
	}
	leave(before);
	if (result == 0)
		*copy = (struct place){(char *)(uintptr_t)at, OWN};
	return result;
}

/* map_handle maps a copy of another process, on the GPU that it is on. */
static int map_handle(CUhandle handle, size_t bytes, struct place *copy)
{
	struct properties of;
	CUcontext before;
	CUdeviceptr at;
	size_t whole;
	int result = CUDA(cuMemGetAllocationPropertiesFromHandle, &of, handle);

	if (result == 0)
		result = enter(of.location.id, &before);
	if (result != 0)
		return result;
	result = rounded(bytes, &of, &whole);
	if (result == 0)
		result = map(handle, whole, of.location.id, &at);
	leave(before);
	if (result == 0)
		*copy = (struct place){(char *)(uintptr_t)at, of.location.id};
	return result;
}

int gpu_map(int file, size_t bytes, struct place *copy)
{
	CUhandle handle;
	int result = start();

	result = CUDA_THEN(result, cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)file, FILE_DESCRIPTOR);
	if (result != 0)
		return result;
	result = map_handle(handle, bytes, copy);
	(void)CUDA(cuMemRelease, handle);
	return result;
}

void gpu_unmap(const struct place *copy, size_t bytes)
{
	const struct properties of = memory_of(copy->gpu);
	CUcontext before;
	size_t whole;

	if (enter(copy->gpu, &before) != 0)
		return;
	if (rounded(bytes, &of, &whole) == 0)
		unmap((CUdeviceptr)(uintptr_t)copy->at, whole);
	leave(before);
}

int gpu_copy(struct place to, struct place from, size_t bytes)
{
	const CUdeviceptr to_gpu = (CUdeviceptr)(uintptr_t)to.at, from_gpu = (CUdeviceptr)(uintptr_t)from.at;
	CUcontext before;
	int result = enter(to.gpu != HOST ? to.gpu : from.gpu, &before);

	if (result != 0)
		return result;
	if (to.gpu == HOST)
		result = CUDA(cuMemcpyDtoH_v2, to.at, from_gpu, bytes);
	else if (from.gpu == HOST)
		result = CUDA(cuMemcpyHtoD_v2, to_gpu, from.at, bytes);
	else if (from.gpu == to.gpu)
		result = CUDA(cuMemcpyDtoD_v2, to_gpu, from_gpu, bytes);
	else
		result = CUDA(cuMemcpyPeer, to_gpu, contexts[to.gpu], from_gpu, contexts[from.gpu], bytes);
	result = CUDA_THEN(result, cuStreamSynchronize, NULL); /* copies to a GPU may return before their end */
	leave(before);
	return result;
}

bool gpu_pin(char *at, size_t bytes, int gpu)
{
	CUcontext before;

	if (enter(gpu, &before) != 0)
		return false;
	const int error = cuda.cuMemHostRegister_v2(at, bytes, PORTABLE);
	leave(before);
	return error == SUCCESS;
}

void gpu_unpin(char *at, int gpu)
{
	CUcontext before;

	if (enter(gpu, &before) != 0)
		return;
	(void)CUDA(cuMemHostUnregister, at);
	leave(before);
}
