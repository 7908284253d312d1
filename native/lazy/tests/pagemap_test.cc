// pagemap_test.cc: the reader of the page table, against files of our own and against mincore(2).
#include "memory/pagemap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

using namespace lazy;

static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

static void check(bool is, const char *what)
{
	if (!is) {
		fprintf(stderr, "pagemap_test: not so: %s\n", what);
		exit(1);
	}
}

#define CHECK(what) check(what, #what)

static uint64_t absent(const Pagemap &table, uintptr_t from, size_t size)
{
	uint64_t bytes = 0;

	CHECK(table.absent(from, size, &bytes));
	return bytes;
}

// Pages 0, 2 and 4 of 5,000 are present, 3 is swapped out, and the others are neither. An entry has other bits too.
static void reads_a_file()
{
	char path[] = "/tmp/pagemap.XXXXXX";
	const int file = mkstemp(path);
	std::vector<uint64_t> entries(5000, uint64_t{1} << 61 | 12345);
	uint64_t bytes = 0;

	for (int at : {0, 2, 4})
		entries[at] |= uint64_t{1} << 63;
	entries[3] = uint64_t{1} << 62;
	CHECK(file >= 0 && write(file, entries.data(), entries.size() * 8) == static_cast<ssize_t>(entries.size() * 8));
	const Pagemap table(path);
	CHECK(absent(table, 0, 5000 * page) == 4996 * page);
	CHECK(absent(table, page, page) == page);
	CHECK(absent(table, 2 * page, 3 * page) == 0);
	CHECK(absent(table, page / 2, page) == page / 2); // the beginning of page 1
	CHECK(absent(table, page + 1, 10) == 10);
	CHECK(absent(table, 0, 0) == 0);
	CHECK(!table.absent(4999 * page, 2 * page, &bytes) && errno == ENODATA && bytes == 0);
	CHECK(close(file) == 0 && unlink(path) == 0);
	const Pagemap none(path);
	CHECK(!none.absent(0, page, &bytes) && errno == ENOENT && bytes == 0);
}

// Of memory that nobody has touched no page is present. mincore says the same of each page.
static void agrees_with_mincore()
{
	const size_t count = 9000;
	char *const memory = static_cast<char *>(mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	std::vector<unsigned char> there(count);
	std::mt19937 random(7);
	const Pagemap table;
	const auto base = reinterpret_cast<uintptr_t>(memory);

	CHECK(memory != MAP_FAILED && madvise(memory, count * page, MADV_NOHUGEPAGE) == 0);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 400; i++)
			memory[random() % count * page] = 1;
		CHECK(madvise(memory + random() % 8000 * page, 300 * page, MADV_DONTNEED) == 0);
		CHECK(mincore(memory, count * page, there.data()) == 0);
		const size_t first = random() % count, last = first + random() % (count - first);
		uint64_t missing = 0;
		for (size_t i = first; i < last; i++)
			missing += (there[i] & 1) == 0 ? page : 0;
		CHECK(absent(table, base + first * page, (last - first) * page) == missing);
	}
	munmap(memory, count * page);
}

static void takes_a_hundredth()
{
	Pace pace;

	CHECK(pace.due(0));
	pace.took(1000, 1005);
	CHECK(!pace.due(1499) && pace.due(1500));
}

int main()
{
	reads_a_file();
	agrees_with_mincore();
	takes_a_hundredth();
}
