/* lock.h: the lock of a state file. One client of all processes holds the lock, and the end of the
 * client's process releases it. The library uses lock_file.c. The benchmark compares lock_mutex.c
 * with it. */
#ifndef CASE_SHARED_LOCK_H
#define CASE_SHARED_LOCK_H

#include <sys/stat.h>

#include "state.h"

struct lock {
	void *anchor;      /* the mapping by which it is held */
	struct stat found; /* the file at the path */
};

/* shared_lock_prepare makes a new file's lock. */
void shared_lock_prepare(struct case_shared_file *file);

/* shared_lock_take waits for the lock of the file at `path`, which is mapped at `file` (NULL: not
 * yet), and returns 0 or an errno value. One thread of a process calls it at a time. */
int shared_lock_take(struct lock *lock, const char *path, struct case_shared_file *file);

void shared_lock_give(struct lock *lock);

#endif
