/* file.c: see file.h.
 *
 * Integrity is checked at the start of each section. Only the part in use is checked, so that the
 * check takes less time than opening the file (docs/design/schedgpu.md). */
#define _GNU_SOURCE /* syscall */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "books.h"
#include "devices.h"

uint64_t shared_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the backup holds. */
struct backup {
	struct case_shared_config config;
	struct case_shared_books books;
};

__attribute__((noinline)) void shared_backup(struct shared *s)
{
	struct backup kept;
	char path[sizeof s->backup + 4];
	struct case_shared_books *books = &kept.books;

	kept.config = s->config;
	memcpy(books, s->books, offsetof(struct case_shared_books, holding) + s->books->holdings * sizeof *books->holding);
	books->requests = 0; /* who waits asks again */
	books->checksum = books_checksum(books);
	const size_t size = offsetof(struct backup, books.holding) + books->holdings * sizeof *books->holding;
	snprintf(path, sizeof path, "%s.new", s->backup);
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return; /* the earlier backup stays */
	const bool whole = write(fd, &kept, size) == (ssize_t)size;
	close(fd);
	shared_point("backup written");
	if (!whole || rename(path, s->backup) != 0)
		unlink(path);
}

static bool backup_read(const struct shared *s, struct backup *kept)
{
	const int fd = open(s->backup, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	*kept = (struct backup){.config = {.magic = 0}};
	if (fd < 0)
		return false;
	const ssize_t n = read(fd, kept, sizeof *kept);
	close(fd);
	return n >= (ssize_t)offsetof(struct backup, books.holding) && books_config_valid(&kept->config) &&
	       books_valid(&kept->config, &kept->books);
}

/* default_config is the configuration of a file that no run has made. */
static bool default_config(struct case_shared_config *config, char *why, size_t why_size)
{
	static const char *const names[] = {"fifo", "mmu", "priority-fifo", "priority-mmu"};
	const char *queue = getenv("SCHEDGPU_QUEUE");

	*config = (struct case_shared_config){
		.magic = CASE_SHARED_MAGIC,
		.version = CASE_SHARED_VERSION,
		.size = sizeof(struct case_shared_file),
		.policy = queue == NULL || *queue == '\0' ? CASE_SHARED_FIFO : 0,
	};
	for (uint32_t i = 0; config->policy == 0 && i < 4; i++)
		if (strcmp(queue, names[i]) == 0)
			config->policy = CASE_SHARED_FIFO + i;
	if (config->policy == 0) {
		snprintf(why, why_size, "SCHEDGPU_QUEUE is %s: set it to fifo, mmu, priority-fifo or priority-mmu", queue);
		return false;
	}
	if (!shared_devices(config, why, why_size))
		return false;
	config->checksum = books_config_checksum(config);
	return true;
}

/* choose_config settles the configuration of a file that has none. */
__attribute__((noinline)) static bool choose_config(struct shared *s, char *why, size_t why_size)
{
	struct backup kept;

	if (books_config_valid(&s->config))
		return true;
	if (backup_read(s, &kept)) {
		s->config = kept.config;
		return true;
	}
	if (s->creates)
		return default_config(&s->config, why, why_size);
	snprintf(why, why_size, "the state file %s is damaged, and so is its backup", s->path);
	return false;
}

/* make_whole gives the file its size, and memory for all of it. If /dev/shm is full, a write to a
 * page without memory would end the program. */
static bool make_whole(struct shared *s, char *why, size_t why_size)
{
	const size_t size = sizeof *s->file;
	const int fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int failed = fd < 0 ? errno : 0;

	if (!failed)
		failed = posix_fallocate(fd, 0, (off_t)size);
	if (!failed && s->lock.found.st_size > (off_t)size)
		failed = ftruncate(fd, (off_t)size) != 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (failed)
		snprintf(why, why_size, "give the state file %s its %zu bytes: %s; free memory there", s->path, size,
		         strerror(failed));
	return !failed;
}

/* map maps the file that is at the path now. The earlier file stays mapped, because another thread
 * may sleep there. */
static bool map(struct shared *s, char *why, size_t why_size)
{
	const struct stat *found = &s->lock.found;

	if (s->file != NULL && found->st_dev == s->device && found->st_ino == s->inode)
		return true;
	if (found->st_uid != geteuid() || !S_ISREG(found->st_mode)) {
		snprintf(why, why_size, "%s is not a file of this user", s->path);
		return false;
	}
	const int fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *s->file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		snprintf(why, why_size, "map %s: %s", s->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (mapped == MAP_FAILED)
		return false;
	s->file = mapped;
	s->device = found->st_dev;
	s->inode = found->st_ino;
	s->epoch = 0;
	return true;
}

/* of_another_version says so of a file that another version of the library has made. */
static bool of_another_version(struct shared *s, char *why, size_t why_size)
{
	const struct case_shared_config *config = &s->file->config;

	if (s->lock.found.st_size < (off_t)offsetof(struct case_shared_config, size) ||
	    config->magic != CASE_SHARED_MAGIC || config->version == CASE_SHARED_VERSION)
		return false;
	snprintf(why, why_size, "the state file %s is of version %u, this library's is %d: "
	                        "use one library, or remove the file when no program uses it",
	         s->path, config->version, CASE_SHARED_VERSION);
	return true;
}

/* copy copies what is in use of the books. */
static void copy(struct case_shared_books *to, const struct case_shared_books *from)
{
	memcpy(to, from, offsetof(struct case_shared_books, holding) + from->holdings * sizeof *from->holding);
	memcpy(to->request, from->request, from->requests * sizeof *from->request);
}

/* recover fills in the books that are to be edited, if the active books are damaged. */
__attribute__((noinline)) static void recover(struct shared *s, const struct case_shared_books *other)
{
	struct backup kept;
	struct case_shared_books found = {.epoch = 0};

	if (books_valid(&s->config, other))
		copy(&found, other);
	else if (backup_read(s, &kept) && books_valid(&s->config, &kept.books))
		copy(&found, &kept.books);
	copy(s->books, &found);
	s->books->epoch = shared_now_ns();
}

/* enter_tally writes what this process holds into books that may not know it. The threads that wait
 * ask for their requests again. */
static void enter_tally(struct shared *s)
{
	struct case_shared_books *books = s->books;

	books_forget(books, &s->self);
	for (uint32_t device = 0; device < s->config.devices; device++) {
		const struct tally *t = &s->tally[device];
		if (t->here && books->holdings < CASE_SHARED_HOLDINGS)
			books->holding[books->holdings++] =
				(struct case_shared_holding){s->self, t->bytes, device, t->tasks};
	}
	s->epoch = books->epoch;
}

/* open_books settles what the section starts from. */
static void open_books(struct shared *s)
{
	const uint32_t active = atomic_load((_Atomic uint32_t *)&s->file->active);
	struct case_shared_books *now = &s->file->books[active & 1];

	s->books = &s->file->books[(active & 1) ^ 1];
	if (active <= 1 && books_valid(&s->config, now))
		copy(s->books, now);
	else
		recover(s, s->books);
	if (s->books->epoch != s->epoch)
		enter_tally(s);
}

/* check_config makes the file's configuration the one that this process knows. */
static bool check_config(struct shared *s, char *why, size_t why_size)
{
	struct case_shared_config *config = &s->file->config;

	if (books_config_valid(config)) {
		s->config = *config;
		return true;
	}
	const bool was_new = s->lock.found.st_size == 0;
	if (!choose_config(s, why, why_size))
		return false;
	*config = s->config;
	if (was_new)
		shared_lock_prepare(s->file);
	return true;
}

bool shared_begin(struct shared *s, char *why, size_t why_size)
{
	int failed = shared_lock_take(&s->lock, s->path, s->file);

	if (failed == ENOENT && s->creates) {
		if (!books_config_valid(&s->config) && !default_config(&s->config, why, why_size))
			return false;
		const int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		failed = fd < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
		if (!failed)
			failed = shared_lock_take(&s->lock, s->path, s->file);
	}
	if (failed) {
		snprintf(why, why_size, "lock the state file %s: %s", s->path, strerror(failed));
		return false;
	}
	shared_point("locked");
	if (map(s, why, why_size) && !of_another_version(s, why, why_size) &&
	    (s->lock.found.st_size == sizeof *s->file || make_whole(s, why, why_size)) &&
	    check_config(s, why, why_size)) {
		open_books(s);
		shared_point("opened");
		return true;
	}
	shared_lock_give(&s->lock);
	return false;
}

/* ring wakes the threads that wait at these bells. */
static void ring(struct case_shared_file *file, const bool bells[CASE_SHARED_BELLS])
{
	for (uint32_t i = 0; i < CASE_SHARED_BELLS; i++)
		if (bells[i]) {
			atomic_fetch_add((_Atomic uint32_t *)&file->bell[i], 1);
			syscall(SYS_futex, &file->bell[i], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		}
}

void shared_end(struct shared *s)
{
	struct case_shared_books *books = s->books;
	bool bells[CASE_SHARED_BELLS] = {false};

	for (uint32_t i = 0; i < books->requests; i++)
		if (books->request[i].answer != CASE_SHARED_WAITING)
			bells[books->request[i].id % CASE_SHARED_BELLS] = true;
	books->checksum = books_checksum(books);
	shared_point("edited");
	atomic_store((_Atomic uint32_t *)&s->file->active, (uint32_t)(books - s->file->books));
	shared_point("committed");
	shared_lock_give(&s->lock);
	shared_point("unlocked");
	ring(s->file, bells);
}
