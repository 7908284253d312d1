/* books.c: see books.h.
 *
 * The rules are the engine's (schedulers/engine: engine.go, growth.go, stalled.go and
 * deadlock.go), for devices with separate queues:
 *
 *   - A task that waits for more memory goes before tasks that wait for a device, and lets no
 *     task join the device.
 *   - A request is stalled if what waiting clients hold is in its way. It then holds back
 *     no other request.
 *   - Deadlock: every client of a device waits, and each task there waits for more. No memory
 *     comes back by itself, so the last request is refused.
 *
 * Hundreds of clients may wait, and a decision holds the lock. So the requests are matched with the
 * holdings once for each device (struct view), and a decision takes time that is linear in the books. */
#include "books.h"

#include <string.h>

uint64_t books_sum(const void *from, size_t size)
{
	const unsigned char *at = from;
	uint64_t sum = UINT64_C(0xcbf29ce484222325), word; /* FNV-1a, by words */

	for (size_t i = 0; i < size; i += sizeof word) {
		memcpy(&word, at + i, sizeof word);
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
		sum ^= sum >> 29;
	}
	return sum;
}

uint64_t books_config_checksum(const struct case_shared_config *config)
{
	const size_t to = offsetof(struct case_shared_config, checksum), from = offsetof(struct case_shared_config, wait_limit_ns);

	return books_sum(config, to) ^ books_sum((const char *)config + from, sizeof *config - from) * 3;
}

uint64_t books_checksum(const struct case_shared_books *books)
{
	const size_t from = offsetof(struct case_shared_books, sequence), to = offsetof(struct case_shared_books, holding);

	return books_sum((const char *)books + from, to - from) ^
	       books_sum(books->holding, books->holdings * sizeof *books->holding) ^
	       books_sum(books->request, books->requests * sizeof *books->request) * 3;
}

bool books_config_valid(const struct case_shared_config *config)
{
	return config->magic == CASE_SHARED_MAGIC && config->version == CASE_SHARED_VERSION &&
	       config->size == sizeof(struct case_shared_file) && config->policy >= CASE_SHARED_FIFO &&
	       config->policy <= CASE_SHARED_PRIORITY_MMU && config->devices > 0 &&
	       config->devices <= CASE_SHARED_DEVICES && config->checksum == books_config_checksum(config);
}

bool books_valid(const struct case_shared_config *config, const struct case_shared_books *books)
{
	if (books->holdings > CASE_SHARED_HOLDINGS || books->requests > CASE_SHARED_REQUESTS ||
	    books->checksum != books_checksum(books))
		return false;
	for (uint32_t i = 0; i < books->holdings; i++)
		if (books->holding[i].device >= config->devices)
			return false;
	for (uint32_t i = 0; i < books->requests; i++) {
		const struct case_shared_request *r = &books->request[i];
		if (r->device >= config->devices || r->grows > 1 || r->answer > CASE_SHARED_STUCK || (i > 0 && r->id <= r[-1].id))
			return false;
	}
	return true;
}

bool books_same(const struct case_shared_process *a, const struct case_shared_process *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

struct case_shared_holding *books_holding(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint32_t device)
{
	for (uint32_t i = 0; i < books->holdings; i++)
		if (books->holding[i].device == device && books_same(&books->holding[i].process, process))
			return &books->holding[i];
	return NULL;
}

struct case_shared_request *books_ask(struct case_shared_books *books, const struct case_shared_request *request)
{
	if (books->requests == CASE_SHARED_REQUESTS)
		return NULL;
	struct case_shared_request *r = &books->request[books->requests++];
	*r = *request;
	r->id = ++books->last_id;
	r->answer = CASE_SHARED_WAITING;
	return r;
}

struct case_shared_request *books_request(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint64_t id)
{
	for (uint32_t i = 0; i < books->requests; i++)
		if (books->request[i].id == id && books_same(&books->request[i].process, process))
			return &books->request[i];
	return NULL;
}

void books_withdraw(struct case_shared_books *books, struct case_shared_request *request)
{
	const struct case_shared_request *end = &books->request[books->requests--];

	memmove(request, request + 1, (size_t)(end - (request + 1)) * sizeof *request);
}

void books_forget(struct case_shared_books *books, const struct case_shared_process *process)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < books->holdings; i++)
		if (!books_same(&books->holding[i].process, process))
			books->holding[kept++] = books->holding[i];
	books->holdings = kept;
	kept = 0;
	for (uint32_t i = 0; i < books->requests; i++)
		if (!books_same(&books->request[i].process, process))
			books->request[kept++] = books->request[i];
	books->requests = kept;
}

static bool waits(const struct case_shared_request *r) { return r->answer == CASE_SHARED_WAITING; }

enum { NONE = UINT16_MAX, SLOTS = 2 * CASE_SHARED_HOLDINGS };

