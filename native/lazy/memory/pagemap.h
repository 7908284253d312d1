// pagemap.h: which pages of this process's addresses are not on the host (pagemap.cc).
#ifndef CASE_LAZY_PAGEMAP_H
#define CASE_LAZY_PAGEMAP_H

#include <stddef.h>
#include <stdint.h>

namespace lazy {

// Pagemap reads Linux's table of a process's pages (Documentation/admin-guide/mm/pagemap.rst). Which pages are present
// needs no privilege. Managed memory that a GPU has is not present: the driver maps it on one side only.
class Pagemap {
public:
	explicit Pagemap(const char *path = "/proc/self/pagemap");
	~Pagemap();
	Pagemap(const Pagemap &) = delete;
	Pagemap &operator=(const Pagemap &) = delete;

	// absent adds to *bytes how much of [from, from + size) is neither in host memory nor swapped out. The first
	// and the last page count only as far as the range has them. false: the table cannot be read; errno says why.
	bool absent(uintptr_t from, size_t size, uint64_t *bytes) const;

private:
	const int file_; // -1: it cannot be opened
	const int error_;
};

// Pace keeps what is done again and again to one hundredth of the time. Times are of one clock, in nanoseconds.
class Pace {
public:
	bool due(uint64_t now) const { return now >= next_; }
	void took(uint64_t from, uint64_t to) { next_ = to + 99 * (to - from); }

private:
	uint64_t next_ = 0;
};

} // namespace lazy
#endif
