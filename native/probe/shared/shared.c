/* shared.c: see shared.h.
 *
 * A client that gives memory back decides who goes next, and wakes that client at the futex where it
 * waits. (The paper sends a signal instead, which programs may use themselves.) A client that is
 * killed wakes nobody, so waiting clients look whether others have died. To look at hundreds of
 * processes takes milliseconds. So it is done without the lock, and one client does it for all: the
 * file says when the next look is due, and the client that looks first moves that on. The client that
 * has waited longest wakes up for it; the others wake up later, in case that client dies. */
#define _GNU_SOURCE /* syscall */
#include "shared.h"

#include <linux/futex.h>
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

/* Looks are `period_ns` apart, and further where one takes long: they take at most a tenth of a core. */
static const uint64_t period_ns = 20 * ms, longest_period_ns = 1000 * ms, share = 10;
enum { LATEST = 9 }; /* periods that a waiting client leaves a look that is due to those before it */

bool shared_open(struct shared *s, const char *path, bool creates, uint32_t instance, char *why, size_t why_size)
{
	memset(s, 0, offsetof(struct shared, dead)); /* each section fills in what follows */
	s->creates = creates;
	s->self = shared_self(instance);
	if (strlen(path) >= sizeof s->path) {
		snprintf(why, why_size, "the state file's path has %zu bytes; it may have %zu", strlen(path), sizeof s->path - 1);
		return false;
	}
	strcpy(s->path, path);
	snprintf(s->backup, sizeof s->backup, "%s.backup", path);
	return shared_begin(s, why, why_size) && shared_end(s, why, why_size);
}

/* look_due says whether a look is due; it also is where the file says nonsense. */
static bool look_due(uint64_t look_at_ns, uint64_t now) { return look_at_ns <= now || look_at_ns - now > longest_period_ns; }

static void put_off(struct shared *s, uint64_t until_ns)
{
	if (file_write(&s->file->look_at_ns, &until_ns, sizeof until_ns))
		s->look_at_ns = until_ns;
}

/* named is process i of the books: first those that hold memory, then those that ask for it. */
static const struct case_shared_process *named(const struct case_shared_books *books, uint32_t i)
{
	return i < books->holdings ? &books->holding[i].process : &books->request[i - books->holdings].process;
}

static bool named_before(const struct case_shared_books *books, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (named(books, k)->pid == named(books, i)->pid && books_same(named(books, k), named(books, i)))
			return true;
	return false;
}

/* look finds the dead clients of the books as they were in the last section. */
static void look(struct shared *s)
{
	struct dead *dead = &s->dead;
	const struct case_shared_books *books = &s->books;
	const uint64_t began = shared_now_ns();

	shared_point("looking");
	dead->count = 0;
	for (uint32_t i = 0; i < books->holdings + books->requests && dead->count < CASE_SHARED_HOLDINGS; i++)
		if (!books_same(named(books, i), &s->self) && !named_before(books, i) && shared_gone(named(books, i)))
			dead->process[dead->count++] = *named(books, i);
	const uint64_t now = shared_now_ns(), rest = (now - began) * (share - 1);
	dead->next_look_ns = now + (rest < period_ns ? period_ns : rest > longest_period_ns ? longest_period_ns : rest);
}

/* bury gives back what the dead of the last look had. */
static void bury(struct shared *s)
{
	for (uint32_t i = 0; i < s->dead.count; i++)
		books_forget(&s->books, &s->dead.process[i]);
	put_off(s, s->dead.next_look_ns);
}

/* device_of finds the device that a request names. */
static bool device_of(const struct shared *s, int32_t ordinal, uint32_t *device)
{
	for (*device = 0; *device < s->config.devices; (*device)++)
		if (ordinal < 0 || s->config.device[*device].ordinal == ordinal)
			return true;
	return false;
}

static void refuse(struct shared_answer *answer, uint32_t cause, const char *text)
{
	answer->cause = cause;
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
		refuse(answer, CASE_CAUSE_TOO_LARGE, "this scheduler does not use the device that it names");
	else if (answer->need > answer->capacity && need->grows)
		refuse(answer, CASE_CAUSE_DEVICE_FULL, "the device is too small");
	else if (answer->need > answer->capacity)
		refuse(answer, CASE_CAUSE_TOO_LARGE, "fits no device even when the node is empty");
	return answer->cause == 0;
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
		refuse(answer, CASE_CAUSE_TIMED_OUT, "no room within the time that it may wait");
		break;
	default:
		refuse(answer, CASE_CAUSE_DEVICE_FULL,
		       "out of memory: every client of the device waits for another, and this one came last");
	}
	books_withdraw(&s->books, r);
}

/* sleeper is what a thread needs to know while it waits, without the lock. */
struct sleeper {
	struct case_shared_file *file;
	uint32_t *bell, seen; /* what the bell said in the section */
	uint64_t expires_ns;  /* of its request; 0: never */
	uint64_t latest_ns;   /* when it comes to the file whatever it is told, in case that its request is not there */
	uint64_t patience_ns; /* how long it leaves a look that is due to others */
};

