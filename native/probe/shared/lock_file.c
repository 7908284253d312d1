/* lock_file.c: see lock.h. The paper's file lock, which the kernel releases when its holder ends,
 * however it ends.
 *
 * A program may close descriptors that it did not open: some code closes all descriptors from 3 up.
 * A POSIX lock (fcntl, F_SETLK) goes with the first descriptor of the file that the process closes.
 * A lock of flock belongs to the open file description, which lasts as long as a descriptor or a
 * mapping refers to it. So each critical section opens the file, maps a page of it, locks it and
 * closes the descriptor. Inside the section no descriptor is open that the program could close.
 * The end of the section unmaps the page, which closes the description and so unlocks. A child made
 * during the section has neither descriptor nor mapping.
 *
 * A descriptor that is kept from one section to the next takes a tenth of the time
 * (docs/design/schedgpu.md). But the program may close its number, and use it again, between any check and
 * its use. A child made by a bare clone would also keep the lock of a parent that is killed. */
#define _GNU_SOURCE /* MADV_DONTFORK */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t page = 4096;

void shared_lock_prepare(struct case_shared_file *file) { (void)file; }

/* names says whether the descriptor is of the file `found`, and reads the file's status again. */
static bool names(int fd, struct stat *found)
{
	struct stat now;

	if (fstat(fd, &now) != 0 || now.st_dev != found->st_dev || now.st_ino != found->st_ino)
		return false;
	*found = now;
	return true;
}

int shared_lock_take(struct lock *lock, const char *path, struct case_shared_file *file)
{
	(void)file;
	for (;;) {
		if (stat(path, &lock->found) != 0)
			return errno;
		const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			return errno;
		/* Another thread of the program may close the number at any time, or all of them. */
		void *anchor = names(fd, &lock->found) ? mmap(NULL, page, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
		int failed = anchor == MAP_FAILED ? errno : 0;
		if (!failed) {
			madvise(anchor, page, MADV_DONTFORK);
			do
				failed = flock(fd, LOCK_EX) != 0 ? errno : 0;
			while (failed == EINTR);
		}
		const bool ours = names(fd, &lock->found); /* with its size, now that it is locked */
		if (ours)
			close(fd);
		lock->anchor = anchor;
		if (!failed && ours)
			return 0;
		if (anchor != MAP_FAILED)
			munmap(anchor, page);
		if (ours)
			return failed;
	}
}

void shared_lock_give(struct lock *lock)
{
	munmap(lock->anchor, page);
}
