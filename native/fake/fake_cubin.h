// fake_cubin.h: a fat binary as nvcc embeds it, with one cubin of one kernel that
// has no code. What a reader finds in it is the kernel's name, its registers
// (the upper byte of sh_info of .text.KERNEL), its static shared memory (the
// size of .nv.shared.KERNEL), its parameters (.nv.info.KERNEL, with the records that
// nvcc 11.8 writes) and its local memory (.nv.info).
#ifndef FAKE_CUBIN_H
#define FAKE_CUBIN_H

#include <elf.h>
#include <string.h>

#include <string>
#include <vector>

namespace kernels {

class Cubin {
public:
	struct Parameter {
		uint16_t offset, bytes;
	};

	// without parameters, the cubin tells neither them nor its local memory
	Cubin(const std::string &kernel, int registers, size_t shared_bytes, const std::vector<Parameter> *parameters,
	      uint32_t local_bytes = 0)
	{
		const std::string info = parameters != nullptr ? info_of(*parameters) : "";
		const std::string local = parameters != nullptr ? local_of(local_bytes) : "", strings = '\0' + kernel + '\0';
		const Elf64_Sym symbols[2] = {{}, {1, 0x12, 0x10, 2, 0, 0}};
		Elf64_Ehdr file = {};
		Elf64_Shdr sections[8] = {};
		std::string names = std::string("\0.shstrtab", 11);
		const auto named = [&names](Elf64_Shdr &section, const std::string &name) {
			section.sh_name = static_cast<Elf64_Word>(names.size());
			names += name + '\0';
		};

		memcpy(file.e_ident, ELFMAG, SELFMAG);
		file.e_ident[EI_CLASS] = ELFCLASS64;
		file.e_shoff = sizeof file;
		file.e_shentsize = sizeof(Elf64_Shdr);
		file.e_shnum = parameters != nullptr ? 8 : 4;
		file.e_shstrndx = 1;
		sections[1].sh_name = 1;
		sections[1].sh_type = SHT_STRTAB;
		named(sections[2], ".text." + kernel);
		sections[2].sh_info = static_cast<Elf64_Word>(registers) << 24;
		named(sections[3], ".nv.shared." + kernel);
		sections[3].sh_type = SHT_NOBITS;
		sections[3].sh_size = shared_bytes;
		named(sections[4], ".nv.info." + kernel);
		named(sections[5], ".nv.info");
		named(sections[6], ".symtab");
		named(sections[7], ".strtab");
		uint64_t end = sizeof file + sizeof sections;
		const auto placed = [&end](Elf64_Shdr &section, uint64_t bytes) {
			section.sh_offset = end;
			section.sh_size = bytes;
			end += bytes;
		};
		placed(sections[1], names.size());
		placed(sections[4], info.size());
		placed(sections[5], local.size());
		placed(sections[6], sizeof symbols);
		placed(sections[7], strings.size());

		const uint64_t size = (end + 7) / 8 * 8;
		const Header header = {0xba55ed50, 1, sizeof(Header), sizeof(Entry) + size};
		const Entry entry = {2, 0x101, sizeof(Entry), size, {}, 90, {}};
		append(&header, sizeof header);
		append(&entry, sizeof entry);
		append(&file, sizeof file);
		append(sections, sizeof sections);
		append(names.data(), names.size());
		append(info.data(), info.size());
		append(local.data(), local.size());
		append(symbols, sizeof symbols);
		append(strings.data(), strings.size());
		bytes.resize(sizeof header + sizeof entry + size);
	}

	size_t size() const { return bytes.size(); }
	static size_t elf_at() { return sizeof(Header) + sizeof(Entry); }
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

	// A record: format, attribute, and a value or the size of what follows.
	static void record(std::string *info, unsigned char format, unsigned char attribute, uint16_t value)
	{
		*info += {static_cast<char>(format), static_cast<char>(attribute), static_cast<char>(value & 0xff), static_cast<char>(value >> 8)};
	}

	static void word(std::string *info, uint32_t value) { info->append(reinterpret_cast<const char *>(&value), sizeof value); }

	static std::string local_of(uint32_t bytes)
	{
		std::string info;

		for (const unsigned char attribute : {0x11, 0x12}) { // EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE
			record(&info, 4, attribute, 8);
			word(&info, 1); // the symbol
			word(&info, bytes);
		}
		return info;
	}

	static std::string info_of(const std::vector<Parameter> &parameters)
	{
		std::string info;

		record(&info, 4, 0x37, 4); // EIATTR_CUDA_API_VERSION
		word(&info, 118);
		for (size_t i = parameters.size(); i-- > 0;) { // nvcc writes the last one first
			record(&info, 4, 0x17, 12);            // EIATTR_KPARAM_INFO
			word(&info, 0);
			word(&info, static_cast<uint32_t>(i | static_cast<uint32_t>(parameters[i].offset) << 16));
			word(&info, static_cast<uint32_t>(parameters[i].bytes) << 18 | 0x1f000);
		}
		record(&info, 3, 0x1b, 0xff); // EIATTR_MAXREG_COUNT
		if (!parameters.empty())
			record(&info, 3, 0x19, static_cast<uint16_t>(parameters.back().offset + parameters.back().bytes)); // EIATTR_CBANK_PARAM_SIZE
		return info;
	}

	void append(const void *from, size_t count)
	{
		const char *p = static_cast<const char *>(from);
		bytes.insert(bytes.end(), p, p + count);
	}
};

} // namespace kernels
#endif
