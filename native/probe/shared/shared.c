/* shared.c: see shared.h.
 *
 * A client that gives memory back decides who goes next, and wakes that client at the futex where it
 * waits. (The paper sends a signal instead, which programs may use themselves.) A client that is
 * killed wakes nobody, so waiting clients look whether others have died. The client that has waited
 * longest looks often. The others look in case that client dies. */
#define _GNU_SOURCE /* syscall */
#include "shared.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../case.h"
#include "../wire.h"
#include "books.h"
#include "process.h"

static const uint64_t ms = 1000000; /* ns */
static const uint64_t first_looks_ns = 20 * ms, others_look_ns = 200 * ms;

bool shared_open(struct shared *s, const char *path, bool creates, uint32_t instance, char *why, size_t why_size)
{
	*s = (struct shared){.creates = creates, .self = shared_self(instance)};
	if (strlen(path) >= sizeof s->path) {
		snprintf(why, why_size, "the state file's path has %zu bytes; it may have %zu", strlen(path), sizeof s->path - 1);
		return false;
	}
	strcpy(s->path, path);
	snprintf(s->backup, sizeof s->backup, "%s.backup", path);
	if (!shared_begin(s, why, why_size))
		return false;
	shared_end(s);
	return true;
}

/* sweep gives back what dead clients had. */
static void sweep(struct shared *s)
{
	struct case_shared_books *books = s->books;
	struct case_shared_process dead;

	for (uint32_t i = 0; i < books->holdings;) {
		dead = books->holding[i].process;
		if (!books_same(&dead, &s->self) && shared_gone(&dead))
			books_forget(books, &dead);
		else
			i++;
	}
	for (uint32_t i = 0; i < books->requests;) {
		dead = books->request[i].process;
		if (!books_same(&dead, &s->self) && shared_gone(&dead))
			books_forget(books, &dead);
		else
			i++;
	}
}

/* device_of finds the device that a request names. */
static bool device_of(const struct shared *s, int32_t ordinal, uint32_t *device)
{
	for (*device = 0; *device < s->config.devices; (*device)++)
		if (ordinal < 0 || s->config.device[*device].ordinal == ordinal)
			return true;
	return false;
}

static void refuse(struct shared_answer *answer, uint32_t reason, const char *text)
{
	answer->reason = reason;
	answer->text = text;
}

/* possible says whether the request could be granted on an otherwise empty device. */
static bool possible(const struct shared *s, const struct shared_need *need, struct shared_answer *answer)
{
	const struct case_shared_device *d = &s->config.device[0];
	const bool there = device_of(s, need->device, &answer->device);

	if (there)
		d = &s->config.device[answer->device];
	answer->ordinal = d->ordinal;
	answer->capacity = d->capacity;
	memcpy(answer->uuid, d->uuid, sizeof answer->uuid);
	const uint64_t beside = need->held + d->context_bytes;
	answer->need = need->bytes > INT64_MAX - beside ? INT64_MAX : need->bytes + beside;
	if (!there)
		refuse(answer, CASE_REASON_TOO_LARGE, "this scheduler does not use the device that it names");
	else if (answer->need > answer->capacity && need->grows)
		refuse(answer, CASE_REASON_DEVICE_FULL, "the device is too small");
	else if (answer->need > answer->capacity)
		refuse(answer, CASE_REASON_TOO_LARGE, "fits no device even when the node is empty");
	return answer->reason == 0;
}

static uint64_t expiry(const struct shared *s, uint32_t wait_ms, uint64_t now)
{
	if (wait_ms == CASE_WAIT_NONE)
		return now;
	if (wait_ms != CASE_WAIT_DEFAULT)
		return now + wait_ms * ms;
	return s->config.wait_limit_ns == 0 ? 0 : now + s->config.wait_limit_ns;
}

