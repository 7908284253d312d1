/* shared.h: a client of schedGPU's shared-memory architecture, which decides for itself over a state
 * file (state.h). A process has one client. Its calls are made one at a time, under a lock of the
 * caller, which the calls release while they wait (struct pause). */
#ifndef CASE_SHARED_H
#define CASE_SHARED_H

#include "file.h"

/* What lets go of the caller's lock before a wait, and takes it again. */
struct pause {
	void (*begin)(void *of);
	void (*end)(void *of);
	void *of;
};

struct shared_need {
	uint64_t bytes;
	uint64_t held;    /* bytes of the task that asks for more; else 0 */
	int32_t device;   /* ordinal; -1: the first of the file */
	uint32_t wait_ms; /* CASE_WAIT_* of case.h, or milliseconds */
	int32_t priority;
	bool grows;
};

/* What was decided. */
struct shared_answer {
	uint32_t cause;    /* 0: granted; else CASE_CAUSE_* of wire.h */
	uint32_t device;   /* its place in the configuration */
	int32_t ordinal;
	uint8_t uuid[16];
	uint64_t need;     /* bytes */
	uint64_t capacity; /* bytes */
	const char *text;  /* why it was refused */
};

/* shared_open prepares *s for the file at `path`. With `creates` it makes the file, with the
 * machine's GPUs. instance is the library's instance in this process. */
bool shared_open(struct shared *s, const char *path, bool creates, uint32_t instance, char *why, size_t why_size);

/* shared_ask waits until what is asked for is granted or refused. false: the file cannot
 * be used, why says what to do. */
bool shared_ask(struct shared *s, const struct shared_need *need, const struct pause *pause,
                struct shared_answer *answer, char *why, size_t why_size);

/* shared_give gives bytes back, and `tasks` tasks; device as in the answer. false: the file cannot be
 * used, and why says what to do; the next section does what this call could not. */
bool shared_give(struct shared *s, uint32_t device, uint64_t bytes, uint32_t tasks, char *why, size_t why_size);

/* shared_leave is the client's end: it looks for dead clients, and writes the backup. What the
 * process holds stays charged until the process is gone, because its device memory stays too. */
void shared_leave(struct shared *s);

/* shared_close unmaps the file in a child that fork has made. */
void shared_close(struct shared *s);

#endif
