/* file.c: see file.h. */
#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static off_t written; /* bytes of whole records in the file */
static int failed;    /* a write failed: only losses are written from then on */

static unsigned char buffer[1 << 16];
static size_t filled;
static uint64_t buffered; /* kernels and copies in the buffer */
static uint64_t lost;     /* kernels and copies that could not be written, not yet told */

/* The string table: open addressing, at most half full. */
struct name {
	char *text;
	uint32_t id;
};
static struct name *names;
static uint32_t name_slots, name_count;

/* write_all appends bytes as a whole or not at all, so that the file never has
 * half a record inside. */
static int write_all(const void *bytes, size_t size)
{
	size_t done = 0;

	while (file >= 0 && done < size) {
		ssize_t n = pwrite(file, (const char *)bytes + done, size - done, written + (off_t)done);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	if (done == size) {
		written += (off_t)size;
		return 0;
	}
	if (file >= 0 && ftruncate(file, written) != 0) {
		close(file); /* readers tolerate a torn record only at the end of the file */
		file = -1;
	}
	return -1;
}

static void put_out(void)
{
	if (failed || write_all(buffer, filled) != 0) {
		failed = 1; /* later records may refer to a name that is missing */
		lost += buffered;
	}
	filled = 0;
	buffered = 0;
}

static void *reserve(size_t size)
{
	if (sizeof buffer - filled < size)
		put_out();
	void *at = buffer + filled;
	memset(at, 0, size);
	filled += size;
	return at;
}

static void put(void *record, uint16_t type, uint16_t size)
{
	memcpy(record, &type, sizeof type);
	memcpy((char *)record + sizeof type, &size, sizeof size);
	memcpy(reserve(size), record, size);
}

static void put_text(uint16_t type, uint32_t number, const char *text)
{
	size_t length = strnlen(text, CASE_TRACE_MAX_TEXT);
	size_t size = (sizeof(struct case_trace_name) + length + 7) / 8 * 8;
	struct case_trace_name *record = reserve(size); /* NOTE is alike */

	record->type = type;
	record->size = (uint16_t)size;
	record->id = number;
	memcpy(record->text, text, length);
}

static uint32_t slot_of(const char *text)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (const char *p = text; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	uint32_t i = hash & (name_slots - 1);
	while (names[i].text != NULL && strcmp(names[i].text, text) != 0)
		i = (i + 1) & (name_slots - 1);
	return i;
}

static int grow_names(void)
{
	uint32_t old_slots = name_slots, slots = old_slots != 0 ? 2 * old_slots : 256;
	struct name *old = names, *wider = calloc(slots, sizeof *wider);

	if (wider == NULL)
		return -1;
	names = wider;
	name_slots = slots;
	for (uint32_t i = 0; i < old_slots; i++)
		if (old[i].text != NULL)
			names[slot_of(old[i].text)] = old[i];
	free(old);
	return 0;
}

/* number_of writes a NAME record for a text that is new. Returns -1 without
 * memory. */
static int number_of(const char *text, uint32_t *id)
{
	if (2 * name_count >= name_slots && grow_names() != 0)
		return -1;
	uint32_t i = slot_of(text);
	if (names[i].text == NULL) {
		if ((names[i].text = strdup(text)) == NULL)
			return -1;
		names[i].id = name_count++;
		put_text(CASE_TRACE_NAME, names[i].id, text);
	}
	*id = names[i].id;
	return 0;
}

int trace_open(const char *dir, uint32_t pid, uint32_t cupti, uint64_t started_ns)
{
	struct case_trace_header header = {
		.version = CASE_TRACE_VERSION, .size = sizeof header, .pid = pid, .cupti = cupti, .started_ns = started_ns};
	char path[4096], number[16] = "";

	memcpy(header.magic, CASE_TRACE_MAGIC, sizeof header.magic);
	for (int before = 0; before < 1000; before++) {
		if (before > 0)
			snprintf(number, sizeof number, "-%d", before);
		if ((size_t)snprintf(path, sizeof path, "%s/%u%s.trace", dir, pid, number) >= sizeof path) {
			errno = ENAMETOOLONG;
			return -1;
		}
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 && errno == EEXIST)
			continue;
		if (fd < 0)
			return -1;
		pthread_mutex_lock(&lock);
		file = fd;
		memcpy(reserve(sizeof header), &header, sizeof header);
		put_out();
		pthread_mutex_unlock(&lock);
		return written == (off_t)sizeof header ? 0 : -1;
	}
	return -1;
}

void trace_kernel(struct case_trace_kernel *kernel, const char *text)
{
	pthread_mutex_lock(&lock);
	if (number_of(text, &kernel->name) == 0) {
		put(kernel, CASE_TRACE_KERNEL, sizeof *kernel);
		buffered++;
	} else {
		lost++;
	}
	pthread_mutex_unlock(&lock);
}

void trace_copy(struct case_trace_copy *copy)
{
	pthread_mutex_lock(&lock);
	put(copy, CASE_TRACE_COPY, sizeof *copy);
	buffered++;
	pthread_mutex_unlock(&lock);
}

void trace_device(uint32_t ordinal, const uint8_t uuid[16])
{
	struct case_trace_device record = {.ordinal = ordinal};

	memcpy(record.uuid, uuid, sizeof record.uuid);
	pthread_mutex_lock(&lock);
	put(&record, CASE_TRACE_DEVICE, sizeof record);
	pthread_mutex_unlock(&lock);
}

void trace_lost(uint64_t records)
{
	pthread_mutex_lock(&lock);
	lost += records;
	pthread_mutex_unlock(&lock);
}

void trace_note(uint32_t code, const char *text)
{
	pthread_mutex_lock(&lock);
	put_text(CASE_TRACE_NOTE, code, text);
	pthread_mutex_unlock(&lock);
}

void trace_end(uint64_t at_ns)
{
	struct case_trace_end record = {.at_ns = at_ns};

	pthread_mutex_lock(&lock);
	put(&record, CASE_TRACE_END, sizeof record);
	pthread_mutex_unlock(&lock);
}

void trace_flush(void)
{
	struct case_trace_lost record = {.type = CASE_TRACE_LOST, .size = sizeof record};

	pthread_mutex_lock(&lock);
	put_out();
	record.records = lost;
	if (lost > 0 && write_all(&record, sizeof record) == 0)
		lost = 0;
	pthread_mutex_unlock(&lock);
}
