// cuda_calls.h: the declarations that a program would have from CUDA's headers,
// for test programs built without them.
#ifndef FAKE_CUDA_CALLS_H
#define FAKE_CUDA_CALLS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"
#include "fake_kernel.h"

extern "C" {
#include "calls/programs.h" // native/calls
}

// load is dlopen. A program that is linked with that makes no streams before it has a device.
inline void *load(const char *library, int how)
{
	return reinterpret_cast<void *(*)(const char *, int)>(dlsym(RTLD_DEFAULT, "dlopen"))(library, how);
}

// driver_call finds a function of libcuda.so.1. The library's name is put
// together here, because a program that has it in its file binds early.
template <class F> F *driver_call(const char *name)
{
	char driver[] = "libcuda_so_1";
	driver[7] = driver[10] = '.';
	void *library = load(driver, RTLD_NOW);
	void *found = library != nullptr ? dlsym(library, name) : nullptr;

	if (found == nullptr) {
		fprintf(stderr, "%s has no %s: %s\n", driver, name, dlerror());
		abort();
	}
	return reinterpret_cast<F *>(found);
}

inline fake_cuda_state fake_state()
{
	fake_cuda_state state;
	driver_call<decltype(fake_cuda_read)>("fake_cuda_read")(&state);
	return state;
}

inline void meanwhile(const char *call, fake_cuda_moment moment, void (*what)())
{
	driver_call<decltype(fake_cuda_meanwhile)>("fake_cuda_meanwhile")(call, moment, what);
}

inline int take(size_t bytes) { return driver_call<decltype(fake_cuda_take)>("fake_cuda_take")(bytes); }

inline void skip_launches() { driver_call<decltype(fake_cuda_skip_launches)>("fake_cuda_skip_launches")(); }
#endif
