// cubin_test.cc: what lazy/program/cubin.h reads of machine code, also where it is damaged. With arguments it prints the
// parameters and the local memory of a kernel of a cubin file: cubin_test FILE KERNEL.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../fake/fake_cubin.h"
#include "../program/cubin.h"

using kernels::Cubin;
using lazy::Parameter;

static int failures;

static void check(bool holds, const char *what)
{
	if (!holds)
		fprintf(stderr, "cubin_test: not so: %s\n", what);
	failures += !holds;
}

static std::string text(const std::vector<Parameter> &parameters)
{
	std::string all;
	for (const Parameter &p : parameters)
		all += std::to_string(p.offset) + "+" + std::to_string(p.bytes) + " ";
	return all;
}

// Fenced holds bytes whose end is the end of what the process may read.
class Fenced {
public:
	explicit Fenced(size_t bytes) : size(bytes)
	{
		const size_t page = static_cast<size_t>(getpagesize());
		room = (bytes + page - 1) / page * page;
		base = static_cast<unsigned char *>(mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (base == MAP_FAILED || mprotect(base + room, page, PROT_NONE) != 0)
			abort();
	}
	unsigned char *data() { return base + room - size; }

private:
	size_t size, room;
	unsigned char *base;
};

static const std::vector<Cubin::Parameter> four = {{0, 8}, {8, 4}, {16, 24}, {40, 1}};

static void reads_what_nvcc_writes()
{
	std::vector<Parameter> found;
	const auto read = [&](const Cubin &cubin, const char *kernel) {
		return lazy::parameters_in(static_cast<const unsigned char *>(cubin.data()), kernel, &found);
	};

	check(read(Cubin("k", 32, 0, &four), "k") && text(found) == "0+8 8+4 16+24 40+1 ", "parameters in order");
	const std::vector<Cubin::Parameter> none;
	check(read(Cubin("k", 32, 0, &none), "k") && found.empty(), "no parameters");
	check(!read(Cubin("k", 32, 0, nullptr), "k"), "a cubin that does not tell");
	check(!read(Cubin("k", 32, 0, &four), "other"), "another kernel");
	const std::vector<Cubin::Parameter> overlap = {{0, 8}, {4, 8}};
	check(!read(Cubin("k", 32, 0, &overlap), "k"), "parameters that overlap");
	const lazy::Resources r = lazy::resources_in(static_cast<const unsigned char *>(Cubin("k", 40, 2048, &four).data()), "k", 90);
	check(r.registers == 40 && r.shared == 2048 && r.local == 0, "resources");
	const auto local = [](const Cubin &cubin, const char *kernel) {
		return lazy::resources_in(static_cast<const unsigned char *>(cubin.data()), kernel, 90).local;
	};
	check(local(Cubin("k", 40, 0, &four, 4096), "k") == 4096, "local memory");
	check(local(Cubin("k", 40, 0, nullptr, 4096), "k") == lazy::unknown_local, "local memory of a cubin that does not tell");
	check(local(Cubin("k", 40, 0, &four, 4096), "kk") == lazy::unknown_local, "local memory of another kernel");
	check(local(Cubin("k", 40, 0, &four, UINT32_MAX), "k") == lazy::unknown_local, "local memory that the compiler does not know");
	check(lazy::resources_in(static_cast<const unsigned char *>(Cubin("k", 40, 2048, &four).data()), "k", 80).registers == 0,
	      "machine code of a newer device");
}

// What is told of damaged machine code lies inside the buffer of parameters, whose size is 16 bits, and nothing
// beyond the machine code is read.
static void survives(unsigned char *fat, unsigned long *told)
{
	std::vector<Parameter> found;

	lazy::resources_in(fat, "k", 90);
	if (!lazy::parameters_in(fat, "k", &found))
		return;
	++*told;
	uint32_t end = 0;
	for (const Parameter &p : found) {
		check(p.offset >= end, "parameters in order");
		end = p.offset + p.bytes;
	}
	check(end < 1 << 16, "parameters within 64 KiB");
}

static void survives_damage()
{
	const Cubin cubin("k", 32, 0, &four);
	Fenced fenced(cubin.size());
	unsigned char *const fat = fenced.data();
	unsigned long told = 0, tried = 0;
	const auto whole = [&] { memcpy(fat, cubin.data(), cubin.size()); };

	whole();
	survives(fat, &told);
	check(told == 1, "undamaged");
	for (size_t at = Cubin::elf_at(); at < cubin.size(); at++)
		for (const int damage : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
			whole();
			fat[at] ^= static_cast<unsigned char>(damage);
			survives(fat, &told);
			tried++;
		}
	srand(1);
	for (int n = 0; n < 200000; n++, tried++) {
		whole();
		for (int times = 1 + rand() % 8; times > 0; times--)
			fat[Cubin::elf_at() + static_cast<size_t>(rand()) % (cubin.size() - Cubin::elf_at())] = static_cast<unsigned char>(rand());
		survives(fat, &told);
	}
	// Cut off: the entry and the fat binary say so.
	for (size_t size = 0; size < cubin.size() - Cubin::elf_at(); size++, tried++) {
		Fenced cut(Cubin::elf_at() + size);
		memcpy(cut.data(), cubin.data(), Cubin::elf_at() + size);
		const uint64_t entry = size, all = size + 64;
		memcpy(cut.data() + 8, &all, sizeof all);
		memcpy(cut.data() + 16 + 8, &entry, sizeof entry);
		survives(cut.data(), &told);
	}
	printf("cubin_test: %lu damaged cubins; %lu tell parameters\n", tried, told);
}

// show wraps a file into a fat binary and prints what it tells.
static int show(const char *path, const char *kernel)
{
	FILE *file = fopen(path, "rb");
	std::vector<unsigned char> all(Cubin::elf_at());
	std::vector<Parameter> found;

	if (file == nullptr) {
		perror(path);
		return 1;
	}
	for (int c; (c = getc(file)) != EOF;)
		all.push_back(static_cast<unsigned char>(c));
	fclose(file);
	memcpy(all.data(), Cubin("", 0, 0, nullptr).data(), Cubin::elf_at());
	const uint64_t entry = all.size() - Cubin::elf_at(), size = entry + 64;
	memcpy(all.data() + 8, &size, sizeof size);
	memcpy(all.data() + 16 + 8, &entry, sizeof entry);
	const bool told = lazy::parameters_in(all.data(), kernel, &found);
	const uint64_t local = lazy::resources_in(all.data(), kernel, 90).local;
	printf("%slocal %s\n", told ? text(found).c_str() : "not told ", local == lazy::unknown_local ? "unknown" : std::to_string(local).c_str());
	return told ? 0 : 1;
}

static void tells_of_the_heap()
{
	const auto heap = [](const Cubin &cubin, bool compressed) {
		std::vector<unsigned char> all(cubin.size());
		memcpy(all.data(), cubin.data(), all.size());
		all[Cubin::elf_at()] ^= compressed;
		return lazy::heap_in(all.data());
	};

	check(heap(Cubin("k", 32, 0, &four), false) == lazy::Heap::unused, "a kernel without malloc");
	check(heap(Cubin("malloc", 32, 0, &four), false) == lazy::Heap::used, "code with malloc");
	check(heap(Cubin("k", 32, 0, &four), true) == lazy::Heap::unknown, "code that is compressed");
}

int main(int count, char **arguments)
{
	if (count == 3)
		return show(arguments[1], arguments[2]);
	reads_what_nvcc_writes();
	survives_damage();
	tells_of_the_heap();
	return failures > 0;
}
