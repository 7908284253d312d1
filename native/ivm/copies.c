/* copies.c: see copies.h. */
#define _GNU_SOURCE /* memfd_create */
#include "copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"
#include "node.h"

struct copy {
	struct copy *next;
	uint64_t object, bytes;
	int32_t dev;
	int fd;
	bool gpu;
	struct place at; /* where this process has mapped it */
	int held;
	bool dropped; /* but held */
};

/* What is held of a copy. Memory of a GPU is staged. */
struct hold {
	struct copy *copy;
	struct range range;
	char *staged; /* NULL in memory of the node */
	bool to_write;
};

static struct copy *copies;

static struct copy *find(uint64_t object, int32_t dev)
{
	struct copy *c = copies;

	while (c != NULL && (c->object != object || c->dev != dev || c->dropped))
		c = c->next;
	return c;
}

/* make_memory returns a descriptor of zeros whose size nobody can change, or a negative errno value. */
static int make_memory(uint64_t bytes)
{
	const int fd = memfd_create("ivm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	const int failed = errno;
	close(fd);
	return -failed;
}

static int add(uint64_t object, int32_t dev, uint64_t bytes, int fd, bool gpu)
{
	struct copy *c = calloc(1, sizeof *c);

	if (c == NULL)
		return -ENOMEM;
	*c = (struct copy){.next = copies, .object = object, .bytes = bytes, .dev = dev, .fd = fd, .gpu = gpu};
	copies = c;
	return 0;
}

int copies_get(uint64_t object, int32_t dev, uint64_t bytes)
{
	const struct copy *c = find(object, dev);

	if (c != NULL)
		return c->fd;
	const int fd = make_memory(bytes);
	const int failed = fd >= 0 ? add(object, dev, bytes, fd, false) : 0;
	if (failed)
		close(fd);
	return failed ? failed : fd;
}

int copies_keep(uint64_t object, int32_t dev, uint64_t bytes, int fd)
{
	return add(object, dev, bytes, fd, true);
}

/* map maps a copy in this process. */
static int map(struct copy *c)
{
	if (c->at.at != NULL)
		return 0;
	if (c->gpu) {
		setenv("CUDA_VISIBLE_DEVICES", gpus_seen_from(0), 1); /* as PEs see them, before the driver is loaded */
		return gpu_map(c->fd, c->bytes, &c->at);
	}
	void *at = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	c->at = (struct place){at, HOST};
	return 0;
}

static void forget(struct copy *c)
{
	struct copy **link = &copies;

	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	if (c->at.at != NULL && c->gpu)
		gpu_unmap(&c->at, c->bytes);
	else if (c->at.at != NULL)
		munmap(c->at.at, c->bytes);
	close(c->fd);
	free(c);
}

void copies_drop(uint64_t object, int32_t dev)
{
	struct copy *c = find(object, dev);

	if (c == NULL)
		return;
	c->dropped = true;
	if (c->held == 0)
		forget(c);
}

/* stage makes memory for held bytes of a copy on a GPU, with what they are if they are to be read. */
static int stage(struct hold *h)
{
	const size_t bytes = h->range.end - h->range.begin;
	const struct place at = h->copy->at;

	h->staged = malloc(bytes + 1);
	if (h->staged == NULL)
		return -ENOMEM;
	const int failed = h->to_write ? 0 : gpu_copy((struct place){h->staged, HOST}, (struct place){at.at + h->range.begin, at.gpu}, bytes);
	if (failed)
		free(h->staged);
	return failed;
}

char *copies_hold(uint64_t object, int32_t dev, struct range range, bool to_write, void **held)
{
	struct copy *c = find(object, dev);
	struct hold *h = calloc(1, sizeof *h);
	int failed = h == NULL ? -ENOMEM : c == NULL || range.begin > range.end || range.end > c->bytes ? -ENOENT : map(c);

	if (failed == 0) {
		*h = (struct hold){.copy = c, .range = range, .to_write = to_write};
		failed = c->gpu ? stage(h) : 0;
	}
	if (failed) {
		free(h);
		errno = -failed;
		return NULL;
	}
	c->held++;
	*held = h;
	return c->gpu ? h->staged : c->at.at + range.begin;
}

int copies_release(void *held, bool written)
{
	struct hold *h = held;
	struct copy *c = h->copy;
	int result = 0;

	if (h->staged != NULL && h->to_write && written)
		result = gpu_copy((struct place){c->at.at + h->range.begin, c->at.gpu}, (struct place){h->staged, HOST}, h->range.end - h->range.begin);
	free(h->staged);
	free(h);
	if (--c->held == 0 && c->dropped)
		forget(c);
	return result;
}
