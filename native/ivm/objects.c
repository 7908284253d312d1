/* objects.c: see ivmd.h. A copy is a memfd, which PEs map, or a descriptor of memory of a GPU, which the first PE that needs it has
 * made. So an object that is removed lasts until it is unmapped, and nothing lasts longer than the processes. PEs copy, so that ivmd never
 * does long work. */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ivmd.h"

enum { NOBODY = -1, NOT_MADE = -1 };

struct copy {
	struct copy *next;
	ivm_dev dev;
	bool gpu;
	int fd; /* NOT_MADE: the filler makes it, on a GPU */
	struct range *valid; /* what a mirror has got from the master copy: apart, in order */
	size_t valid_count;
	ivm_pe filler; /* who makes the copy or copies to hole now */
	struct range hole;
};

struct object {
	struct object *next;
	uint64_t id, bytes;
	char name[IVM_NAME + 1];
	struct copy *copies; /* the last is the master copy */
};

static struct object *objects;
static uint64_t last_id;

static struct object *find_name(const char *name)
{
	struct object *o = objects;

	while (o != NULL && strcmp(o->name, name) != 0)
		o = o->next;
	return o;
}

static struct object *find_id(uint64_t id)
{
	struct object *o = objects;

	while (o != NULL && o->id != id)
		o = o->next;
	return o;
}

static struct copy *find_copy(const struct object *o, ivm_dev dev)
{
	struct copy *c = o->copies;

	while (c != NULL && c->dev != dev)
		c = c->next;
	return c;
}

static const struct copy *master_of(const struct object *o)
{
	const struct copy *c = o->copies;

	while (c->next != NULL)
		c = c->next;
	return c;
}