/* view is what is to be decided on one device. */
struct view {
	const struct case_shared_config *config;
	struct case_shared_books *books;
	uint32_t device;
	int64_t free; /* bytes; negative if clients that the books have lost hold more than the device has */
	int64_t left; /* bytes of the device beside what waiting clients hold */
	bool movable; /* a waiting client has a task that does not wait for more */
	uint32_t count;
	uint16_t queue[CASE_SHARED_REQUESTS];  /* the requests that wait for the device, in its order */
	uint16_t holder[CASE_SHARED_REQUESTS]; /* the holding of each request's client there, or NONE */
	uint16_t waiting[CASE_SHARED_HOLDINGS]; /* how many requests of the holding's client wait */
	uint16_t growing[CASE_SHARED_HOLDINGS]; /* how many of these are of tasks that wait for more */
};

static struct case_shared_request *at(const struct view *v, uint32_t place) { return &v->books->request[v->queue[place]]; }

/* context is what a holding takes beside its tasks. */
static int64_t context(const struct view *v) { return (int64_t)v->config->device[v->device].context_bytes; }

/* weigh counts the device's memory. */
static void weigh(struct view *v)
{
	v->free = v->left = (int64_t)v->config->device[v->device].capacity;
	v->movable = false;
	for (uint32_t i = 0; i < v->books->holdings; i++) {
		const struct case_shared_holding *h = &v->books->holding[i];
		if (h->device != v->device)
			continue;
		v->free -= (int64_t)h->bytes + context(v);
		if (v->waiting[i] == 0)
			continue;
		v->left -= (int64_t)h->bytes + context(v);
		v->movable = v->movable || h->tasks > v->growing[i];
	}
}

/* match finds the holding of each request's client. */
static void match(struct view *v)
{
	uint16_t slots[SLOTS]; /* holdings of the device, by the number of their process */

	memset(slots, 0xff, sizeof slots); /* NONE */
	for (uint32_t i = 0; i < v->books->holdings; i++) {
		const struct case_shared_holding *h = &v->books->holding[i];
		uint32_t slot = h->process.pid;
		v->waiting[i] = v->growing[i] = 0;
		if (h->device != v->device)
			continue;
		while (slots[slot % SLOTS] != NONE)
			slot++;
		slots[slot % SLOTS] = (uint16_t)i;
	}
	for (uint32_t place = 0; place < v->count; place++) {
		const struct case_shared_request *r = at(v, place);
		uint32_t slot = r->process.pid;
		uint16_t i;
		while ((i = slots[slot % SLOTS]) != NONE && !books_same(&v->books->holding[i].process, &r->process))
			slot++;
		v->holder[place] = i;
		if (i != NONE) {
			v->waiting[i]++;
			v->growing[i] += r->grows != 0;
		}
	}
}

/* view_of fills in the view of a device. It returns whether a request waits for the device. */
static bool view_of(struct view *v, const struct case_shared_config *config, struct case_shared_books *books, uint32_t device)
{
	v->config = config;
	v->books = books;
	v->device = device;
	v->count = 0;
	for (uint32_t i = 0; i < books->requests; i++) {
		const struct case_shared_request *r = &books->request[i];
		if (!waits(r) || r->device != device)
			continue;
		uint32_t place = v->count++;
		if (config->policy >= CASE_SHARED_PRIORITY_FIFO)
			for (; place > 0 && at(v, place - 1)->priority < r->priority; place--)
				v->queue[place] = v->queue[place - 1];
		v->queue[place] = (uint16_t)i;
	}
	if (v->count == 0)
		return false;
	match(v);
	weigh(v);
	return true;
}

static void answer(struct view *v, uint32_t place, enum case_shared_answer how)
{
	struct case_shared_request *r = at(v, place);
	const uint16_t holder = v->holder[place];

	r->answer = how;
	if (holder != NONE) {
		v->waiting[holder]--;
		v->growing[holder] -= r->grows != 0;
	}
	weigh(v);
}

/* need is what a request takes: its bytes, and a context if its client has none on the device. */
static int64_t need(const struct view *v, uint32_t place)
{
	return (int64_t)at(v, place)->bytes + (v->holder[place] == NONE ? context(v) : 0);
}

/* settle_in gives a client its holding on the device, which all its requests there then have. */
static void settle_in(struct view *v, const struct case_shared_process *process)
{
	const uint16_t made = (uint16_t)v->books->holdings++;

	v->books->holding[made] = (struct case_shared_holding){.process = *process, .device = v->device};
	v->waiting[made] = v->growing[made] = 0;
	for (uint32_t place = 0; place < v->count; place++)
		if (waits(at(v, place)) && books_same(&at(v, place)->process, process)) {
			v->holder[place] = made;
			v->waiting[made]++;
			v->growing[made] += at(v, place)->grows != 0;
		}
}

