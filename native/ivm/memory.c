/* memory.c: the calls about memory, in a PE. A PE maps the master copy beside the mirror of its device. So put and get copy, and ask
 * nobody. */
#define _POSIX_C_SOURCE 200809L /* pthread_rwlock_t */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pe.h"

/* The same bytes in the mirror of a device, for group forms. */
struct peer {
	struct peer *next;
	ivm_dev dev;
	char *at;
};

/* A mapping of bytes of an object. master is equal to copy on the device that has the master copy. */
struct mapping {
	struct mapping *next;
	uint64_t object;
	size_t offset, bytes; /* of the first byte in the object */
	char *copy, *master;  /* the first byte */
	struct peer *peers;   /* of devices that group forms have met. group_lock is for these. */
};

static struct mapping *mappings;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* of mappings */
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;

/* in_page returns how far an offset is in its page, where a mapping must begin. */
static size_t in_page(size_t offset)
{
	return offset % (size_t)sysconf(_SC_PAGESIZE);
}

/* map_copy maps a range of a copy, and stores the address of its first byte. It returns 0 or a negative errno value. */
static int map_copy(int fd, size_t offset, size_t bytes, char **at)
{
	const size_t before = in_page(offset);
	char *start = mmap(NULL, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));

	if (start == MAP_FAILED)
		return -errno;
	*at = start + before;
	return 0;
}

static void unmap_copy(char *at, size_t offset, size_t bytes)
{
	munmap(at - in_page(offset), in_page(offset) + bytes);
}

static void drop(struct mapping *m)
{
	while (m->peers != NULL) {
		struct peer *p = m->peers;
		m->peers = p->next;
		unmap_copy(p->at, m->offset, m->bytes);
		free(p);
	}
	if (m->master != m->copy && m->master != NULL)
		unmap_copy(m->master, m->offset, m->bytes);
	if (m->copy != NULL)
		unmap_copy(m->copy, m->offset, m->bytes);
	free(m);
}

/* fill copies the bytes that the mirror has not yet, hole after hole. Other PEs of the device wait meanwhile. */
static int fill(const struct mapping *m, struct range hole)
{
	struct reply reply = {.hole = hole};
	const struct request filled = {.call = CALL_FILLED, .object = m->object, .range = {m->offset, m->offset + m->bytes}};
	int result = 0;

	while (result == 0 && reply.hole.begin < reply.hole.end) {
		const size_t from = reply.hole.begin - m->offset;
		memcpy(m->copy + from, m->master + from, reply.hole.end - reply.hole.begin);
		result = pe_call(&filled, &reply, NULL);
	}
	return result;
}

static int remove_object(uint64_t object)
{
	struct reply reply;

	return pe_call(&(struct request){.call = CALL_FREE, .object = object}, &reply, NULL);
}

