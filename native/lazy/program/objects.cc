// objects.cc: the files that the program is made of, as far as they decide what may be deferred.
//
// An object that is linked with the shared CUDA runtime reaches the runtime through the overridden
// calls. Other objects bring their own runtime (cuBLAS and others link it statically), or call the
// driver. Such an object receives addresses, streams and contexts in ways that this library does
// not see.
// It must never meet an address or a handle that is not real yet. Neither must an object that
// exports memory to other processes, because only memory of cudaMalloc can be exported.
//
// Where this library is linked into the program (abi/symbols.h), the linker tells of the program.
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "probe/descriptor.h"
#include "objects.h"

namespace lazy {

bool known(const char *path)
{
	for (const char *name : {"/libcase.so", "/libcuda.so", "/libnvidia-", "/libcupti.so",
	                         "/libcasetrace.so", "/libnvperf", "/ld-linux", "/libc.so", "/libm.so", "/libdl.so",
	                         "/librt.so", "/libpthread.so", "/libgcc_s.so", "/libstdc++.so"})
		if (strstr(path, name) != nullptr)
			return true;
	return names_runtime(path);
}

namespace {

struct Freed {
	void operator()(void *read) const { free(read); }
};
template <typename T> using Read = std::unique_ptr<T[], Freed>;

// File is read, not mapped: whoever builds the program anew may truncate it at any moment, and where it is
// gone an access would end the process with SIGBUS.
class File {
public:
	explicit File(const char *path) : fd_(above_standard(open(path, O_RDONLY | O_CLOEXEC)))
	{
		if (fd_ >= 0 && fstat(fd_, &opened_) == 0 && S_ISREG(opened_.st_mode))
			size_ = static_cast<uint64_t>(opened_.st_size);
	}
	~File()
	{
		struct stat now; // another thread may have closed the number meanwhile, and use it for a file of its own

		if (fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino)
			close(fd_);
	}
	File(const File &) = delete;
	File &operator=(const File &) = delete;

