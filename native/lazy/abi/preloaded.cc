// preloaded.cc: the CUDA runtime behind libcase.so: a shared one (symbols.h).
#include <dlfcn.h>
#include <link.h>

#include <string>

#include "probe/client.h"
#include "symbols.h"

namespace lazy {

// A runtime that was loaded with dlopen is not behind us in the global scope.
static void *loaded_runtime()
{
	std::string path;

	dl_iterate_phdr(
		[](dl_phdr_info *info, size_t, void *out) {
			if (!names_runtime(info->dlpi_name))
				return 0;
			*static_cast<std::string *>(out) = info->dlpi_name;
			return 1;
		},
		&path);
	return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

void *real_symbol(const char *name)
{
	void *found = real_dlsym(RTLD_NEXT, name);

	if (found == nullptr) {
		void *runtime = loaded_runtime();
		if (runtime != nullptr)
			found = real_dlsym(runtime, name);
	}
	return found != nullptr ? found : reinterpret_cast<void *>(absent);
}

bool has_runtime() { return real_dlsym(RTLD_NEXT, "cudaSetDevice") != nullptr || loaded_runtime() != nullptr; }

bool in_runtime(const void *address)
{
	Dl_info info;
	return dladdr(address, &info) != 0 && info.dli_fname != nullptr && names_runtime(info.dli_fname);
}

bool serves(bool, bool needs_shared) { return needs_shared; }

const LinkedProgram *linked_program() { return nullptr; }

bool program_serves_itself() { return case_linked != nullptr; }

} // namespace lazy
