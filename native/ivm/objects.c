/* objects.c: see ivmd.h. Nodes have the copies, which PEs map. So an object that is removed lasts until it is unmapped. PEs and nodes
 * copy, so that the head never does long work. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ivmd.h"

enum { NOBODY = -1 };

struct copy {
	struct copy *next;
	ivm_dev dev;
	bool made; /* else the filler makes it, on a GPU */
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

/* add_copy adds a copy on the caller's device. On a GPU it is the one that came with the request, or it is not made yet. It returns NULL if
 * there is no memory. */
static struct copy *add_copy(struct object *o, const struct caller *caller)
{
	struct copy *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	c->dev = caller->dev;
	c->made = !caller->gpu || caller->brings;
	c->filler = c->made ? NOBODY : caller->pe;
	c->next = o->copies;
	o->copies = c;
	return c;
}

static void remove_copy(const struct object *o, struct copy **link)
{
	struct copy *c = *link;

	*link = c->next;
	drop_copy(o->id, c->dev);
	free(c->valid);
	free(c);
}

/* attach adds a copy to the reply, as a descriptor, if it is on the caller's node. The caller's own may be the one that it brings. */
static struct home attach(struct caller *caller, const struct object *o, const struct copy *c)
{
	const struct home home = home_of(c->dev);
	struct message *m = &caller->answer;

	if (home.node == home_of(caller->dev).node) {
		m->reply.on_gpu[m->attached_count] = is_gpu(c->dev);
		m->attached[m->attached_count++] = (struct attached){o->id, o->bytes, c->dev, caller->brings && c->dev == caller->dev};
	}
	return home;
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

/* around returns the bytes around a range that a mirror has got. It has got the range. */
static struct range around(const struct copy *c, struct range range)
{
	for (size_t i = 0; i < c->valid_count; i++)
		if (c->valid[i].begin <= range.begin && range.end <= c->valid[i].end)
			return c->valid[i];
	return range;
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
	c->hole = caller->answer.reply.hole = hole_of(c, range);
	c->filler = c->hole.begin < c->hole.end ? caller->pe : NOBODY;
}

static bool inside(const struct object *o, struct range range)
{
	return range.begin <= range.end && range.end <= o->bytes;
}

static void reply_object(struct caller *caller, const struct object *o)
{
	caller->answer.reply.object = o->id;
	caller->answer.reply.bytes = o->bytes;
}

int objects_malloc(struct caller *caller, const struct request *request)
{
	if (find_name(request->name) != NULL)
		return -EEXIST;
	if (request->range.end > INT64_MAX)
		return -ENOMEM;
	if (caller->gpu && !caller->brings)
		return -EINVAL;
	struct object *o = calloc(1, sizeof *o);
	if (o == NULL)
		return -ENOMEM;
	o->bytes = request->range.end;
	memcpy(o->name, request->name, sizeof o->name);
	const struct copy *master = add_copy(o, caller);
	if (master == NULL) {
		free(o);
		return -ENOMEM;
	}
	o->id = ++last_id;
	o->next = objects;
	objects = o;
	caller->answer.reply.copy = caller->answer.reply.master = attach(caller, o, master);
	reply_object(caller, o);
	return 0;
}

/* remove_object takes the link to it. */
static void remove_object(struct object **link)
{
	struct object *o = *link;

	*link = o->next;
	while (o->copies != NULL)
		remove_copy(o, &o->copies);
	free(o);
}

int objects_free(struct caller *caller, const struct request *request)
{
	struct object **link = &objects;

	(void)caller;
	while (*link != NULL && (*link)->id != request->object)
		link = &(*link)->next;
	if (*link == NULL)
		return -ENOENT;
	remove_object(link);
	return 0;
}

int objects_map(struct caller *caller, const struct request *request)
{
	struct object *o = request->object != 0 ? find_id(request->object) : find_name(request->name);
	struct reply *reply = &caller->answer.reply;

	if (o == NULL)
		return -ENOENT;
	const struct range range = request->range.begin < request->range.end ? request->range : (struct range){0, o->bytes};
	if (!inside(o, range))
		return -ERANGE;
	struct copy *c = find_copy(o, caller->dev);
	if (c == NULL) {
		c = add_copy(o, caller);
		if (c == NULL)
			return -ENOMEM;
		reply->make = !c->made;
	} else if (!c->made && c->filler == caller->pe && caller->brings) {
		c->made = true;
		c->filler = NOBODY;
	} else if (c->filler != NOBODY) {
		return LATER;
	}
	reply_object(caller, o);
	if (reply->make)
		return 0;
	const struct copy *master = master_of(o);
	reply->copy = reply->master = attach(caller, o, c);
	if (c != master) {
		reply->master = attach(caller, o, master);
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
	caller->answer.reply.copy = caller->answer.reply.master = home_of(c->dev);
	if (c == master_of(o))
		return 0;
	if (c->filler != NOBODY)
		return LATER;
	const struct range hole = hole_of(c, request->range);
	if (hole.begin < hole.end)
		return -ENXIO;
	caller->answer.reply.hole = around(c, request->range);
	caller->answer.reply.master = home_of(master_of(o)->dev);
	attach(caller, o, c);
	return 0;
}

/* leave lets other PEs make what a PE has not completed of an object's copies. */
static void leave(struct object *o, ivm_pe pe)
{
	for (struct copy **link = &o->copies; *link != NULL;)
		if ((*link)->filler == pe && !(*link)->made) {
			remove_copy(o, link);
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
				remove_copy(o, link);
			else
				link = &(*link)->next;
	return 0;
}

void objects_not_made(uint64_t object, ivm_dev dev)
{
	struct object **link = &objects;

	while (*link != NULL && (*link)->id != object)
		link = &(*link)->next;
	struct object *o = *link;
	if (o == NULL)
		return;
	if (master_of(o)->dev == dev) {
		remove_object(link);
		return;
	}
	for (struct copy **c = &o->copies; *c != NULL; c = &(*c)->next)
		if ((*c)->dev == dev) {
			remove_copy(o, c);
			return;
		}
}
