/* file.c: see file.h.
 *
 * A section reads what is in use of the file into memory of this process, checks it and works there.
 * So no index can change between its check and its use, and a file that is damaged or truncated at any
 * moment does not end the process. */
#define _GNU_SOURCE /* syscall */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* What is copied between a mapped file and this process. */
struct piece {
	void *in_file, *here;
	size_t size;
};
enum { PIECES = 4 };

/* move has the kernel copy the pieces, one after the other. The kernel fails where the file has been
 * truncated; an access of this process would end it with SIGBUS. Where the kernel does not offer these
 * calls (some sandboxes) the process copies. */
static bool move(long call, const struct piece *pieces, unsigned long count)
{
	struct iovec file[PIECES], own[PIECES];
	ssize_t all = 0;

	for (unsigned long i = 0; i < count; i++) {
		file[i] = (struct iovec){pieces[i].in_file, pieces[i].size};
		own[i] = (struct iovec){pieces[i].here, pieces[i].size};
		all += (ssize_t)pieces[i].size;
	}
	const ssize_t moved = all == 0 ? 0 : syscall(call, getpid(), own, count, file, count, 0);
	if (moved >= 0 || (errno != ENOSYS && errno != EPERM))
		return moved == all;
	for (unsigned long i = 0; i < count; i++)
		if (call == SYS_process_vm_readv)
			memcpy(pieces[i].here, pieces[i].in_file, pieces[i].size);
		else
			memcpy(pieces[i].in_file, pieces[i].here, pieces[i].size);
	return true;
}

bool file_read(const void *in_file, void *to, size_t size)
{
	return move(SYS_process_vm_readv, &(struct piece){(void *)(uintptr_t)in_file, to, size}, 1);
}

bool file_write(void *in_file, const void *from, size_t size)
{
	return move(SYS_process_vm_writev, &(struct piece){in_file, (void *)(uintptr_t)from, size}, 1);
}

static const size_t books_head = offsetof(struct case_shared_books, holding);

/* What each section reads first. */
struct heads {
	struct {
		struct case_shared_config config;
		uint8_t mutex[sizeof ((struct case_shared_file *)0)->mutex];
		uint64_t committed, look_at_ns;
	} file;
	struct {
		uint64_t checksum, sequence, epoch, last_id;
		uint32_t holdings, requests;
	} books[2];
};
static_assert(sizeof((struct heads *)0)->file == offsetof(struct case_shared_file, bell), "the file's head");
static_assert(sizeof((struct heads *)0)->books[0] == offsetof(struct case_shared_books, holding), "the books' head");

static bool read_heads(const struct shared *s, struct heads *to)
{
	const struct piece pieces[] = {
		{s->file, &to->file, sizeof to->file},
		{&s->file->books[0], &to->books[0], sizeof to->books[0]},
		{&s->file->books[1], &to->books[1], sizeof to->books[1]},
	};

	return move(SYS_process_vm_readv, pieces, 3);
}

/* read_books reads a copy of the books, whose head is known. false: it is damaged. */
static bool read_books(struct shared *s, const struct heads *heads, uint32_t copy)
{
	struct case_shared_books *to = &s->books, *from = &s->file->books[copy];

	memcpy(to, &heads->books[copy], books_head);
	if (to->holdings > CASE_SHARED_HOLDINGS || to->requests > CASE_SHARED_REQUESTS)
		return false;
	const struct piece pieces[] = {
		{from->holding, to->holding, to->holdings * sizeof *to->holding},
		{from->request, to->request, to->requests * sizeof *to->request},
	};
	return move(SYS_process_vm_readv, pieces, 2) && books_valid(&s->config, to);
}

/* write_books writes the books and then commits them, which is the last piece. */
static bool write_books(struct shared *s)
{
	struct case_shared_books *to = &s->file->books[s->place], *from = &s->books;
	const struct piece pieces[] = {
		{to, from, books_head},
		{to->holding, from->holding, from->holdings * sizeof *to->holding},
		{to->request, from->request, from->requests * sizeof *to->request},
		{&s->file->committed, &from->checksum, sizeof from->checksum},
	};

	return move(SYS_process_vm_writev, pieces, PIECES);
}

/* owned says whether a descriptor is of a file of this user. */
static bool owned(int fd)
{
	struct stat found;

	return fstat(fd, &found) == 0 && found.st_uid == geteuid() && S_ISREG(found.st_mode);
}

void shared_backup(struct shared *s)
{
	struct case_shared_books *books = &s->books;
	const uint32_t requests = books->requests;
	const struct iovec parts[] = {
		{&s->config, sizeof s->config},
		{books, books_head + books->holdings * sizeof *books->holding},
	};
	char path[sizeof s->backup + 4];

	snprintf(path, sizeof path, "%s.new", s->backup);
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || !owned(fd)) {
		if (fd >= 0)
			close(fd);
		return; /* the earlier backup stays */
	}
	books->requests = 0; /* who waits asks again */
	books->checksum = books_checksum(books);
	const bool whole = ftruncate(fd, 0) == 0 && writev(fd, parts, 2) == (ssize_t)(parts[0].iov_len + parts[1].iov_len);
	books->requests = requests;
	close(fd);
	shared_point("backup written");
	if (!whole || rename(path, s->backup) != 0)
		unlink(path);
}

