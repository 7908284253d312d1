/* file.h: critical sections on a state file: locked, checked, edited, committed. */
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

struct shared {
	char path[4096], backup[4096 + 8];
	bool creates;                     /* it makes the file if it does not exist */
	struct case_shared_file *file;    /* NULL: not mapped yet */
	dev_t device;                     /* of the file that is mapped */
	ino_t inode;
	struct case_shared_config config; /* as it was when the file was mapped */
	struct case_shared_process self;
	uint64_t epoch;                   /* of the books that the tally was entered in; 0: enter it */
	struct tally tally[CASE_SHARED_DEVICES];
	struct lock lock;
	struct case_shared_books *books;  /* inside a section: the copy that is being edited */
};

/* shared_begin takes the lock and checks the file's integrity. Damaged books are replaced by the
 * other copy, by the backup, or else by empty books. Each client enters what it holds when it next
 * comes here. false: why says what to do; the section has not begun. */
bool shared_begin(struct shared *s, char *why, size_t why_size);

/* shared_end commits the books, releases the lock, and wakes the clients that have an answer. */
void shared_end(struct shared *s);

/* shared_backup keeps the books as they stand in the section. */
void shared_backup(struct shared *s);

uint64_t shared_now_ns(void);

/* shared_point is where a test kills or stops the process, inside the section. */
#ifdef CASE_SHARED_POINTS
void shared_point(const char *name);
#else
#define shared_point(name) ((void)0)
#endif

#endif
