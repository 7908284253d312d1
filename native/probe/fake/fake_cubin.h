// fake_cubin.h: a fat binary as nvcc embeds it, with one cubin of one kernel that
// has no code. What a reader finds in it is the kernel's name, its registers
// (the upper byte of sh_info of .text.KERNEL) and its static shared memory (the
// size of .nv.shared.KERNEL).
#ifndef FAKE_CUBIN_H
#define FAKE_CUBIN_H

#include <elf.h>
#include <string.h>

#include <string>
#include <vector>

namespace kernels {

class Cubin {
public:
	Cubin(const std::string &kernel, int registers, size_t shared_bytes)
	{
		const std::string names = std::string("\0.shstrtab\0", 11) + ".text." + kernel + '\0' +
		        ".nv.shared." + kernel + '\0';
		const size_t text_name = 11, shared_name = text_name + kernel.size() + 7;
		Elf64_Ehdr file = {};
		Elf64_Shdr sections[4] = {};

		memcpy(file.e_ident, ELFMAG, SELFMAG);
		file.e_ident[EI_CLASS] = ELFCLASS64;
		file.e_shoff = sizeof file;
		file.e_shentsize = sizeof(Elf64_Shdr);
		file.e_shnum = 4;
		file.e_shstrndx = 1;
		sections[1].sh_name = 1;
		sections[1].sh_type = SHT_STRTAB;
		sections[1].sh_offset = sizeof file + sizeof sections;
		sections[1].sh_size = names.size();
		sections[2].sh_name = static_cast<Elf64_Word>(text_name);
		sections[2].sh_info = static_cast<Elf64_Word>(registers) << 24;
		sections[3].sh_name = static_cast<Elf64_Word>(shared_name);
		sections[3].sh_type = SHT_NOBITS;
		sections[3].sh_size = shared_bytes;

		const uint64_t size = (sizeof file + sizeof sections + names.size() + 7) / 8 * 8;
		const Header header = {0xba55ed50, 1, sizeof(Header), sizeof(Entry) + size};
		const Entry entry = {2, 0x101, sizeof(Entry), size, {}, 90, {}};
		append(&header, sizeof header);
		append(&entry, sizeof entry);
		append(&file, sizeof file);
		append(sections, sizeof sections);
		append(names.data(), names.size());
		bytes.resize(sizeof header + sizeof entry + size);
	}

	const void *data() const { return bytes.data(); }

private:
	struct Header {
		uint32_t magic;
		uint16_t version, header_size;
		uint64_t size; // of the entries
	};
	struct Entry {
		uint16_t kind, version; // 2: machine code
		uint32_t header_size;
		uint64_t size;
		uint32_t unused[3];
		uint32_t architecture;
		uint64_t unused2[4];
	};
	static_assert(sizeof(Header) == 16 && sizeof(Entry) == 64, "fat binary");

	std::vector<char> bytes;

	void append(const void *from, size_t count)
	{
		const char *p = static_cast<const char *>(from);
		bytes.insert(bytes.end(), p, p + count);
	}
};

} // namespace kernels
#endif
