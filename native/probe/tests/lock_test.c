/* lock_test.c: the file lock of the shared-memory architecture, against programs that
 * close descriptors that are not theirs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../shared/lock.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("lock_test:%d: %s: %s\n", __LINE__, __func__, #condition); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

enum { PROCESSES = 4, SECTIONS = 500 };

static char path[] = "/tmp/lock_testXXXXXX";

/* What only the holder of the lock writes, without any other care. */
static volatile struct {
	long first, second;
} *book;

static atomic_bool done;

/* closes is the part of a program that closes all from 3 up. */
static void *closes(void *unused)
{
	(void)unused;
	while (!atomic_load(&done)) {
		close_range(3, ~0U, 0);
		sched_yield();
	}
	return NULL;
}

static void section(struct lock *lock)
{
	CHECK(shared_lock_take(lock, path, NULL) == 0);
	const long before = book->first;
	CHECK(book->second == before);
	book->first = before + 1;
	for (int i = 0; i < 3; i++)
		sched_yield(); /* another process that believes it holds the lock comes now */
	book->second = before + 1;
	CHECK(book->first == before + 1);
	shared_lock_give(lock);
}

static void program(void)
{
	struct lock lock;
	pthread_t closer;

	CHECK(pthread_create(&closer, NULL, closes, NULL) == 0);
	for (int i = 0; i < SECTIONS; i++)
		section(&lock);
	atomic_store(&done, true);
	pthread_join(closer, NULL);
	_exit(0);
}

static void closed_descriptors(void)
{
	int status;

	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			program();
	for (int i = 0; i < PROCESSES; i++)
		CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(book->first == PROCESSES * SECTIONS && book->second == book->first);
}

/* A process that is killed in the section releases the lock, even if a child lives on that the
 * process made there past the library. */
static void killed_with_a_child(void)
{
	struct lock lock;
	int ready[2], status;
	pid_t child;

	CHECK(pipe(ready) == 0);
	const pid_t holder = fork();
	if (holder == 0) {
		CHECK(shared_lock_take(&lock, path, NULL) == 0);
		child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
		if (child == 0)
			for (;;)
				pause();
		CHECK(write(ready[1], &child, sizeof child) == sizeof child);
		raise(SIGKILL);
	}
	CHECK(read(ready[0], &child, sizeof child) == sizeof child);
	CHECK(waitpid(holder, &status, 0) == holder && WIFSIGNALED(status));
	CHECK(kill(child, 0) == 0);
	CHECK(shared_lock_take(&lock, path, NULL) == 0);
	shared_lock_give(&lock);
	kill(child, SIGKILL);
	close(ready[0]);
	close(ready[1]);
}

/* What another description of the same process holds, it waits for. */
static void excludes(void)
{
	struct lock lock;

	CHECK(shared_lock_take(&lock, path, NULL) == 0);
	const pid_t other = fork();
	if (other == 0)
		_exit(flock(open(path, O_RDWR), LOCK_EX | LOCK_NB) == 0);
	int status;
	CHECK(waitpid(other, &status, 0) == other && WEXITSTATUS(status) == 0);
	shared_lock_give(&lock);
}

int main(void)
{
	const int fd = mkstemp(path);

	CHECK(fd >= 0 && ftruncate(fd, sizeof *book) == 0);
	book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(book != MAP_FAILED);
	close(fd);
	alarm(60); /* a lock that nobody releases */
	excludes();
	closed_descriptors();
	killed_with_a_child();
	unlink(path);
	puts("lock_test: ok");
	return 0;
}
