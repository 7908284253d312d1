// cubin.cc: see cubin.h.
//
// A cubin is an ELF file ("CUDA Binary Utilities": cuobjdump and nvdisasm print what is read here). Its
// section .text.KERNEL has the registers of a thread in the upper byte of sh_info, before CUDA 13. The size of
// .nv.shared.KERNEL is the static shared memory. .nv.info.KERNEL has the parameters. .nv.info has the local memory and,
// since CUDA 11, the registers of each function, by the function's number in .symtab.
#include <elf.h>
#include <string.h>

#include <string_view>

#include "cubin.h"

namespace lazy {
namespace {

const uint32_t fat_magic = 0xba55ed50;
const uint16_t kind_cubin = 2;

struct FatHeader {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; // of the entries that follow
};

struct FatEntry {
	uint16_t kind, unknown;
	uint32_t header_size;
	uint64_t size;
	uint32_t unknown2[3];
	uint32_t architecture; // 90: compute capability 9.0
};

struct Bytes {
	const unsigned char *at;
	uint64_t size;

	// part is empty where it is not wholly inside.
	Bytes part(uint64_t offset, uint64_t bytes) const
	{
		return offset <= size && bytes <= size - offset ? Bytes{at + offset, bytes} : Bytes{nullptr, 0};
	}
	template <typename T> bool read(uint64_t offset, T *out) const
	{
		const Bytes there = part(offset, sizeof *out);
		if (there.at != nullptr)
			memcpy(out, there.at, sizeof *out);
		return there.at != nullptr;
	}
};

// each_section shows the sections of a cubin with their names.
template <typename Show> void each_section(Bytes cubin, Show show)
{
	Elf64_Ehdr header;
	Elf64_Shdr strings, section;

	if (!cubin.read(0, &header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_shentsize != sizeof section || header.e_shstrndx >= header.e_shnum)
		return;
	const Bytes table = cubin.part(header.e_shoff, uint64_t{header.e_shnum} * sizeof section);
	if (!table.read(header.e_shstrndx * sizeof section, &strings))
		return;
	const Bytes names = cubin.part(strings.sh_offset, strings.sh_size);
	for (uint64_t i = 0; i < header.e_shnum; i++) {
		if (!table.read(i * sizeof section, &section) || section.sh_name >= names.size)
			continue;
		const char *const text = reinterpret_cast<const char *>(names.at + section.sh_name);
		show(std::string_view(text, strnlen(text, names.size - section.sh_name)), section);
	}
}

// each_cubin shows the cubins of a fat binary, with the architecture of each. It ends when show returns true.
template <typename Show> void each_cubin(const unsigned char *fat, Show show)
{
	FatHeader header;
	FatEntry entry;

	memcpy(&header, fat, sizeof header);
	if (header.magic != fat_magic)
		return;
	Bytes left = {fat + header.header_size, header.size};
	while (left.read(0, &entry) && entry.header_size >= sizeof entry) {
		const Bytes inside = left.part(entry.header_size, entry.size);
		if (inside.at == nullptr || (entry.kind == kind_cubin && show(inside, entry.architecture)))
			return;
		left = {inside.at + inside.size, left.size - entry.header_size - entry.size};
	}
}

// Attributes of .nv.info, and how the value of each is stored: after a byte of format and a byte that
// names the attribute come two bytes, which are the value or the size of the value that follows.
enum : unsigned char { sized_value = 4 };
enum : unsigned char { frame_size = 0x11, min_stack_size = 0x12, parameter_info = 0x17, parameters_size = 0x19, register_count = 0x2f };

struct Attribute {
	unsigned char format, name;
	uint16_t value; // where it is not sized
	Bytes data;
};

// each_attribute shows the attributes until show returns false. false: so it did, or the attributes are damaged.
template <typename Show> bool each_attribute(Bytes info, Show show)
{
	while (info.size > 0) {
		unsigned char what[2];
		uint16_t value;
		if (!info.read(0, &what) || !info.read(2, &value) || what[0] == 0 || what[0] > sized_value)
			return false;
		const uint64_t size = what[0] == sized_value ? value : 0;
		const Bytes data = info.part(4, size);
		if (data.at == nullptr || !show(Attribute{what[0], what[1], value, data}))
			return false;
		info = {data.at + size, info.size - 4 - size};
	}
	return true;
}

struct ParameterInfo {
	uint32_t index;
	uint16_t ordinal, offset;
	uint32_t size_and_more; // bytes from bit 18 on
};

// parameters_of reads .nv.info.KERNEL. All must agree: each parameter comes once, after the parameter before it,
// and the last ends where all of them end.
bool parameters_of(Bytes info, std::vector<Parameter> *found)
{
	std::vector<Parameter> all;
	std::vector<bool> seen;
	uint32_t total = 0, end = 0;

	const bool whole = info.at != nullptr && each_attribute(info, [&](const Attribute &a) {
		if (ParameterInfo p; a.name == parameter_info) {
			if (!a.data.read(0, &p))
				return false;
			if (p.ordinal >= all.size()) {
				all.resize(p.ordinal + 1u);
				seen.resize(p.ordinal + 1u);
			}
			if (seen[p.ordinal])
				return false;
			seen[p.ordinal] = true;
			all[p.ordinal] = {p.offset, p.size_and_more >> 18};
		} else if (a.name == parameters_size && a.format != sized_value) {
			total = a.value;
		}
		return true;
	});
	if (!whole)
		return false;
	for (size_t i = 0; i < all.size(); i++) {
		if (!seen[i] || all[i].offset < end)
			return false;
		end = all[i].offset + all[i].bytes;
	}
	if (end != total)
		return false;
	*found = std::move(all);
	return true;
}

// Functions are the sections of a cubin that tell of its functions.
struct Functions {
	Bytes info, symbols, names;

	// tell fills in a kernel's registers and local memory. CUDA's compiler knows the frames of what the kernel calls,
	// except by recursion and through pointers: those are on the stack, which has a limit of its own.
	void tell(const std::string &kernel, Resources *r) const
	{
		each_attribute(info, [&](const Attribute &a) {
			uint32_t function, value;
			if (a.name != register_count && a.name != frame_size && a.name != min_stack_size)
				return true;
			if (!a.data.read(0, &function) || !a.data.read(4, &value) || value == UINT32_MAX || !is(function, kernel))
				return true;
			if (a.name == register_count)
				r->registers = value;
			else if (r->local == unknown_local || r->local < value)
				r->local = value;
			return true;
		});
	}

private:
	bool is(uint64_t function, const std::string &kernel) const
	{
		Elf64_Sym symbol;

		if (!symbols.read(function * sizeof symbol, &symbol))
			return false;
		const Bytes name = names.part(symbol.st_name, kernel.size() + 1);
		return name.at != nullptr && memcmp(name.at, kernel.c_str(), kernel.size() + 1) == 0;
	}
};

} // namespace

Resources resources_in(const unsigned char *fat, const std::string &kernel, uint32_t capability)
{
	const std::string code = ".text." + kernel, memory = ".nv.shared." + kernel;
	const Resources nothing = {0, 0, unknown_local};
	Resources best = nothing;
	uint32_t best_architecture = 0;

	// The newest of the device's major version that is not newer than the device.
	each_cubin(fat, [&](Bytes cubin, uint32_t architecture) {
		if (architecture > capability || architecture / 10 != capability / 10 || architecture < best_architecture)
			return false;
		Resources here = nothing;
		Functions functions = {};
		each_section(cubin, [&](std::string_view name, const Elf64_Shdr &section) {
			if (name == code)
				here.registers = section.sh_info >> 24;
			else if (name == memory)
				here.shared = section.sh_size;
			else if (name == ".nv.info")
				functions.info = cubin.part(section.sh_offset, section.sh_size);
			else if (name == ".symtab")
				functions.symbols = cubin.part(section.sh_offset, section.sh_size);
			else if (name == ".strtab")
				functions.names = cubin.part(section.sh_offset, section.sh_size);
		});
		functions.tell(kernel, &here);
		if (here.registers > 0) {
			best = here;
			best_architecture = architecture;
		}
		return false;
	});
	return best;
}

// Code that calls malloc leaves the symbol to the driver, which defines it.
Heap heap_in(const unsigned char *fat)
{
	Heap found = Heap::unknown;

	each_cubin(fat, [&](Bytes cubin, uint32_t) {
		Bytes symbols = {}, names = {};
		bool is_elf = false;
		each_section(cubin, [&](std::string_view name, const Elf64_Shdr &section) {
			is_elf = true;
			if (name == ".symtab")
				symbols = cubin.part(section.sh_offset, section.sh_size);
			else if (name == ".strtab")
				names = cubin.part(section.sh_offset, section.sh_size);
		});
		found = is_elf ? Heap::unused : Heap::unknown;
		Elf64_Sym symbol;
		for (uint64_t at = 0; symbols.read(at, &symbol); at += sizeof symbol)
			if (const Bytes name = names.part(symbol.st_name, sizeof "malloc"); name.at != nullptr && memcmp(name.at, "malloc", sizeof "malloc") == 0)
				found = Heap::used;
		return found != Heap::unused;
	});
	return found;
}

bool parameters_in(const unsigned char *fat, const std::string &kernel, std::vector<Parameter> *found)
{
	const std::string wanted = ".nv.info." + kernel;
	bool told = false;

	each_cubin(fat, [&](Bytes cubin, uint32_t) {
		each_section(cubin, [&](std::string_view name, const Elf64_Shdr &section) {
			if (!told && name == wanted)
				told = parameters_of(cubin.part(section.sh_offset, section.sh_size), found);
		});
		return told;
	});
	return told;
}

} // namespace lazy
