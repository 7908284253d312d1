/* memory.c: the calls about memory, in a PE. A PE maps the master copy beside the mirror of its device, if it is on its node. So put and
 * get copy, and ask nobody. To and from other nodes the node copies (CALL_TRANSFER). On a GPU a PE maps all of a copy, because CUDA maps
 * no part (gpu.c). */
#define _GNU_SOURCE /* PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"
#include "pe.h"

/* A copy, and where its first mapped byte is. There is no address of a copy on another node. */
struct side {
	struct place first;
	struct home home;
};

/* The same bytes in the mirror of a device, for group forms. */
struct peer {
	struct peer *next;
	struct side mirror;
	struct range has; /* what the mirror had when the application had dropped so many copies */
	uint64_t drops;
};

/* A mapping of bytes of an object. On the device that has the master copy, master is equal to copy. */
struct mapping {
	struct mapping *next;
	uint64_t object;
	size_t offset, bytes; /* of the first byte in the object */
	size_t whole;         /* bytes of the object */
	struct side copy, master;
	size_t copied; /* bytes between a GPU and memory of the node. pin_lock is for these three. */
	char *pinned;  /* the pages of the node's that CUDA has registered, by a context of this GPU */
	int pinned_by;
	struct peer *peers;   /* of devices that group forms have met. group_lock is for these. */
};

static _Atomic uint64_t copied, between_nodes; /* bytes */
static struct mapping *mappings;
/* Of mappings. Who changes them comes first: by default threads that copy without a pause would keep out a thread that maps for ever. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;

/* The least bytes of a mapping that is registered with CUDA. */
enum { LEAST_PINNED = 16 << 20 };

/* in_page returns how far an offset is in its page, where a mapping must begin. */
static size_t in_page(size_t offset)
{
	return offset % (size_t)sysconf(_SC_PAGESIZE);
}

static struct place beyond(struct place place, size_t bytes)
{
	return (struct place){place.at + bytes, place.gpu};
}

/* map_copy maps a copy for a mapping, and stores where its first byte is. It returns 0 or a negative errno value. */
static int map_copy(int fd, bool on_gpu, const struct mapping *m, struct place *first)
{
	struct place start = {.gpu = HOST};
	const size_t before = in_page(m->offset);

	if (on_gpu) {
		const int result = gpu_map(fd, m->whole, &start);
		if (result == 0)
			*first = beyond(start, m->offset);
		return result;
	}
	start.at = mmap(NULL, before + m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(m->offset - before));
	if (start.at == MAP_FAILED)
		return -errno;
	*first = beyond(start, before);
	return 0;
}

static void unmap_copy(struct place first, const struct mapping *m)
{
	if (first.at == NULL)
		return;
	if (first.gpu == HOST)
		munmap(first.at - in_page(m->offset), in_page(m->offset) + m->bytes);
	else
		gpu_unmap(&(struct place){first.at - m->offset, first.gpu}, m->whole);
}

/* pin has CUDA register a mapping's memory of the node when copies have moved as many bytes as it has. Registering takes about half of the
 * time of copying without it, and later copies are 4 to 7 times as fast (docs/design/ivm.md). */
static void pin(struct mapping *m, size_t bytes, int gpu)
{
	const struct place *node = m->master.first.gpu == HOST ? &m->master.first : &m->copy.first;
	const size_t before = in_page(m->offset);

	if (m->bytes < LEAST_PINNED || node->gpu != HOST)
		return;
	pthread_mutex_lock(&pin_lock);
	const bool was_little = m->copied < m->bytes;
	m->copied += bytes;
	if (was_little && m->copied >= m->bytes && gpu_pin(node->at - before, before + m->bytes, gpu)) {
		m->pinned = node->at - before;
		m->pinned_by = gpu;
	}
	pthread_mutex_unlock(&pin_lock);
}

/* transfer has the node copy bytes of a mapping's object, piece by piece: UCX is slower with more at once, and memory of GPUs is staged. */
static int transfer(const struct mapping *m, const struct side *to, const struct side *from, size_t offset, size_t bytes)
{
	enum { PIECE = 32 << 20 };
	struct reply reply;
	int result = 0;

	for (uint64_t begin = m->offset + offset, end = begin + bytes; begin < end && result == 0; begin += PIECE) {
		const struct range piece = {begin, end - begin < PIECE ? end : begin + PIECE};
		result = pe_call(&(struct request){.call = CALL_TRANSFER, .object = m->object, .range = piece, .from = from->home, .to = to->home}, &reply, NULL);
	}
	return result;
}