	// at is `count` objects in the file, or nullptr where they are not in it.
	template <typename T> Read<T> at(uint64_t offset, uint64_t count = 1) const
	{
		if (offset > size_ || count > (size_ - offset) / sizeof(T) || count == 0)
			return nullptr;
		const size_t bytes = count * sizeof(T);
		Read<T> read(static_cast<T *>(malloc(bytes)));
		for (size_t done = 0; read && done < bytes;) {
			const ssize_t n = pread(fd_, reinterpret_cast<char *>(read.get()) + done, bytes - done, static_cast<off_t>(offset + done));
			if (n == 0 || (n < 0 && errno != EINTR))
				return nullptr;
			done += n > 0 ? static_cast<size_t>(n) : 0;
		}
		return read;
	}

private:
	const int fd_;
	struct stat opened_ = {};
	uint64_t size_ = 0;
};

// Strings is a table of strings of a file.
class Strings {
public:
	Strings(const File &file, const Elf64_Shdr &table) : text_(file.at<char>(table.sh_offset, table.sh_size)), size_(table.sh_size) {}
	std::string at(uint64_t offset) const
	{
		return !text_ || offset >= size_ ? "" : std::string(text_.get() + offset, strnlen(text_.get() + offset, size_ - offset));
	}

private:
	const Read<char> text_;
	const uint64_t size_;
};

// holds_strings: the section is where compilers and linkers put the program's
// strings: loaded, and neither code nor tables. Device code, which is most of a
// large CUDA library, holds none that the host looks up.
bool holds_strings(const Elf64_Shdr &s, const std::string &name)
{
	if ((s.sh_flags & SHF_ALLOC) == 0 || (s.sh_flags & SHF_EXECINSTR) != 0 ||
	    (s.sh_type != SHT_PROGBITS && s.sh_type != SHT_STRTAB))
		return false;
	for (const char *other : {".nv_fatbin", "__nv_relfatbin", ".eh_frame", ".gcc_except_table"})
		if (name.rfind(other, 0) == 0)
			return false;
	return true;
}

bool has_text(const char *text, size_t size, std::string_view what)
{
	return memmem(text, size, what.data(), what.size()) != nullptr;
}

// reaches_driver: the text names the driver's library or function finder.
bool reaches_driver(const char *text, size_t size)
{
	return has_text(text, size, "libcuda.so") || has_text(text, size, "cudaGetDriverEntryPoint");
}

// exports: the text names what exports memory to other processes, the runtime's or the driver's.
bool exports(const char *text, size_t size) { return has_text(text, size, "IpcGetMemHandle"); }

// has_name: the table of strings contains this string, whole.
bool has_name(const char *table, size_t size, std::string_view name)
{
	for (const char *at = table, *end = table + size;
	     (at = static_cast<const char *>(memmem(at, static_cast<size_t>(end - at), name.data(), name.size()))) != nullptr; at++)
		if ((at == table || at[-1] == '\0') && at + name.size() < end && at[name.size()] == '\0')
			return true;
	return false;
}

const char program[] = "/proc/self/exe";

// driver_functions are the functions, undefined in the table of symbols, that are called as the driver's are.
std::set<std::string> driver_functions(const File &file, const Elf64_Shdr &table, const Strings &strings)
{
	std::set<std::string> found;
	const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
	const auto symbols = file.at<Elf64_Sym>(table.sh_offset, count);

	for (uint64_t i = 0; symbols && i < count; i++) {
		if (symbols[i].st_shndx != SHN_UNDEF)
			continue;
		std::string name = strings.at(symbols[i].st_name);
		if (name.rfind("cu", 0) == 0 && isupper(static_cast<unsigned char>(name[2])) != 0)
			found.insert(std::move(name));
	}
	return found;
}

struct Part {
	// It has a CUDA runtime that this library does not serve, or the means to reach the driver or
	// to export memory: linked, or looked up by name.
	bool foreign;
	bool exports; // memory to other processes
	// It is the program itself, or calls the shared runtime, and loads others.
	bool loads;
	// It asks for tasks itself: it names those calls, or has them in it (../explicit.c).
	bool asks;
	std::set<std::string> linked; // functions, perhaps of the driver
};

bool names_tasks(const char *text, size_t size)
{
	return has_name(text, size, "case_task_ask") || has_name(text, size, "case_task_begin");
}

Part read_part(const char *path)
{
	const File file(path);
	const auto head = file.at<Elf64_Ehdr>(0);
	const Elf64_Ehdr *const header = head.get();
	const bool is_program = strcmp(path, program) == 0;
	const LinkedProgram *const linked = is_program ? linked_program() : nullptr;
	bool device_code = false, runtime = false, opens = false;
	std::set<std::string> linked_with;
	bool asks = linked != nullptr && linked->asks, reaches = linked != nullptr && linked->reaches_driver;
	bool shares = reaches; // the linker tells no more of a linked program

	if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_shstrndx >= header->e_shnum)
		return {};
	const auto sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
	if (!sections)
		return {};
	const Strings names(file, sections[header->e_shstrndx]);
	for (unsigned i = 0; i < header->e_shnum; i++) {
		const Elf64_Shdr &s = sections[i];
		const std::string name = names.at(s.sh_name);
		if (name == ".nvFatBinSegment")
			device_code = true;
		if (holds_strings(s, name)) {
			const auto read = file.at<char>(s.sh_offset, s.sh_size);
			const char *text = read.get();
			const bool needs = name == ".dynstr", tells = text != nullptr && linked == nullptr;
			asks = asks || (tells && names_tasks(text, s.sh_size));
			reaches = reaches || (text != nullptr && (tells || needs) && reaches_driver(text, s.sh_size));
			shares = shares || (text != nullptr && (tells || needs) && exports(text, s.sh_size));
			opens = opens || (tells && needs && has_name(text, s.sh_size, "dlopen"));
		}
		if (s.sh_type == SHT_DYNSYM && s.sh_link < header->e_shnum)
			linked_with = driver_functions(file, s, Strings(file, sections[s.sh_link]));
		if (s.sh_type != SHT_DYNAMIC || s.sh_link >= header->e_shnum)
			continue;
		const uint64_t count = s.sh_size / sizeof(Elf64_Dyn);
		const auto dynamic = file.at<Elf64_Dyn>(s.sh_offset, count);
		const Strings strings(file, sections[s.sh_link]);
		for (uint64_t n = 0; dynamic && n < count; n++) {
			if (dynamic[n].d_tag != DT_NEEDED)
				continue;
			const std::string needed = strings.at(dynamic[n].d_un.d_val);
			runtime = runtime || names_runtime(needed.c_str());
		}
	}
	const bool foreign = reaches || shares || ((device_code || runtime) && !serves(is_program, runtime));
	return {foreign, shares, !foreign && opens && (runtime || is_program), asks, std::move(linked_with)};
}

struct Objects {
	unsigned long long loaded = 0, now = 0; // how many were ever loaded: when looked at, and now
	std::set<std::string> looked_at;
	std::vector<std::string> unread;
};

int look(dl_phdr_info *object, size_t, void *out)
{
	Objects &all = *static_cast<Objects *>(out);

	if (all.loaded == object->dlpi_adds)
		return 1; // nothing has been loaded since
	all.now = object->dlpi_adds;
	const char *path = *object->dlpi_name != '\0' ? object->dlpi_name : program;
	if (!known(path) && all.looked_at.insert(path).second)
		all.unread.push_back(path);
	return 0;
}

// This is not `lock`: cuInit comes here from inside the runtime, for which the holder of `lock` may
// be waiting.
pthread_mutex_t looking = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
bool met_driver; // somebody is known to reach it
std::map<std::string, std::string> &linked() // by function: a part that is linked with it
{
	static auto *const all = new std::map<std::string, std::string>;
	return *all;
}
std::string &unserved() // why calls of a part do not come to this library
{
	static auto *const why = new std::string;
	return *why;
}
std::string &exporter() // a part of the program that exports memory
{
	static auto *const path = new std::string;
	return *path;
}
bool may_load;   // the program may load parts that have a CUDA runtime of their own
bool asks;       // a part of the program asks for tasks itself

std::string file_of(const std::string &path) { return path == program ? "the program" : path.substr(path.rfind('/') + 1); }

// look_again reads what has been loaded since. Each object is read once: a large library's
// strings are tens of megabytes.
void look_again()
{
	static auto *const objects = new Objects; // outlives static destructors

	dl_iterate_phdr(look, objects);
	objects->loaded = objects->now;
	for (const std::string &path : objects->unread) {
		const Part part = read_part(path.c_str());
		met_driver = met_driver || part.foreign;
		for (const std::string &function : part.linked)
			linked().emplace(function, path);
		if (part.exports)
			exporter() = path;
		may_load = may_load || part.loads;
		asks = asks || part.asks;
	}
	objects->unread.clear();
}

} // namespace

