// objects.cc: what the program is made of, as far as that decides what may wait.
//
// An object that is linked with the shared CUDA runtime reaches it through the
// calls overridden here. One that brings its own runtime (cuBLAS and its like
// link it statically), or calls the driver itself, receives addresses, streams
// and contexts in ways that nobody here sees: it must never meet one that is not
// real yet. Nor must one that exports memory to other processes, because only
// cudaMalloc's can be exported.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime.h"

namespace lazy {
namespace {

// The parts of CUDA that stand behind this library, those that only watch, and
// the system's libraries, which need no reading.
bool known(const char *path)
{
	for (const char *name : {"/libcase.so", "/libcudart.so", "/libcuda.so", "/libnvidia-", "/libcupti.so",
	                         "/libcasetrace.so", "/libnvperf", "/ld-linux", "/libc.so", "/libm.so", "/libdl.so",
	                         "/librt.so", "/libpthread.so", "/libgcc_s.so", "/libstdc++.so"})
		if (strstr(path, name) != nullptr)
			return true;
	return false;
}

class File {
public:
	explicit File(const char *path)
	{
		struct stat status;
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
			size_ = static_cast<size_t>(status.st_size);
			data_ = static_cast<char *>(mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0));
		}
		if (fd >= 0)
			close(fd);
	}
	~File()
	{
		if (data_ != MAP_FAILED)
			munmap(data_, size_);
	}
	File(const File &) = delete;
	File &operator=(const File &) = delete;

	// at is `count` objects in the file, or nullptr where they are not in it.
	template <typename T> const T *at(uint64_t offset, uint64_t count = 1) const
	{
		if (data_ == MAP_FAILED || offset > size_ || count > (size_ - offset) / sizeof(T))
			return nullptr;
		return reinterpret_cast<const T *>(data_ + offset);
	}
	std::string text(const Elf64_Shdr &table, uint64_t offset) const
	{
		const char *s = offset < table.sh_size ? at<char>(table.sh_offset, table.sh_size) : nullptr;
		return s == nullptr ? "" : std::string(s + offset, strnlen(s + offset, table.sh_size - offset));
	}

	bool mentions(const char *text) const
	{
		return data_ != MAP_FAILED && memmem(data_, size_, text, strlen(text)) != nullptr;
	}

private:
	char *data_ = static_cast<char *>(MAP_FAILED);
	size_t size_ = 0;
};

// foreign: it has device code without the shared runtime, or the means to reach
// the driver or to export memory: linked, or looked up by name.
bool foreign(const char *path)
{
	const File file(path);
	const auto *header = file.at<Elf64_Ehdr>(0);
	bool device_code = false, runtime = false;

	if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_shstrndx >= header->e_shnum)
		return false;
	const auto *sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
	if (sections == nullptr)
		return false;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		const Elf64_Shdr &s = sections[i];
		if (file.text(sections[header->e_shstrndx], s.sh_name) == ".nvFatBinSegment")
			device_code = true;
		if (s.sh_type != SHT_DYNAMIC || s.sh_link >= header->e_shnum)
			continue;
		const uint64_t count = s.sh_size / sizeof(Elf64_Dyn);
		const auto *dynamic = file.at<Elf64_Dyn>(s.sh_offset, count);
		for (uint64_t n = 0; dynamic != nullptr && n < count; n++) {
			if (dynamic[n].d_tag != DT_NEEDED)
				continue;
			const std::string needed = file.text(sections[s.sh_link], dynamic[n].d_un.d_val);
			runtime = runtime || needed.rfind("libcudart.so", 0) == 0;
		}
	}
	return (device_code && !runtime) || file.mentions("libcuda.so") || file.mentions("cudaGetDriverEntryPoint") ||
	       file.mentions("cudaIpcGetMemHandle");
}

struct Objects {
	unsigned long long loaded; // how many were ever loaded
	bool foreign;
};

int look(dl_phdr_info *object, size_t, void *out)
{
	Objects &seen = *static_cast<Objects *>(out);

	if (seen.loaded == object->dlpi_adds)
		return 1; // nothing has been loaded since
	const char *path = *object->dlpi_name != '\0' ? object->dlpi_name : "/proc/self/exe";
	seen.foreign = seen.foreign || (!known(path) && foreign(path));
	return 0;
}

} // namespace

bool self_contained()
{
	static Objects seen;
	Locked locked;
	Objects now = seen;

	if (dl_iterate_phdr(look, &now) == 0) {
		dl_iterate_phdr([](dl_phdr_info *object, size_t, void *out) {
			static_cast<Objects *>(out)->loaded = object->dlpi_adds;
			return 1;
		}, &now);
		seen = now;
	}
	return !seen.foreign;
}

} // namespace lazy
