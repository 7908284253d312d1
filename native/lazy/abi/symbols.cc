// symbols.cc: see symbols.h.
#include "symbols.h"

#include <dlfcn.h>
#include <string.h>

namespace lazy {

void *real_dlsym(void *handle, const char *name)
{
	using Function = void *(*)(void *, const char *);
	// glibc 2.34 moved dlsym from libdl to libc.
	static const Function found = [] {
		void *f = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
		return reinterpret_cast<Function>(f != nullptr ? f : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
	}();
	return found(handle, name);
}

cudaError_t absent() { return cudaErrorNotSupported; }

bool names_runtime(const char *path)
{
	const char *name = strrchr(path, '/');
	name = name != nullptr ? name + 1 : path;
	return strncmp(name, "libcudart", 9) == 0 && (name[9] == '-' || name[9] == '.') && strstr(name, ".so") != nullptr;
}

void *driver_symbol(const char *name)
{
	static void *const library = dlopen("libcuda.so.1", RTLD_LAZY);
	return library == nullptr ? nullptr : real_dlsym(library, name);
}

} // namespace lazy
