// pagemap.cc: see pagemap.h.
#include "pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace lazy {
namespace {

// An entry of the table is 8 bytes. Its last two bits say whether the page is swapped out, or present.
const uint64_t on_host = uint64_t{3} << 62;
const size_t most_entries = 4096;

} // namespace

Pagemap::Pagemap(const char *path) : file_(open(path, O_RDONLY | O_CLOEXEC)), error_(errno) {}

Pagemap::~Pagemap()
{
	if (file_ >= 0)
		close(file_);
}

bool Pagemap::absent(uintptr_t from, size_t size, uint64_t *bytes) const
{
	static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
	const uintptr_t end = from + size;
	uint64_t entries[most_entries], found = 0;

	if (file_ < 0) {
		errno = error_;
		return false;
	}
	for (uintptr_t at = from / page * page; at < end;) {
		const size_t count = std::min<size_t>(most_entries, (end - at + page - 1) / page);
		const ssize_t got = pread(file_, entries, count * sizeof *entries, static_cast<off_t>(at / page * sizeof *entries));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < static_cast<ssize_t>(sizeof *entries)) {
			errno = got < 0 ? errno : ENODATA;
			return false;
		}
		for (size_t i = 0; i < static_cast<size_t>(got) / sizeof *entries; i++, at += page)
			if ((entries[i] & on_host) == 0)
				found += std::min(at + page, end) - std::max(at, from);
	}
	*bytes += found;
	return true;
}

} // namespace lazy
