// symbols.cc: see symbols.h.
#include "symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

namespace lazy {
namespace {

// AT_START: nothing of libc may be called here, because the thread sanitizer and allocators come here before they are ready.
#define AT_START __attribute__((no_sanitize("thread")))

AT_START bool is_equal(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b)
		a++, b++;
	return *a == *b;
}

AT_START bool is_in(const char *path, const char *start_of_name)
{
	const char *name = path, *expected = start_of_name;

	for (const char *at = path; *at != '\0'; at++)
		name = *at == '/' ? at + 1 : name;
	while (*expected != '\0' && *name == *expected)
		name++, expected++;
	return *expected == '\0';
}

// defined is a symbol of a loaded object, found through its hash table, or nullptr.
AT_START void *defined(const link_map &object, const char *wanted)
{
	const ElfW(Sym) *symbols = nullptr;
	const char *names = nullptr;
	const uint32_t *table = nullptr; // GNU's: sizes, a filter, the first symbol of each bucket, the symbols' hashes
	uint32_t hash = 5381;

	for (const ElfW(Dyn) *d = object.l_ld; d->d_tag != DT_NULL; d++) {
		const auto at = d->d_un.d_ptr;
		symbols = d->d_tag == DT_SYMTAB ? reinterpret_cast<const ElfW(Sym) *>(at) : symbols;
		names = d->d_tag == DT_STRTAB ? reinterpret_cast<const char *>(at) : names;
		table = d->d_tag == DT_GNU_HASH ? reinterpret_cast<const uint32_t *>(at) : table;
	}
	if (symbols == nullptr || names == nullptr || table == nullptr)
		return nullptr;
	for (const char *c = wanted; *c != '\0'; c++)
		hash = hash * 33 + static_cast<unsigned char>(*c);
	const uint32_t count = table[0], first = table[1];
	const uint32_t *const buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof *table), *const hashes = buckets + count;
	for (uint32_t i = buckets[hash % count]; i >= first; i++) {
		const uint32_t its = hashes[i - first];
		if ((its | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF && is_equal(names + symbols[i].st_name, wanted))
			return reinterpret_cast<void *>(object.l_addr + symbols[i].st_value);
		if ((its & 1) != 0)
			return nullptr; // the last of the bucket
	}
	return nullptr;
}

} // namespace

// Without a call: dlsym and dlvsym are overridden, and the real one of the two is needed to find the other.
AT_START VersionFinder real_dlvsym()
{
	static VersionFinder found; // threads find the same

	for (const link_map *object = _r_debug.r_map; found == nullptr && object != nullptr; object = object->l_next)
		if (is_in(object->l_name, "libc.so") || is_in(object->l_name, "libdl.so")) // libdl before glibc 2.34
			found = reinterpret_cast<VersionFinder>(defined(*object, "dlvsym"));
	return found;
}

void *real_dlsym(void *handle, const char *name)
{
	using Function = void *(*)(void *, const char *);
	// glibc 2.34 moved dlsym from libdl to libc.
	static const Function found = [] {
		void *f = real_dlvsym()(RTLD_NEXT, "dlsym", "GLIBC_2.34");
		return reinterpret_cast<Function>(f != nullptr ? f : real_dlvsym()(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
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