/* map asks for copies of an object and maps them. */
static int map(const struct request *request, void **at, size_t *bytes)
{
	struct reply reply;
	int fds[MOST_FDS];
	struct mapping *m = calloc(1, sizeof *m);

	if (m == NULL)
		return -ENOMEM;
	int result = pe_call(request, &reply, fds);
	if (result != 0) {
		free(m);
		return result;
	}
	m->object = reply.object;
	m->offset = request->range.begin;
	m->bytes = (request->range.begin < request->range.end ? request->range.end : reply.bytes) - m->offset;
	result = map_copy(fds[0], m->offset, m->bytes, &m->copy);
	m->master = m->copy;
	if (result == 0 && fds[1] >= 0)
		result = map_copy(fds[1], m->offset, m->bytes, &m->master);
	for (int i = 0; i < MOST_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (result == 0)
		result = fill(m, reply.hole);
	if (result != 0) {
		if (request->call == CALL_MALLOC)
			remove_object(m->object);
		drop(m);
		return result;
	}
	*at = m->copy;
	if (bytes != NULL)
		*bytes = reply.bytes;
	pthread_rwlock_wrlock(&lock);
	m->next = mappings;
	mappings = m;
	pthread_rwlock_unlock(&lock);
	return 0;
}

/* name_object puts the name of an object into a request. It returns 0 or -EINVAL. */
static int name_object(struct request *request, const char *name)
{
	const size_t length = name != NULL ? strlen(name) : 0;

	if (length == 0 || length > IVM_NAME)
		return -EINVAL;
	memcpy(request->name, name, length + 1);
	return 0;
}

int ivm_malloc(const char *name, size_t bytes, void **at)
{
	struct request request = {.call = CALL_MALLOC, .range = {0, bytes}};

	return name_object(&request, name) != 0 || bytes == 0 ? -EINVAL : map(&request, at, NULL);
}

int ivm_map(const char *name, void **at, size_t *bytes)
{
	struct request request = {.call = CALL_MAP};

	return name_object(&request, name) != 0 ? -EINVAL : map(&request, at, bytes);
}

int ivm_map_subset(const char *name, size_t offset, size_t bytes, void **at)
{
	struct request request = {.call = CALL_MAP, .range = {offset, offset + bytes}};

	if (name_object(&request, name) != 0 || bytes == 0)
		return -EINVAL;
	return offset + bytes < offset ? -ERANGE : map(&request, at, NULL);
}

/* take removes the mapping of an address from the list. NULL: there is none. */
static struct mapping *take(const void *at)
{
	struct mapping **link = &mappings;

	pthread_rwlock_wrlock(&lock);
	while (*link != NULL && (*link)->copy != at)
		link = &(*link)->next;
	struct mapping *m = *link;
	if (m != NULL)
		*link = m->next;
	pthread_rwlock_unlock(&lock);
	return m;
}

int ivm_unmap(void *at)
{
	if (pe_entered() != 0)
		return -ENOTCONN;
	struct mapping *m = take(at);
	if (m == NULL)
		return -EFAULT;
	drop(m);
	return 0;
}

int ivm_free(void *at)
{
	if (pe_entered() != 0)
		return -ENOTCONN;
	struct mapping *m = take(at);
	if (m == NULL)
		return -EFAULT;
	const uint64_t object = m->object;
	drop(m);
	return remove_object(object);
}

void memory_unmap_all(void)
{
	while (mappings != NULL)
		drop(take(mappings->copy));
}

/* find returns the mapping that has bytes at an address, or NULL with -EFAULT or -ERANGE in *failed. The caller has the lock. */
static struct mapping *find(const void *at, size_t bytes, int *failed)
{
	*failed = -EFAULT;
	for (struct mapping *m = mappings; m != NULL; m = m->next) {
		const size_t from = (size_t)((uintptr_t)at - (uintptr_t)m->copy);
		if ((uintptr_t)at < (uintptr_t)m->copy || from >= m->bytes)
			continue;
		*failed = bytes > m->bytes - from ? -ERANGE : 0;
		return *failed == 0 ? m : NULL;
	}
	return NULL;
}

static int sync_copies(const void *at, size_t bytes, bool put)
{
	int result = pe_entered();

	if (result != 0)
		return result;
	pthread_rwlock_rdlock(&lock);
	const struct mapping *m = find(at, bytes, &result);
	if (m != NULL && m->master != m->copy) {
		const size_t from = (size_t)((const char *)at - m->copy);
		memcpy((put ? m->master : m->copy) + from, (put ? m->copy : m->master) + from, bytes);
	}
	pthread_rwlock_unlock(&lock);
	return result;
}

int ivm_sync_put(const void *at, size_t bytes)
{
	return sync_copies(at, bytes, true);
}

int ivm_sync_get(void *at, size_t bytes)
{
	return sync_copies(at, bytes, false);
}

/* meet returns a mapping's bytes in the mirror of a device, whose descriptor this is, or NULL. */
static char *meet(struct mapping *m, ivm_dev dev, int mirror)
{
	struct peer *p = m->peers;

	while (p != NULL && p->dev != dev)
		p = p->next;
	if (p != NULL)
		return p->at;
	p = malloc(sizeof *p);
	if (p == NULL || map_copy(mirror, m->offset, m->bytes, &p->at) != 0) {
		free(p);
		return NULL;
	}
	p->dev = dev;
	p->next = m->peers;
	m->peers = p;
	return p->at;
}

/* A part, checked: where it is in both copies. mirror is NULL if the device has the master copy. */
struct checked {
	char *master, *mirror;
};

static int check_part(const struct ivm_part *part, struct checked *checked)
{
	struct reply reply;
	int fds[MOST_FDS], result;
	struct mapping *m = find(part->at, part->bytes, &result);

	if (m == NULL)
		return result;
	const size_t from = (size_t)((char *)part->at - m->copy), offset = m->offset + from;
	result = pe_call(&(struct request){.call = CALL_MIRROR, .dev = part->dev, .object = m->object, .range = {offset, offset + part->bytes}}, &reply, fds);
	if (result != 0 || fds[0] < 0)
		return result;
	char *mirror = meet(m, part->dev, fds[0]);
	close(fds[0]);
	if (mirror == NULL)
		return -ENOMEM;
	*checked = (struct checked){m->master + from, mirror + from};
	return 0;
}

static int sync_group(const struct ivm_part *parts, int count, bool put)
{
	int result = pe_entered();

	if (result != 0)
		return result;
	if (count < 0)
		return -EINVAL;
	struct checked *list = calloc((size_t)count + 1, sizeof *list);
	if (list == NULL)
		return -ENOMEM;
	pthread_rwlock_rdlock(&lock);
	pthread_mutex_lock(&group_lock);
	for (int i = 0; i < count && result == 0; i++)
		result = check_part(&parts[i], &list[i]);
	pthread_mutex_unlock(&group_lock);
	for (int i = 0; i < count && result == 0; i++)
		if (list[i].mirror != NULL)
			memcpy(put ? list[i].mirror : list[i].master, put ? list[i].master : list[i].mirror, parts[i].bytes);
	pthread_rwlock_unlock(&lock);
	free(list);
	return result;
}

int ivm_sync_put_group(const struct ivm_part *parts, int count)
{
	return sync_group(parts, count, true);
}

int ivm_sync_get_group(const struct ivm_part *parts, int count)
{
	return sync_group(parts, count, false);
}
