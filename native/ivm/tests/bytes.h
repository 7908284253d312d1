/* bytes.h: bytes of a mapped copy, whatever device the PE is on. Processors cannot touch memory of a GPU. */
#include "check.h"

#include <dlfcn.h>

static inline bool on_gpu(void)
{
	enum ivm_dev_type type;

	WANT(ivm_get_my_dev_type(&type), 0);
	return type == IVM_GPU;
}

/* driver returns a function of CUDA's driver. */
static inline void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *found = library != NULL ? dlsym(library, name) : NULL;

	HOLDS(found != NULL);
	return found;
}

static inline void copy_on_gpu(void *to, const void *from, size_t bytes)
{
	static __thread int (*copy)(unsigned long long, unsigned long long, size_t), (*synchronize)(void);

	if (copy == NULL) { /* a context is current in one thread */
		int (*retain)(void **, int), (*set)(void *);
		void *context;
		*(void **)&copy = driver("cuMemcpy");
		*(void **)&synchronize = driver("cuCtxSynchronize");
		*(void **)&retain = driver("cuDevicePrimaryCtxRetain");
		*(void **)&set = driver("cuCtxSetCurrent");
		HOLDS(retain(&context, 0) == 0 && set(context) == 0);
	}
	HOLDS(copy((unsigned long long)to, (unsigned long long)from, bytes) == 0 && synchronize() == 0);
}

/* copy_out and copy_in read and write bytes of a copy. */
static inline void copy_out(void *to, const volatile void *at, size_t bytes)
{
	if (bytes > 0 && on_gpu())
		copy_on_gpu(to, (const void *)at, bytes);
	else if (bytes > 0)
		memcpy(to, (const void *)at, bytes);
}

static inline void copy_in(volatile void *at, const void *from, size_t bytes)
{
	if (bytes > 0 && on_gpu())
		copy_on_gpu((void *)at, from, bytes);
	else if (bytes > 0)
		memcpy((void *)at, from, bytes);
}

/* all reports whether all bytes of a part have a value. set gives them one. */
static inline bool all(const char *at, size_t bytes, char value)
{
	char *own = malloc(bytes + 1);
	bool same = own != NULL;

	if (same)
		copy_out(own, at, bytes);
	for (size_t i = 0; i < bytes && same; i++)
		same = own[i] == value;
	free(own);
	return same;
}

static inline void set(char *at, size_t bytes, char value)
{
	char *own = malloc(bytes);

	HOLDS(own != NULL);
	memset(own, value, bytes);
	copy_in(at, own, bytes);
	free(own);
}
