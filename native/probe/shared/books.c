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
 *     comes back by itself, so the last request is refused. */
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
	const size_t from = offsetof(struct case_shared_config, wait_limit_ns);

	return books_sum((const char *)config + from, sizeof *config - from);
}

uint64_t books_checksum(const struct case_shared_books *books)
{
	const size_t from = offsetof(struct case_shared_books, epoch), to = offsetof(struct case_shared_books, holding);

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
	for (uint32_t i = 0; i < books->requests; i++)
		if (books->request[i].device >= config->devices)
			return false;
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

int64_t books_free(const struct case_shared_config *config, const struct case_shared_books *books, uint32_t device)
{
	const struct case_shared_device *d = &config->device[device];
	int64_t free = (int64_t)d->capacity;

	for (uint32_t i = 0; i < books->holdings; i++)
		if (books->holding[i].device == device)
			free -= (int64_t)(books->holding[i].bytes + d->context_bytes);
	return free;
}

struct case_shared_request *books_ask(struct case_shared_books *books, const struct case_shared_request *request,
                                uint64_t from_id)
{
	if (books->requests == CASE_SHARED_REQUESTS)
		return NULL;
	struct case_shared_request *r = &books->request[books->requests++];
	*r = *request;
	r->id = books->last_id < from_id ? from_id : books->last_id + 1;
	books->last_id = r->id;
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

/* need is what a request takes: its bytes, and a context if its client has none on the device. */
static int64_t need(const struct case_shared_config *config, struct case_shared_books *books,
                    const struct case_shared_request *r)
{
	const bool here = books_holding(books, &r->process, r->device) != NULL;

	return (int64_t)(r->bytes + (here ? 0 : config->device[r->device].context_bytes));
}

static bool fits(const struct case_shared_config *config, struct case_shared_books *books,
                 const struct case_shared_request *r)
{
	return need(config, books, r) <= books_free(config, books, r->device);
}

static bool grant(const struct case_shared_config *config, struct case_shared_books *books,
                  struct case_shared_request *r)
{
	struct case_shared_holding *h = books_holding(books, &r->process, r->device);

	if (!fits(config, books, r) || (h == NULL && books->holdings == CASE_SHARED_HOLDINGS))
		return false;
	if (h == NULL) {
		h = &books->holding[books->holdings++];
		*h = (struct case_shared_holding){.process = r->process, .device = r->device};
	}
	h->bytes += r->bytes;
	h->tasks += r->grows ? 0 : 1;
	r->answer = CASE_SHARED_GRANTED;
	return true;
}

/* growing is how many tasks of a holding wait for more. */
static uint32_t growing(const struct case_shared_books *books, const struct case_shared_holding *h)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < books->requests; i++) {
		const struct case_shared_request *r = &books->request[i];
		n += waits(r) && r->grows && r->device == h->device && books_same(&r->process, &h->process);
	}
	return n;
}

/* client_waits says whether the holding's client waits for that device. */
static bool client_waits(const struct case_shared_books *books, const struct case_shared_holding *h)
{
	for (uint32_t i = 0; i < books->requests; i++) {
		const struct case_shared_request *r = &books->request[i];
		if (waits(r) && r->device == h->device && books_same(&r->process, &h->process))
			return true;
	}
	return false;
}

/* stalled says whether what waiting clients hold is in the request's way. If waiting clients have
 * only contexts and tasks that wait for more, no request is stalled: unstick decides there. */
static bool stalled(const struct case_shared_config *config, struct case_shared_books *books,
                    const struct case_shared_request *r)
{
	const struct case_shared_device *d = &config->device[r->device];
	int64_t left = (int64_t)d->capacity;
	bool some = false;

	for (uint32_t i = 0; i < books->holdings; i++) {
		const struct case_shared_holding *h = &books->holding[i];
		if (h->device != r->device || !client_waits(books, h))
			continue;
		left -= (int64_t)(h->bytes + d->context_bytes);
		some = some || h->tasks > growing(books, h);
	}
	return some && need(config, books, r) > left;
}

/* held_back says whether a request that does not fit keeps a request behind it waiting. Policies 3
 * and 4 are one rule: a following client of the same priority is served, both if the first does
 * not fit and if memory is left after it. */
static bool held_back(const struct case_shared_config *config, const struct case_shared_request *misfit,
                      const struct case_shared_request *r)
{
	switch (config->policy) {
	case CASE_SHARED_FIFO: return true;
	case CASE_SHARED_MMU: return false;
	}
	return r->priority < misfit->priority;
}