/* take_answer reads the decision on a request, and takes the request out of the books. */
static void take_answer(struct shared *s, struct case_shared_request *r, struct shared_answer *answer)
{
	struct tally *t = &s->tally[r->device];

	switch (r->answer) {
	case CASE_SHARED_GRANTED:
		t->here = true;
		t->bytes += r->bytes;
		t->tasks += r->grows ? 0 : 1;
		break;
	case CASE_SHARED_TIMED_OUT:
		refuse(answer, CASE_REASON_TIMEOUT, "no room within the time that it may wait");
		break;
	default:
		refuse(answer, CASE_REASON_DEVICE_FULL,
		       "out of memory: every client of the device waits for another, and this one came last");
	}
	books_withdraw(s->books, r);
}

/* look_again is when a waiting request is looked at again, if nobody rings before. */
static uint64_t look_again(const struct case_shared_books *books, const struct case_shared_request *r, uint64_t now)
{
	uint64_t at = now + first_looks_ns;

	for (const struct case_shared_request *other = books->request; other < r; other++)
		if (other->device == r->device && other->answer == CASE_SHARED_WAITING)
			at = now + others_look_ns;
	return r->expires_ns != 0 && r->expires_ns < at ? r->expires_ns : at;
}

/* sleep_at waits at a futex that read `seen` until it is rung, or until the time. */
static void sleep_at(uint32_t *bell, uint32_t seen, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};

	syscall(SYS_futex, bell, FUTEX_WAIT_BITSET, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

bool shared_ask(struct shared *s, const struct shared_need *need, const struct pause *pause,
                struct shared_answer *answer, char *why, size_t why_size)
{
	*answer = (struct shared_answer){.reason = 0};
	if (!possible(s, need, answer))
		return true;
	const struct case_shared_request wanted = {
		.process = s->self,
		.bytes = need->bytes,
		.expires_ns = expiry(s, need->wait_ms, shared_now_ns()),
		.priority = need->priority,
		.device = answer->device,
		.grows = need->grows,
	};
	for (uint64_t id = 0;;) {
		if (!shared_begin(s, why, why_size))
			return false;
		struct case_shared_books *books = s->books;
		struct case_shared_request *r = id == 0 ? NULL : books_request(books, &s->self, id);
		if (r == NULL) { /* not asked yet, or the books were recovered */
			if ((r = books_ask(books, &wanted, shared_now_ns())) == NULL) {
				shared_end(s);
				refuse(answer, CASE_REASON_TOO_MANY, "too many clients wait");
				return true;
			}
			id = r->id;
			books_grant(&s->config, books);
		}
		if (r->answer == CASE_SHARED_WAITING) {
			sweep(s);
			books_settle(&s->config, books, shared_now_ns());
			r = books_request(books, &s->self, id);
		}
		if (r->answer != CASE_SHARED_WAITING) {
			take_answer(s, r, answer);
			shared_end(s);
			return true;
		}
		uint32_t *bell = &s->file->bell[id % CASE_SHARED_BELLS];
		const uint32_t seen = atomic_load((_Atomic uint32_t *)bell);
		const uint64_t until = look_again(books, r, shared_now_ns());
		shared_end(s);
		pause->begin(pause->of);
		sleep_at(bell, seen, until);
		pause->end(pause->of);
	}
}

bool shared_give(struct shared *s, uint32_t device, uint64_t bytes, uint32_t tasks, char *why, size_t why_size)
{
	struct tally *t = &s->tally[device];

	const uint64_t entered = s->epoch;

	t->bytes -= bytes;
	t->tasks -= tasks;
	if (!shared_begin(s, why, why_size)) {
		s->epoch = 0;
		return false;
	}
	if (s->epoch == entered) { /* else the tally has been entered as it is now */
		struct case_shared_holding *h = books_holding(s->books, &s->self, device);
		h->bytes -= bytes;
		h->tasks -= tasks;
	}
	books_settle(&s->config, s->books, shared_now_ns());
	shared_end(s);
	return true;
}

void shared_leave(struct shared *s)
{
	char why[256];

	if (!shared_begin(s, why, sizeof why))
		return; /* the next client finds this process gone */
	sweep(s);
	books_settle(&s->config, s->books, shared_now_ns());
	shared_backup(s);
	shared_end(s);
}

void shared_close(struct shared *s)
{
	if (s->file != NULL)
		munmap(s->file, sizeof *s->file);
	s->file = NULL;
}