void renew_looking() { looking = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

void meet_driver()
{
	Locked locked(looking);
	met_driver = true;
}

bool self_contained()
{
	Locked locked(looking);

	if (!met_driver)
		look_again();
	return !met_driver;
}

bool looks_up(const void *caller)
{
	Dl_info info;
	link_map *map = nullptr;

	if (dladdr1(caller, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr)
		return true;
	return !in_runtime(caller) && !known(map->l_name);
}

// What CUDA and the tools open for themselves is not a part.
extern "C" void opened_apart(const char *path, const void *caller)
{
	if (path == nullptr || known(("/" + std::string(path)).c_str()) || !looks_up(caller))
		return;
	Locked locked(looking);
	unserved() = file_of(path) + " was opened apart from other libraries";
}

std::string unserved_part(bool (*passes)(const std::string &function))
{
	static auto *const served = new std::set<std::string>;
	Locked locked(looking);

	look_again();
	for (const auto &[function, path] : linked())
		if (unserved().empty() && served->count(function) == 0 && !(passes(function) && served->insert(function).second))
			unserved() = file_of(path) + " is linked with " + function;
	return unserved();
}

std::string exporting_part()
{
	Locked locked(looking);
	look_again();
	return exporter().empty() ? "" : file_of(exporter());
}

bool asks_for_tasks()
{
	Locked locked(looking);
	look_again();
	return asks;
}

bool loads_parts()
{
	self_contained();
	Locked locked(looking);
	return may_load;
}

} // namespace lazy
