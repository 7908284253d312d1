// cubin.cc: see cubin.h.
//
// A cubin is an ELF file ("CUDA Binary Utilities": cuobjdump and nvdisasm print what is read here). Its
// section .text.KERNEL has the registers of a thread in the upper byte of sh_info. The size of
// .nv.shared.KERNEL is the static shared memory. .nv.info.KERNEL has the parameters.
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
enum : unsigned char { parameter_info = 0x17, parameters_size = 0x19 };

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

	if (info.at == nullptr)
		return false;
	while (info.size > 0) {
		unsigned char what[2];
		uint16_t value;
		if (!info.read(0, &what) || !info.read(2, &value) || what[0] == 0 || what[0] > sized_value)
			return false;
		const uint64_t size = what[0] == sized_value ? value : 0;
		const Bytes data = info.part(4, size);
		if (data.at == nullptr)
			return false;
		if (ParameterInfo p; what[1] == parameter_info) {
			if (!data.read(0, &p))
				return false;
			if (p.ordinal >= all.size()) {
				all.resize(p.ordinal + 1u);
				seen.resize(p.ordinal + 1u);
			}
			if (seen[p.ordinal])
				return false;
			seen[p.ordinal] = true;
			all[p.ordinal] = {p.offset, p.size_and_more >> 18};
		} else if (what[1] == parameters_size && what[0] != sized_value) {
			total = value;
		}
		info = {data.at + size, info.size - 4 - size};
	}
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

} // namespace

Resources resources_in(const unsigned char *fat, const std::string &kernel, uint32_t capability)
{
	const std::string code = ".text." + kernel, memory = ".nv.shared." + kernel;
	Resources best = {};
	uint32_t best_architecture = 0;

	// The newest of the device's major version that is not newer than the device.
	each_cubin(fat, [&](Bytes cubin, uint32_t architecture) {
		if (architecture > capability || architecture / 10 != capability / 10 || architecture < best_architecture)
			return false;
		Resources here = {};
		each_section(cubin, [&](std::string_view name, const Elf64_Shdr &section) {
			if (name == code)
				here.registers = section.sh_info >> 24;
			else if (name == memory)
				here.shared = section.sh_size;
		});
		if (here.registers > 0) {
			best = here;
			best_architecture = architecture;
		}
		return false;
	});
	return best;
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