/* copy_bytes copies bytes of a mapping's object from an offset in the mapping on. */
static int copy_bytes(struct mapping *m, const struct side *to_side, const struct side *from_side, size_t offset, size_t bytes)
{
	if (bytes == 0)
		return 0;
	copied += bytes;
	if (to_side->home.node != from_side->home.node)
		between_nodes += bytes;
	if (to_side->first.at == NULL || from_side->first.at == NULL)
		return transfer(m, to_side, from_side, offset, bytes);
	const struct place to = beyond(to_side->first, offset), from = beyond(from_side->first, offset);
	if (to.gpu == HOST && from.gpu == HOST) {
		memcpy(to.at, from.at, bytes);
		return 0;
	}
	if (to.gpu == HOST || from.gpu == HOST)
		pin(m, bytes, to.gpu == HOST ? from.gpu : to.gpu);
	return gpu_copy(to, from, bytes);
}

/* has_master reports whether a side is the master copy. */
static bool has_master(const struct mapping *m, const struct side *side)
{
	return side->home.dev == m->master.home.dev;
}

static void drop(struct mapping *m)
{
	if (m->pinned != NULL)
		gpu_unpin(m->pinned, m->pinned_by);
	while (m->peers != NULL) {
		struct peer *p = m->peers;
		m->peers = p->next;
		unmap_copy(p->mirror.first, m);
		free(p);
	}
	if (!has_master(m, &m->copy))
		unmap_copy(m->master.first, m);
	unmap_copy(m->copy.first, m);
	free(m);
}

/* fill copies the bytes that the mirror has not yet, hole after hole. Other PEs of the device wait meanwhile. */
static int fill(struct mapping *m, struct reply *reply)
{
	const struct request filled = {.call = CALL_FILLED, .object = m->object, .range = {m->offset, m->offset + m->bytes}};
	int result = 0;

	while (result == 0 && reply->hole.begin < reply->hole.end) {
		const size_t from = reply->hole.begin - m->offset;
		result = copy_bytes(m, &m->copy, &m->master, from, reply->hole.end - reply->hole.begin);
		if (result == 0)
			result = pe_call(&filled, reply, NULL);
	}
	return result;
}

static int remove_object(uint64_t object)
{
	struct reply reply;

	return pe_call(&(struct request){.call = CALL_FREE, .object = object}, &reply, NULL);
}

/* make_copy makes the copy on the PE's own GPU. */
static int make_copy(struct mapping *m, int *file)
{
	const int result = gpu_make(m->whole, &m->copy.first, file);

	if (result == 0)
		m->copy.first.at += m->offset;
	return result;
}

/* ask asks for copies of an object. If it is the PE that must make the one on its GPU, it does so: an allocation before it asks. */
static int ask(struct request *request, struct mapping *m, struct reply *reply, int fds[MOST_FDS])
{
	enum ivm_dev_type type;
	int made = -1, result = ivm_get_my_dev_type(&type);

	m->whole = request->range.end;
	if (result == 0 && type == IVM_GPU && request->call == CALL_MALLOC)
		result = make_copy(m, &made);
	if (result == 0)
		result = pe_call_with(made, request, reply, fds);
	if (result == 0 && reply->make) {
		m->whole = reply->bytes;
		request->object = reply->object; /* not another one of this name */
		result = make_copy(m, &made);
		if (result == 0)
			result = pe_call_with(made, request, reply, fds);
		else
			pe_call(&(struct request){.call = CALL_FAILED, .object = reply->object}, reply, NULL);
	}
	if (made >= 0)
		close(made);
	return result;
}

/* map_copies maps the copies whose descriptors these are. */
static int map_copies(struct mapping *m, const struct reply *reply, const int fds[MOST_FDS])
{
	int result = m->copy.first.at != NULL ? 0 : map_copy(fds[0], reply->on_gpu[0], m, &m->copy.first);

	m->copy.home = reply->copy;
	m->master.home = reply->master;
	if (has_master(m, &m->copy))
		m->master = m->copy;
	else if (result == 0 && fds[1] >= 0)
		result = map_copy(fds[1], reply->on_gpu[1], m, &m->master.first);
	return result;
}

/* give_up has others make what this PE has not completed of an object's copies. An object that it has allocated is removed. */
static void give_up(const struct request *request, uint64_t object)
{
	struct reply reply;

	if (request->call == CALL_MALLOC)
		remove_object(object);
	else
		pe_call(&(struct request){.call = CALL_FAILED, .object = object}, &reply, NULL);
}

