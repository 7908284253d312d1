/* lock_mutex.c: see lock.h. The paper's mutex, for the benchmark. The paper found that a
 * process which is killed abandons a mutex in shared memory; a robust one tells the next to
 * take it, whose books are whole in any case (state.h). */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ROBUST */
#include "../shared/lock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static_assert(sizeof(pthread_mutex_t) <= sizeof ((struct case_shared_file *)0)->mutex, "mutex");

static pthread_mutex_t *mutex(struct case_shared_file *file) { return (pthread_mutex_t *)(void *)file->mutex; }

void shared_lock_prepare(struct case_shared_file *file)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(mutex(file), &attributes);
}

int shared_lock_take(struct lock *lock, const char *path, struct case_shared_file *file)
{
	lock->anchor = file;
	if (file == NULL) { /* the benchmark makes the file before its clients */
		const int fd = open(path, O_RDWR | O_CLOEXEC);
		lock->anchor = fd < 0 || fstat(fd, &lock->found) != 0
		                       ? MAP_FAILED
		                       : mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
		if (lock->anchor == MAP_FAILED)
			return errno;
	}
	const int failed = pthread_mutex_lock(mutex(lock->anchor));
	return failed == EOWNERDEAD ? pthread_mutex_consistent(mutex(lock->anchor)) : failed;
}

void shared_lock_give(struct lock *lock)
{
	pthread_mutex_unlock(mutex(lock->anchor)); /* by the address at which it was locked */
}