/* read_backup reads the backup's books into s->books. */
static bool read_backup(struct shared *s, struct case_shared_config *config)
{
	const struct iovec parts[] = {{config, sizeof *config}, {&s->books, sizeof s->books}};
	const int fd = open(s->backup, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return false;
	const ssize_t n = owned(fd) ? readv(fd, parts, 2) : -1;
	close(fd);
	const ssize_t head = (ssize_t)(sizeof *config + books_head);
	return n >= head && books_config_valid(config) && s->books.requests == 0 &&
	       s->books.holdings <= (size_t)(n - head) / sizeof *s->books.holding && books_valid(config, &s->books);
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

/* restore_config settles the configuration of a file that has none, or a damaged one. `found` is what it
 * has. A file of another version has no backup of this version; so a damaged version is none. */
static bool restore_config(struct shared *s, const struct case_shared_config *found, char *why, size_t why_size)
{
	struct case_shared_config kept;

	if (books_config_valid(&s->config))
		return true;
	if (read_backup(s, &kept)) {
		s->config = kept;
		return true;
	}
	if (found->magic == CASE_SHARED_MAGIC && found->version != CASE_SHARED_VERSION) {
		snprintf(why, why_size, "the state file %s is of version %u, this library's is %d: "
		                        "use one library, or remove the file when no program uses it",
		         s->path, found->version, CASE_SHARED_VERSION);
		return false;
	}
	if (!s->creates) {
		snprintf(why, why_size, "the state file %s is damaged, and so is its backup: start the run again", s->path);
		return false;
	}
	char reason[128];
	if (default_config(&s->config, reason, sizeof reason))
		return true;
	snprintf(why, why_size, "the state file %s is damaged, and so is its backup, and it cannot be made anew: %s", s->path, reason);
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

/* write_part writes a part of the file, also while another program truncates it. */
static bool write_part(struct shared *s, bool (*part)(struct shared *s), char *why, size_t why_size)
{
	for (int tries = 0; tries < 100; tries++) {
		if (part(s))
			return true;
		if (!make_whole(s, why, why_size))
			return false;
	}
	snprintf(why, why_size, "write the state file %s: another program truncates it again and again", s->path);
	return false;
}

static bool write_config(struct shared *s) { return file_write(&s->file->config, &s->config, sizeof s->config); }

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

/* recover fills in the books, if the file does not have the committed ones. */
static void recover(struct shared *s, const struct heads *heads)
{
	const uint32_t later = heads->books[1].sequence > heads->books[0].sequence;
	struct case_shared_config kept;

	for (s->place = later ^ 1;; s->place ^= 1) {
		if (read_books(s, heads, s->place ^ 1))
			return;
		if (s->place == later)
			break;
	}
	if (read_backup(s, &kept) && books_valid(&s->config, &s->books))
		return;
	memset(&s->books, 0, books_head);
}

/* enter_tally writes what this process holds into books that may not know it. The threads that wait
 * ask for their requests again. */
static void enter_tally(struct shared *s)
{
	struct case_shared_books *books = &s->books;

	books_forget(books, &s->self);
	for (uint32_t device = 0; device < s->config.devices; device++) {
		const struct tally *t = &s->tally[device];
		if (t->here && books->holdings < CASE_SHARED_HOLDINGS)
			books->holding[books->holdings++] =
				(struct case_shared_holding){s->self, t->bytes, device, t->tasks};
	}
	s->epoch = books->epoch;
}

static bool asks_for(const struct shared *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->asks; i++)
		if (s->asked[i] == id)
			return true;
	return false;
}

/* agree says whether the books have of this process what it knows of itself. They do not if they are of an
 * earlier moment, which only the process shows whose part has changed since. */
static bool agree(const struct shared *s)
{
	const struct case_shared_books *books = &s->books;
	struct tally known[CASE_SHARED_DEVICES];

	memcpy(known, s->tally, sizeof known);
	for (uint32_t i = 0; i < books->requests; i++) {
		const struct case_shared_request *r = &books->request[i];
		if (r->process.pid != s->self.pid || !books_same(&r->process, &s->self))
			continue;
		if (!asks_for(s, r->id))
			return false;
		if (r->answer == CASE_SHARED_GRANTED) {
			known[r->device].here = true;
			known[r->device].bytes += r->bytes;
			known[r->device].tasks += r->grows ? 0 : 1;
		}
	}
	for (uint32_t i = 0; i < books->holdings; i++) {
		const struct case_shared_holding *h = &books->holding[i];
		if (h->process.pid != s->self.pid || !books_same(&h->process, &s->self))
			continue;
		struct tally *t = &known[h->device];
		if (!t->here || t->bytes != h->bytes || t->tasks != h->tasks)
			return false;
		t->here = false;
	}
	for (uint32_t device = 0; device < s->config.devices; device++)
		if (known[device].here && books->holdings < CASE_SHARED_HOLDINGS)
			return false;
	return true;
}

/* open_books settles what the section starts from. */
static void open_books(struct shared *s, const struct heads *heads)
{
	const uint32_t now = heads->books[0].checksum == heads->file.committed ? 0 : 1;

	s->place = now ^ 1;
	bool intact = heads->books[now].checksum == heads->file.committed && read_books(s, heads, now);
	if (!intact)
		recover(s, heads);
	else if (s->books.epoch == s->epoch && s->books.sequence < s->sequence)
		intact = false; /* somebody has put an earlier state in the place of the file's */
	s->recovered = !intact;
	if (!intact) {
		s->books.epoch = shared_now_ns();
		if (s->books.last_id < s->books.epoch)
			s->books.last_id = s->books.epoch; /* which is above each id that was given */
	}
	if (s->books.epoch != s->epoch || !agree(s))
		enter_tally(s);
}

/* open_file reads the file, and makes its configuration the one that this process knows. */
static bool open_file(struct shared *s, char *why, size_t why_size)
{
	struct heads heads = {.file.committed = 0};
	struct case_shared_config *config = &heads.file.config;
	const off_t size = s->lock.found.st_size;
	const bool whole = size == sizeof *s->file && read_heads(s, &heads);

	if (!whole && size >= (off_t)sizeof *config)
		file_read(s->file, config, sizeof *config);
	if (books_config_valid(config))
		s->config = *config;
	else if (!restore_config(s, config, why, why_size))
		return false; /* and leaves the file as it is */
	if (!whole && !make_whole(s, why, why_size))
		return false;
	if (!whole && !read_heads(s, &heads)) /* truncated since */
		memset(&heads, 0, sizeof heads);
	if (!books_config_valid(config) && !write_part(s, write_config, why, why_size))
		return false;
	s->look_at_ns = heads.file.look_at_ns;
	open_books(s, &heads);
	if (size == 0) {
		shared_lock_prepare(s->file);
		shared_backup(s);
	}
	return true;
}

/* take_lock takes the lock. The run puts back a file that a program has removed or replaced, so a client of a run waits
 * for that. */
static int take_lock(struct shared *s)
{
	const uint64_t patience_ns = 2000000000, until = shared_now_ns() + patience_ns;
	const struct timespec pause = {0, 10000000};

	for (;;) {
		const int failed = shared_lock_take(&s->lock, s->path, s->file);
		if (failed == 0 || s->creates || shared_now_ns() >= until)
			return failed;
		nanosleep(&pause, NULL);
	}
}

bool shared_begin(struct shared *s, char *why, size_t why_size)
{
	int failed = take_lock(s);

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
	if (map(s, why, why_size) && open_file(s, why, why_size)) {
		shared_point("opened");
		return true;
	}
	memset(&s->books, 0, books_head); /* they may be damaged */
	shared_lock_give(&s->lock);
	return false;
}

/* change_bells makes each thread that has an answer return from its futex, or not begin to wait there. A
 * client that was killed before it rang is made good here. In recovered books every thread may be
 * missing, so all return, and ask again. */
static void change_bells(struct shared *s, bool rung[CASE_SHARED_BELLS])
{
	uint32_t bell[CASE_SHARED_BELLS];
	bool some = s->recovered;

	memset(rung, s->recovered, CASE_SHARED_BELLS * sizeof *rung);
	for (uint32_t i = 0; i < s->books.requests; i++)
		if (s->books.request[i].answer != CASE_SHARED_WAITING)
			some = rung[s->books.request[i].id % CASE_SHARED_BELLS] = true;
	if (!some || !file_read(s->file->bell, bell, sizeof bell))
		return;
	for (uint32_t i = 0; i < CASE_SHARED_BELLS; i++)
		bell[i] += rung[i];
	file_write(s->file->bell, bell, sizeof bell); /* else the file has been truncated: who wakes up recovers it */
}

/* ring wakes the threads that wait at these bells. */
static void ring(struct case_shared_file *file, const bool rung[CASE_SHARED_BELLS])
{
	for (uint32_t i = 0; i < CASE_SHARED_BELLS; i++)
		if (rung[i])
			syscall(SYS_futex, &file->bell[i], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool shared_end(struct shared *s, char *why, size_t why_size)
{
	struct case_shared_books *books = &s->books;
	bool rung[CASE_SHARED_BELLS] = {false};

	books->sequence++;
	books->checksum = books_checksum(books);
	shared_point("edited");
	const bool done = write_part(s, write_books, why, why_size);
	if (done) {
		s->sequence = books->sequence;
		shared_point("committed");
		change_bells(s, rung);
	} else {
		s->epoch = 0;
	}
	shared_lock_give(&s->lock);
	shared_point("unlocked");
	ring(s->file, rung);
	return done;
}