/* map asks for copies of an object and maps them. */
static int map(struct request *request, void **at, size_t *bytes)
{
	struct reply reply = {.object = 0};
	int fds[MOST_FDS];
	struct mapping *m = calloc(1, sizeof *m);

	if (m == NULL)
		return -ENOMEM;
	m->offset = request->range.begin;
	int result = ask(request, m, &reply, fds);
	if (result != 0) {
		if (reply.object != 0) /* there was no descriptor left for a copy */
			give_up(request, reply.object);
		drop(m);
		return result;
	}
	m->object = reply.object;
	m->whole = reply.bytes;
	m->bytes = (request->range.begin < request->range.end ? request->range.end : reply.bytes) - m->offset;
	result = map_copies(m, &reply, fds);
	for (int i = 0; i < MOST_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (result == 0)
		result = fill(m, &reply);
	if (result != 0) {
		give_up(request, m->object);
		drop(m);
		return result;
	}
	*at = m->copy.first.at;
	if (bytes != NULL)
		*bytes = m->whole;
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
	while (*link != NULL && (*link)->copy.first.at != at)
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

struct range memory_copied(void)
{
	return (struct range){copied, between_nodes};
}

void memory_unmap_all(void)
{
	while (mappings != NULL)
		drop(take(mappings->copy.first.at));
}

/* find returns the mapping that has bytes at an address, or NULL with -EFAULT or -ERANGE in *failed. The caller has the lock. */
static struct mapping *find(const void *at, size_t bytes, int *failed)
{
	*failed = -EFAULT;
	for (struct mapping *m = mappings; m != NULL; m = m->next) {
		const size_t from = (size_t)((uintptr_t)at - (uintptr_t)m->copy.first.at);
		if ((uintptr_t)at < (uintptr_t)m->copy.first.at || from >= m->bytes)
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
	struct mapping *m = find(at, bytes, &result);
	if (m != NULL && !has_master(m, &m->copy))
		result = copy_bytes(m, put ? &m->master : &m->copy, put ? &m->copy : &m->master, (size_t)((const char *)at - m->copy.first.at), bytes);
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

static struct peer *find_peer(const struct mapping *m, ivm_dev dev)
{
	struct peer *p = m->peers;

	while (p != NULL && p->mirror.home.dev != dev)
		p = p->next;
	return p;
}

/* meet finds a mapping's bytes in the mirror of a device. It maps them if it gets a descriptor: the mirror is on this node. */
static int meet(struct mapping *m, const struct reply *reply, int fd, struct peer **mirror)
{
	struct peer *p = find_peer(m, reply->copy.dev);

	if (p == NULL) {
		p = calloc(1, sizeof *p);
		const int result = p == NULL ? -ENOMEM : fd >= 0 ? map_copy(fd, reply->on_gpu[0], m, &p->mirror.first) : 0;
		if (result != 0) {
			free(p);
			return result;
		}
		p->mirror.home = reply->copy;
		p->next = m->peers;
		m->peers = p;
	}
	*mirror = p;
	return 0;
}

/* A part, checked: from where on in a mapping, and the mirror, which is NULL if the device has the master copy. */
struct checked {
	struct mapping *mapping;
	const struct side *mirror;
	size_t from;
};

/* check_part asks about a part, unless it has asked about these bytes before and no copy was dropped since. */
static int check_part(const struct ivm_part *part, struct checked *checked)
{
	const uint64_t drops = pe_drops();
	struct reply reply;
	int fds[MOST_FDS], result;
	struct mapping *m = find(part->at, part->bytes, &result);

	if (m == NULL)
		return result;
	const size_t from = (size_t)((char *)part->at - m->copy.first.at);
	const struct range range = {m->offset + from, m->offset + from + part->bytes};
	struct peer *p = find_peer(m, part->dev);
	*checked = (struct checked){.mapping = m, .from = from};
	if (p == NULL || p->drops != drops || range.begin < p->has.begin || range.end > p->has.end) {
		result = pe_call(&(struct request){.call = CALL_MIRROR, .dev = part->dev, .object = m->object, .range = range}, &reply, fds);
		if (result != 0 || part->dev == m->master.home.dev)
			return result;
		result = meet(m, &reply, fds[0], &p);
		if (fds[0] >= 0)
			close(fds[0]);
		if (result != 0)
			return result;
		p->has = reply.hole;
		p->drops = drops;
	}
	checked->mirror = &p->mirror;
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
		if (list[i].mirror != NULL) {
			const struct side *master = &list[i].mapping->master, *mirror = list[i].mirror;
			result = copy_bytes(list[i].mapping, put ? mirror : master, put ? master : mirror, list[i].from, parts[i].bytes);
		}
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