/* make_memory returns zeros whose size nobody can change, or a negative errno value. */
static int make_memory(uint64_t bytes)
{
	const int fd = memfd_create("ivm", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	const int failed = errno;
	if (fd >= 0)
		close(fd);
	return -failed;
}

/* add_copy adds a copy on the caller's device. On a GPU it is the one that came with the request, or it is not made yet. It returns 0 or a
 * negative errno value. */
static int add_copy(struct object *o, struct caller *caller)
{
	struct copy *c = calloc(1, sizeof *c);

	if (c == NULL)
		return -ENOMEM;
	c->fd = caller->gpu ? caller->copy : make_memory(o->bytes);
	if (c->fd < 0 && !caller->gpu) {
		const int failed = c->fd;
		free(c);
		return failed;
	}
	if (caller->gpu)
		caller->copy = -1;
	c->gpu = caller->gpu;
	c->dev = caller->dev;
	c->filler = c->fd == NOT_MADE ? caller->pe : NOBODY;
	c->next = o->copies;
	o->copies = c;
	return 0;
}

static void remove_copy(struct copy **link)
{
	struct copy *c = *link;

	*link = c->next;
	if (c->fd != NOT_MADE)
		close(c->fd);
	free(c->valid);
	free(c);
}

/* hole_of returns the first bytes of a range that a mirror has not got. It is empty if there are none. */
static struct range hole_of(const struct copy *c, struct range range)
{
	for (size_t i = 0; i < c->valid_count; i++) {
		if (range.begin < c->valid[i].begin) {
			if (range.end > c->valid[i].begin)
				range.end = c->valid[i].begin;
			break;
		}
		if (range.begin < c->valid[i].end)
			range.begin = c->valid[i].end;
	}
	return range.begin < range.end ? range : (struct range){0, 0};
}

/* fill_hole notes that the mirror has got the hole. It returns 0 or -ENOMEM. */
static int fill_hole(struct copy *c)
{
	struct range *more = realloc(c->valid, (c->valid_count + 1) * sizeof *more);
	size_t i = 0;

	if (more == NULL)
		return -ENOMEM;
	c->valid = more;
	while (i < c->valid_count && more[i].begin < c->hole.begin)
		i++;
	memmove(&more[i + 1], &more[i], (c->valid_count++ - i) * sizeof *more);
	more[i] = c->hole;
	for (i = 1; i < c->valid_count;)
		if (more[i - 1].end == more[i].begin) {
			more[i - 1].end = more[i].end;
			memmove(&more[i], &more[i + 1], (--c->valid_count - i) * sizeof *more);
		} else {
			i++;
		}
	return 0;
}

/* reply_hole has the PE copy to the first hole in a range, if there is one. */
static void reply_hole(struct caller *caller, struct copy *c, struct range range)
{
	c->hole = caller->reply.hole = hole_of(c, range);
	c->filler = c->hole.begin < c->hole.end ? caller->pe : NOBODY;
}

static bool inside(const struct object *o, struct range range)
{
	return range.begin <= range.end && range.end <= o->bytes;
}

static void reply_object(struct caller *caller, const struct object *o)
{
	caller->reply.object = o->id;
	caller->reply.bytes = o->bytes;
}

static void reply_copy(struct caller *caller, const struct copy *c)
{
	caller->reply.on_gpu[caller->fd_count] = c->gpu;
	caller->fds[caller->fd_count++] = c->fd;
}

int objects_malloc(struct caller *caller, const struct request *request)
{
	if (find_name(request->name) != NULL)
		return -EEXIST;
	if (request->range.end > INT64_MAX)
		return -ENOMEM;
	if (caller->gpu && caller->copy < 0)
		return -EINVAL;
	struct object *o = calloc(1, sizeof *o);
	if (o == NULL)
		return -ENOMEM;
	o->bytes = request->range.end;
	memcpy(o->name, request->name, sizeof o->name);
	const int failed = add_copy(o, caller);
	if (failed) {
		free(o);
		return failed;
	}
	o->id = ++last_id;
	o->next = objects;
	objects = o;
	reply_copy(caller, master_of(o));
	reply_object(caller, o);
	return 0;
}

int objects_free(struct caller *caller, const struct request *request)
{
	struct object **link = &objects;

	(void)caller;
	while (*link != NULL && (*link)->id != request->object)
		link = &(*link)->next;
	struct object *o = *link;
	if (o == NULL)
		return -ENOENT;
	*link = o->next;
	while (o->copies != NULL)
		remove_copy(&o->copies);
	free(o);
	return 0;
}

int objects_map(struct caller *caller, const struct request *request)
{
	struct object *o = request->object != 0 ? find_id(request->object) : find_name(request->name);

	if (o == NULL)
		return -ENOENT;
	const struct range range = request->range.begin < request->range.end ? request->range : (struct range){0, o->bytes};
	if (!inside(o, range))
		return -ERANGE;
	struct copy *c = find_copy(o, caller->dev);
	if (c == NULL) {
		const int failed = add_copy(o, caller);
		if (failed)
			return failed;
		c = find_copy(o, caller->dev);
		caller->reply.make = c->fd == NOT_MADE;
	} else if (c->fd == NOT_MADE && c->filler == caller->pe && caller->copy >= 0) {
		c->fd = caller->copy;
		c->filler = NOBODY;
		caller->copy = -1;
	} else if (c->filler != NOBODY) {
		return LATER;
	}
	reply_object(caller, o);
	if (caller->reply.make)
		return 0;
	const struct copy *master = master_of(o);
	reply_copy(caller, c);
	if (c != master) {
		reply_copy(caller, master);
		reply_hole(caller, c, range);
	}
	return 0;
}

int objects_filled(struct caller *caller, const struct request *request)
{
	const struct object *o = find_id(request->object);
	struct copy *c = o != NULL ? find_copy(o, caller->dev) : NULL;

	if (c == NULL)
		return -ENOENT;
	if (c->filler != caller->pe)
		return -EINVAL;
	const int failed = fill_hole(c);
	if (failed)
		c->filler = NOBODY;
	else
		reply_hole(caller, c, request->range);
	return failed;
}

int objects_mirror(struct caller *caller, const struct request *request)
{
	const struct object *o = find_id(request->object);

	if (o == NULL)
		return -ENOENT;
	if (!inside(o, request->range))
		return -ERANGE;
	const struct copy *c = find_copy(o, request->dev);
	if (c == NULL)
		return -ENXIO;
	if (c == master_of(o))
		return 0;
	if (c->filler != NOBODY)
		return LATER;
	const struct range hole = hole_of(c, request->range);
	if (hole.begin < hole.end)
		return -ENXIO;
	reply_copy(caller, c);
	return 0;
}

/* leave lets other PEs make what a PE has not completed of an object's copies. */
static void leave(struct object *o, ivm_pe pe)
{
	for (struct copy **link = &o->copies; *link != NULL;)
		if ((*link)->filler == pe && (*link)->fd == NOT_MADE) {
			remove_copy(link);
		} else {
			if ((*link)->filler == pe)
				(*link)->filler = NOBODY;
			link = &(*link)->next;
		}
}

int objects_failed(struct caller *caller, const struct request *request)
{
	struct object *o = find_id(request->object);

	if (o == NULL)
		return -ENOENT;
	leave(o, caller->pe);
	return 0;
}

void objects_leave(ivm_pe pe)
{
	for (struct object *o = objects; o != NULL; o = o->next)
		leave(o, pe);
}

int objects_drop_mirrors(ivm_dev dev)
{
	for (const struct object *o = objects; o != NULL; o = o->next)
		if (master_of(o)->dev == dev)
			return -EBUSY;
	for (struct object *o = objects; o != NULL; o = o->next)
		for (struct copy **link = &o->copies; *link != NULL;)
			if ((*link)->dev == dev)
				remove_copy(link);
			else
				link = &(*link)->next;
	return 0;
}