static bool grant(struct view *v, uint32_t place)
{
	const struct case_shared_request *r = at(v, place);
	const bool here = v->holder[place] != NONE;

	if (need(v, place) > v->free || (!here && v->books->holdings == CASE_SHARED_HOLDINGS))
		return false;
	if (!here)
		settle_in(v, &r->process);
	struct case_shared_holding *h = &v->books->holding[v->holder[place]];
	h->bytes += r->bytes;
	h->tasks += r->grows ? 0 : 1;
	answer(v, place, CASE_SHARED_GRANTED);
	return true;
}

/* stalled says whether what waiting clients hold is in the request's way. If waiting clients have
 * only contexts and tasks that wait for more, no request is stalled: unstick decides there. */
static bool stalled(const struct view *v, uint32_t place) { return v->movable && need(v, place) > v->left; }

/* held_back says whether a request that does not fit keeps a request behind it waiting. Policies 3
 * and 4 are one rule: a following client of the same priority is served, both if the first does
 * not fit and if memory is left after it. */
static bool held_back(const struct view *v, const struct case_shared_request *misfit, const struct case_shared_request *r)
{
	switch (v->config->policy) {
	case CASE_SHARED_FIFO: return true;
	case CASE_SHARED_MMU: return false;
	}
	return r->priority < misfit->priority;
}

/* grant_growth answers tasks that wait for more. A task that does not fit holds back no other. It
 * returns whether a task that is not stalled still waits: then nobody may join the device. */
static bool grant_growth(struct view *v)
{
	bool claimed = false;

	for (uint32_t place = 0; place < v->count; place++)
		if (waits(at(v, place)) && at(v, place)->grows && !grant(v, place))
			claimed = claimed || !stalled(v, place);
	return claimed;
}

/* grant_next grants the first task of the device's queue that may go now. */
static bool grant_next(struct view *v)
{
	const struct case_shared_request *misfit = NULL;

	for (uint32_t place = 0; place < v->count; place++) {
		const struct case_shared_request *r = at(v, place);
		if (!waits(r) || r->grows)
			continue;
		if (misfit != NULL && held_back(v, misfit, r))
			return false;
		if (grant(v, place))
			return true;
		if (!stalled(v, place))
			misfit = r;
	}
	return false;
}

static void grant_all(struct view *v)
{
	while (!grant_growth(v) && grant_next(v))
		;
}

static void expire(struct view *v, uint64_t now_ns)
{
	for (uint32_t place = 0; place < v->count; place++) {
		const struct case_shared_request *r = at(v, place);
		if (waits(r) && r->expires_ns != 0 && r->expires_ns <= now_ns)
			answer(v, place, CASE_SHARED_TIMED_OUT);
	}
}

/* in_deadlock says whether no memory of the device comes back by itself. */
static bool in_deadlock(const struct view *v)
{
	bool some = false;

	for (uint32_t i = 0; i < v->books->holdings; i++) {
		const struct case_shared_holding *h = &v->books->holding[i];
		if (h->device != v->device)
			continue;
		if (v->waiting[i] == 0 || h->tasks > v->growing[i])
			return false;
		some = true;
	}
	return some;
}

/* unstick ends the device's deadlock, by the first of these rules that applies:
 *
 *   - If tasks wait for more, the last task to ask is refused.
 *   - The first task that fits is granted, whatever holds it back.
 *   - The last task whose client has a context there is refused. */
static void unstick(struct view *v)
{
	uint32_t last = v->count; /* a client waits, so there is one */
	bool grows = false;

	for (uint32_t place = 0; place < v->count; place++)
		grows = grows || (waits(at(v, place)) && at(v, place)->grows);
	for (uint32_t place = 0; place < v->count; place++)
		if (!grows && waits(at(v, place)) && grant(v, place))
			return;
	for (uint32_t place = 0; place < v->count; place++) {
		const struct case_shared_request *r = at(v, place);
		if (!waits(r) || v->holder[place] == NONE)
			continue;
		if (last == v->count || r->grows > at(v, last)->grows || (r->grows == at(v, last)->grows && r->id > at(v, last)->id))
			last = place;
	}
	answer(v, last, CASE_SHARED_STUCK);
}

bool books_grant(const struct case_shared_config *config, struct case_shared_books *books)
{
	struct view v;
	bool deadlock = false;

	for (uint32_t device = 0; device < config->devices; device++)
		if (view_of(&v, config, books, device)) {
			grant_all(&v);
			deadlock = deadlock || in_deadlock(&v);
		}
	return deadlock;
}

void books_settle(const struct case_shared_config *config, struct case_shared_books *books, uint64_t now_ns)
{
	struct view v;

	for (uint32_t device = 0; device < config->devices; device++) {
		if (!view_of(&v, config, books, device))
			continue;
		grant_all(&v);
		expire(&v, now_ns);
		grant_all(&v);
		while (in_deadlock(&v)) {
			unstick(&v);
			grant_all(&v);
		}
	}
}