/* prepare_sleep is called in the section. */
static void prepare_sleep(struct shared *s, const struct case_shared_request *r, struct sleeper *z)
{
	uint64_t before = 0;

	for (const struct case_shared_request *other = s->books.request; other < r && before < LATEST; other++)
		before += other->answer == CASE_SHARED_WAITING;
	z->file = s->file;
	z->bell = &s->file->bell[r->id % CASE_SHARED_BELLS];
	z->expires_ns = r->expires_ns;
	z->latest_ns = shared_now_ns() + longest_period_ns;
	z->patience_ns = before * period_ns;
	if (!file_read(z->bell, &z->seen, sizeof z->seen))
		z->seen = 0; /* the file has been truncated, and the thread will not sleep */
}

/* sleep_until_due waits until the bell is rung, the request expires, or the thread has to look. */
static void sleep_until_due(const struct sleeper *z)
{
	uint64_t look_at, until;
	uint32_t rung;

	while (file_read(&z->file->look_at_ns, &look_at, sizeof look_at) && file_read(z->bell, &rung, sizeof rung) && rung == z->seen) {
		const uint64_t now = shared_now_ns();
		until = look_at + z->patience_ns;
		if (look_due(look_at, now) && until <= now)
			return;
		if (z->expires_ns != 0 && z->expires_ns < until)
			until = z->expires_ns;
		if (z->latest_ns < until)
			until = z->latest_ns;
		if (until <= now)
			return;
		const struct timespec time = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
		syscall(SYS_futex, z->bell, FUTEX_WAIT_BITSET, z->seen, &time, NULL, FUTEX_BITSET_MATCH_ANY);
	}
}

/* note_id says that a thread waits for the request `id` instead of `before`; 0: for none. */
static void note_id(struct shared *s, uint64_t before, uint64_t id)
{
	for (uint32_t i = 0; before != 0 && i < s->asks; i++)
		if (s->asked[i] == before) {
			s->asked[i] = s->asked[--s->asks];
			break;
		}
	if (id != 0)
		s->asked[s->asks++] = id;
}

static bool ask(struct shared *s, const struct shared_need *need, const struct pause *pause,
                struct shared_answer *answer, uint64_t *id, char *why, size_t why_size)
{
	const struct case_shared_request wanted = {
		.process = s->self,
		.bytes = need->bytes,
		.expires_ns = expiry(s, need->wait_ms, shared_now_ns()),
		.priority = need->priority,
		.device = answer->device,
		.grows = need->grows,
	};
	bool looked = false;
	for (;;) {
		struct case_shared_books *books = &s->books;
		bool deadlock = false;
		if (!shared_begin(s, why, why_size))
			return false;
		if (looked)
			bury(s);
		if (*id == 0 || books_request(books, &s->self, *id) == NULL) { /* not asked yet, or the books were recovered */
			note_id(s, *id, 0);
			*id = 0;
			const struct case_shared_request *asked = s->asks < CASE_SHARED_REQUESTS ? books_ask(books, &wanted) : NULL;
			if (asked == NULL) {
				refuse(answer, CASE_CAUSE_TOO_MANY, "too many clients wait");
				return shared_end(s, why, why_size);
			}
			*id = asked->id;
			note_id(s, 0, *id);
			deadlock = books_grant(&s->config, books);
		}
		const uint64_t now = shared_now_ns();
		if (looked)
			books_settle(&s->config, books, now);
		struct case_shared_request *r = books_request(books, &s->self, *id);
		if (r->answer != CASE_SHARED_WAITING) {
			take_answer(s, r, answer);
			return shared_end(s, why, why_size);
		}
		/* Nobody is refused before a look, because the dead may be in the way. */
		const bool expired = r->expires_ns != 0 && r->expires_ns <= now;
		const bool looks = !looked && (deadlock || expired || look_due(s->look_at_ns, now));
		struct sleeper sleeper;
		if (looks)
			put_off(s, now + period_ns);
		else
			prepare_sleep(s, r, &sleeper);
		if (!shared_end(s, why, why_size))
			return false;
		looked = looks;
		if (looks) {
			look(s);
			continue;
		}
		pause->begin(pause->of);
		sleep_until_due(&sleeper);
		pause->end(pause->of);
	}
}

bool shared_ask(struct shared *s, const struct shared_need *need, const struct pause *pause,
                struct shared_answer *answer, char *why, size_t why_size)
{
	uint64_t id = 0;

	*answer = (struct shared_answer){.cause = 0};
	if (!possible(s, need, answer))
		return true;
	const bool done = ask(s, need, pause, answer, &id, why, why_size);
	note_id(s, id, 0);
	return done;
}

bool shared_give(struct shared *s, uint32_t device, uint64_t bytes, uint32_t tasks, char *why, size_t why_size)
{
	struct tally *t = &s->tally[device];
	const bool begun = shared_begin(s, why, why_size);

	t->bytes -= bytes;
	t->tasks -= tasks;
	if (!begun) {
		s->epoch = 0;
		return false;
	}
	struct case_shared_holding *h = books_holding(&s->books, &s->self, device);
	if (h != NULL) { /* else the books had no room for it */
		h->bytes -= bytes;
		h->tasks -= tasks;
	}
	books_grant(&s->config, &s->books); /* whoever waits looks for what is to be refused */
	return shared_end(s, why, why_size);
}

void shared_leave(struct shared *s)
{
	char why[256];

	look(s);
	if (!shared_begin(s, why, sizeof why))
		return; /* the next client finds this process gone */
	bury(s);
	books_settle(&s->config, &s->books, shared_now_ns());
	shared_backup(s);
	shared_end(s, why, sizeof why);
}

void shared_close(struct shared *s)
{
	if (s->file != NULL)
		munmap(s->file, sizeof *s->file);
	s->file = NULL;
}
