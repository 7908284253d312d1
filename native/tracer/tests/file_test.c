/* file_test.c: what file.c does with many names, and when the disk is full. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../file.h"

static int failures;
static char path[4096];
static unsigned char content[1 << 22];

static void expect(const char *what, int ok)
{
	if (!ok) {
		fprintf(stderr, "file_test: %s\n", what);
		failures++;
	}
}

/* counts are what a reader finds: records by type, and whether the file ends
 * with the last of them. */
static int count(unsigned counts[8], uint64_t *lost, unsigned *highest_name)
{
	int fd = open(path, O_RDONLY);
	ssize_t size = fd < 0 ? -1 : read(fd, content, sizeof content);
	size_t at = sizeof(struct case_trace_header);

	close(fd);
	memset(counts, 0, 8 * sizeof *counts);
	*lost = 0;
	*highest_name = 0;
	while ((ssize_t)(at + 8) <= size) {
		struct case_trace_name head;
		memcpy(&head, content + at, sizeof head);
		if (head.type == 0 || head.type > 7 || head.size < 8)
			return -1;
		counts[head.type]++;
		if (head.type == CASE_TRACE_NAME && head.id > *highest_name)
			*highest_name = head.id;
		if (head.type == CASE_TRACE_KERNEL && head.id > *highest_name)
			return -1; /* its name is missing */
		if (head.type == CASE_TRACE_LOST) {
			struct case_trace_lost record;
			memcpy(&record, content + at, sizeof record);
			*lost += record.records;
		}
		at += head.size;
	}
	return (ssize_t)at == size ? 0 : -1;
}

static void limit(rlim_t bytes)
{
	struct rlimit l = {bytes, RLIM_INFINITY};

	setrlimit(RLIMIT_FSIZE, &l);
}

int main(int argc, char **argv)
{
	struct case_trace_kernel kernel = {.start_ns = 1, .end_ns = 2};
	unsigned counts[8], highest;
	uint64_t lost;
	char name[64];

	signal(SIGXFSZ, SIG_IGN); /* then writing past the limit is EFBIG */
	snprintf(path, sizeof path, "%s/77.trace", argc > 1 ? argv[1] : ".");
	unlink(path);
	expect("a directory that is not there is an error", trace_open("/nonexistent", 77, 18, 1) != 0);
	expect("the file opens", trace_open(argc > 1 ? argv[1] : ".", 77, 18, 1) == 0);

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3000; i++) {
			snprintf(name, sizeof name, "kernel_%d", i);
			trace_kernel(&kernel, name);
		}
	}
	expect("the last records wait for a flush", count(counts, &lost, &highest) == 0 && counts[CASE_TRACE_KERNEL] < 6000);
	trace_flush();
	expect("each name is written once", count(counts, &lost, &highest) == 0 && counts[CASE_TRACE_NAME] == 3000 &&
	       highest == 2999 && counts[CASE_TRACE_KERNEL] == 6000 && lost == 0);

	struct stat before, after;
	stat(path, &before);
	limit((rlim_t)before.st_size + 100); /* a record fits, and half of the next */
	for (int i = 0; i < 10; i++)
		trace_kernel(&kernel, "late");
	trace_flush();
	expect("what does not fit is counted as lost, and half a record is taken back",
	       count(counts, &lost, &highest) == 0 && counts[CASE_TRACE_KERNEL] == 6000 && lost == 10);
	stat(path, &after);
	limit((rlim_t)after.st_size + 8);
	trace_kernel(&kernel, "later");
	trace_flush();
	expect("a loss that cannot be written waits", count(counts, &lost, &highest) == 0 && lost == 10);
	limit(RLIM_INFINITY);
	trace_kernel(&kernel, "late");
	trace_flush();
	expect("losses are told when there is room", count(counts, &lost, &highest) == 0 && lost == 12 &&
	       counts[CASE_TRACE_KERNEL] == 6000);
	unlink(path);
	if (failures == 0)
		puts("file_test: ok");
	return failures != 0;
}