/* before says whether a goes before b in the queue for their device. */
static bool before(const struct case_shared_config *config, const struct case_shared_request *a,
                   const struct case_shared_request *b)
{
	if (config->policy >= CASE_SHARED_PRIORITY_FIFO && a->priority != b->priority)
		return a->priority > b->priority;
	return a->id < b->id;
}

/* following is the request for a device, or for more of it, that comes next after a request. With
 * NULL it is the first. */
static struct case_shared_request *following(const struct case_shared_config *config, struct case_shared_books *books,
                                             uint32_t device, bool grows, const struct case_shared_request *after)
{
	struct case_shared_request *next = NULL;

	for (uint32_t i = 0; i < books->requests; i++) {
		struct case_shared_request *r = &books->request[i];
		if (!waits(r) || (r->grows != 0) != grows || r->device != device || (after != NULL && !before(config, after, r)))
			continue;
		if (next == NULL || before(config, r, next))
			next = r;
	}
	return next;
}

/* grant_growth answers tasks that wait for more. A task that does not fit holds back no other. It
 * returns whether a task that is not stalled still waits: then nobody may join the device. */
static bool grant_growth(const struct case_shared_config *config, struct case_shared_books *books, uint32_t device)
{
	struct case_shared_request *r = NULL;
	bool claimed = false;

	while ((r = following(config, books, device, true, r)) != NULL)
		if (!grant(config, books, r))
			claimed = claimed || !stalled(config, books, r);
	return claimed;
}

/* grant_next grants the first task of the device's queue that may go now. */
static bool grant_next(const struct case_shared_config *config, struct case_shared_books *books, uint32_t device)
{
	const struct case_shared_request *misfit = NULL;
	struct case_shared_request *r = NULL;

	while ((r = following(config, books, device, false, r)) != NULL) {
		if (misfit != NULL && held_back(config, misfit, r))
			return false;
		if (grant(config, books, r))
			return true;
		if (!stalled(config, books, r))
			misfit = r;
	}
	return false;
}

static void grant_on(const struct case_shared_config *config, struct case_shared_books *books, uint32_t device)
{
	while (!grant_growth(config, books, device) && grant_next(config, books, device))
		;
}

void books_grant(const struct case_shared_config *config, struct case_shared_books *books)
{
	for (uint32_t device = 0; device < config->devices; device++)
		grant_on(config, books, device);
}

static bool expire(struct case_shared_books *books, uint64_t now_ns)
{
	bool some = false;

	for (uint32_t i = 0; i < books->requests; i++) {
		struct case_shared_request *r = &books->request[i];
		if (waits(r) && r->expires_ns != 0 && r->expires_ns <= now_ns) {
			r->answer = CASE_SHARED_TIMED_OUT;
			some = true;
		}
	}
	return some;
}

/* in_deadlock says whether no memory of a device comes back by itself. */
static bool in_deadlock(const struct case_shared_books *books, uint32_t device)
{
	bool some = false;

	for (uint32_t i = 0; i < books->holdings; i++) {
		const struct case_shared_holding *h = &books->holding[i];
		if (h->device != device)
			continue;
		if (!client_waits(books, h) || h->tasks > growing(books, h))
			return false;
		some = true;
	}
	return some;
}

/* unstick ends the deadlock of a device, by the first of these rules that applies:
 *
 *   - If tasks wait for more, the last task to ask is refused.
 *   - The first task that fits is granted, whatever holds it back.
 *   - The last task whose client has a context there is refused. */
static void unstick(const struct case_shared_config *config, struct case_shared_books *books, uint32_t device)
{
	struct case_shared_request *r = NULL, *last = NULL;
	const bool grows = following(config, books, device, true, NULL) != NULL;

	while (!grows && (r = following(config, books, device, false, r)) != NULL)
		if (grant(config, books, r))
			return;
	for (uint32_t i = 0; i < books->requests; i++) {
		r = &books->request[i];
		if (!waits(r) || r->device != device || books_holding(books, &r->process, device) == NULL)
			continue;
		if (last == NULL || r->grows >= last->grows)
			last = r;
	}
	last->answer = CASE_SHARED_STUCK;
}

void books_settle(const struct case_shared_config *config, struct case_shared_books *books, uint64_t now_ns)
{
	books_grant(config, books);
	if (expire(books, now_ns))
		books_grant(config, books);
	for (uint32_t device = 0; device < config->devices; device++)
		while (in_deadlock(books, device)) {
			unstick(config, books, device);
			grant_on(config, books, device);
		}
}
