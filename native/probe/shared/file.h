/* file.h: critical sections on a state file: locked, read, checked, edited, committed. */
#ifndef CASE_SHARED_FILE_H
#define CASE_SHARED_FILE_H

#include <stdbool.h>

#include "lock.h"
#include "state.h"

/* What a process knows that it holds on a device, whatever becomes of the file. */
struct tally {
	uint64_t bytes;
	uint32_t tasks;
	bool here; /* it has been granted the device once */
};

/* What a look at the clients has found (shared.c). */
struct dead {
	uint32_t count;
	struct case_shared_process process[CASE_SHARED_HOLDINGS];
	uint64_t next_look_ns;
};

struct shared {
	char path[4096], backup[4096 + 8];
	bool creates;                     /* it makes the file if it does not exist */
	struct case_shared_file *file;    /* NULL: not mapped yet. Only the kernel goes there (file_read) */
	dev_t device;                     /* of the file that is mapped */
	ino_t inode;
	struct case_shared_config config; /* as it was when the file was mapped */
	struct case_shared_process self;
	uint64_t epoch, sequence;         /* of the books that the tally was last entered in; 0: enter it */
	struct tally tally[CASE_SHARED_DEVICES];
	uint64_t asked[CASE_SHARED_REQUESTS]; /* the ids of the requests that its threads wait for */
	uint32_t asks;
	struct lock lock;
	uint64_t look_at_ns;              /* inside a section: the file's */
	bool recovered;                   /* inside a section: the books may not be up to date */
	uint32_t place;                   /* inside a section: the copy that will have the books */
	struct dead dead;
	struct case_shared_books books;   /* inside a section: what it edits. After it: as they were then */
};

/* shared_begin takes the lock, checks the file's integrity and reads it. Damaged books are replaced by
 * the other copy, by the backup, or else by empty books. Each client enters what it holds when it next
 * comes here. false: why says what to do; the section has not begun. */
bool shared_begin(struct shared *s, char *why, size_t why_size);

/* shared_end commits the books, releases the lock, and wakes the clients that have an answer. false:
 * the file cannot be written, and why says what to do. The next section enters what this process holds. */
bool shared_end(struct shared *s, char *why, size_t why_size);

/* shared_backup keeps the books as they stand in the section. */
void shared_backup(struct shared *s);

/* file_read and file_write move bytes between a mapped file and this process. false: the file does not
 * have them now. */
bool file_read(const void *in_file, void *to, size_t size);
bool file_write(void *in_file, const void *from, size_t size);

uint64_t shared_now_ns(void);

/* shared_point is where a test kills the process or counts its visits, most of them inside the section. */
#ifdef CASE_SHARED_POINTS
void shared_point(const char *name);
#else
#define shared_point(name) ((void)0)
#endif

#endif
