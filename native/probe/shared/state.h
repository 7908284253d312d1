/* state.h: the state file of schedGPU's shared-memory architecture, in which its clients
 * keep their books (Reaño et al., TPDS 2018, section 3.2).
 *
 * The file has one size. Its configuration is written once. The books have two copies. `committed`
 * is the checksum of the copy that counts. The holder of the lock (lock.h) writes the other copy, and
 * then that copy's checksum to `committed`. A process that is killed at any instruction before that
 * has changed nothing. If no copy has this checksum, the file is damaged.
 *
 * The backup, PATH.backup, is a copy of a state file whose other copy of the books is empty.
 *
 * runner/schedshm makes it from Go; testdata/state.hex holds one file's bytes that both sides
 * test against. Integers are little-endian; unused bytes are zero. A change of layout
 * changes CASE_SHARED_VERSION; the magic number and the version never move.
 */
#ifndef CASE_SHARED_STATE_H
#define CASE_SHARED_STATE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file holds the structs' own bytes, which needs a little-endian machine"
#endif

#define CASE_SHARED_MAGIC UINT64_C(0x6d68736573616373) /* "scaseshm" */
#define CASE_SHARED_VERSION 2
#define CASE_SHARED_DEVICES 16
#define CASE_SHARED_HOLDINGS 512
#define CASE_SHARED_REQUESTS 512
#define CASE_SHARED_BELLS 512

/* Which waiting client goes next (section 5 of the paper). */
enum case_shared_policy {
	CASE_SHARED_FIFO = 1,
	CASE_SHARED_MMU = 2,
	CASE_SHARED_PRIORITY_FIFO = 3,
	CASE_SHARED_PRIORITY_MMU = 4
};

struct case_shared_device {
	uint8_t uuid[16];
	uint64_t capacity;      /* bytes for all clients together */
	uint64_t context_bytes; /* of each client, from its first grant to its end */
	int32_t ordinal;        /* as cudaSetDevice takes it, in PCI bus order */
	uint32_t zero;
};

struct case_shared_config {
	uint64_t magic;
	uint32_t version;
	uint32_t size;          /* of the file, bytes */
	uint64_t checksum;      /* of the rest of this struct */
	uint64_t wait_limit_ns; /* of a request that names none; 0: it may wait for ever */
	uint32_t policy;        /* enum case_shared_policy */
	uint32_t devices;
	struct case_shared_device device[CASE_SHARED_DEVICES];
};

/* A client: one process. /proc/PID/stat tells it from a later process of the same number, and from
 * the program that exec puts in its place. */
struct case_shared_process {
	uint32_t pid;
	uint32_t instance; /* of the library in the process, which may have several */
	uint64_t started;  /* field 22, clock ticks since boot */
	uint64_t code;     /* field 26, and 28 below; 0: unknown */
	uint64_t stack;
};

/* What a client has on a device that it has been granted once. */
struct case_shared_holding {
	struct case_shared_process process;
	uint64_t bytes; /* of its tasks, without its context */
	uint32_t device; /* its place in the configuration */
	uint32_t tasks;
};

enum case_shared_answer {
	CASE_SHARED_WAITING = 0,
	CASE_SHARED_GRANTED = 1,
	CASE_SHARED_TIMED_OUT = 2, /* it waited as long as it may */
	CASE_SHARED_STUCK = 3      /* all that is in its way belongs to clients that wait */
};

/* What a client asks for. It stays until the client has read the answer. */
struct case_shared_request {
	struct case_shared_process process;
	uint64_t id;         /* larger than the id of each request before it */
	uint64_t bytes;
	uint64_t expires_ns; /* CLOCK_MONOTONIC; 0: never */
	int32_t priority;    /* larger goes first where the policy looks at it */
	uint32_t device;
	uint32_t grows;      /* 1: a task that has its device asks for more */
	uint32_t answer;     /* enum case_shared_answer */
};

struct case_shared_books {
	uint64_t checksum; /* of what follows, as far as it is in use */
	uint64_t sequence; /* grows with each commit */
	uint64_t epoch;    /* changes when the books were recovered and may not be up to date */
	uint64_t last_id;
	uint32_t holdings;
	uint32_t requests;
	struct case_shared_holding holding[CASE_SHARED_HOLDINGS];
	struct case_shared_request request[CASE_SHARED_REQUESTS]; /* by arrival */
};

struct case_shared_file {
	struct case_shared_config config;
	uint8_t mutex[64];   /* of the architecture with a mutex (lock_mutex.c) */
	uint64_t committed;  /* the checksum of the copy of the books that counts */
	uint64_t look_at_ns; /* CLOCK_MONOTONIC: when a waiting client next looks for dead clients */
	uint32_t bell[CASE_SHARED_BELLS]; /* futexes: request id rings bell id mod CASE_SHARED_BELLS */
	struct case_shared_books books[2];
};

static_assert(sizeof(struct case_shared_device) == 40, "device");
static_assert(sizeof(struct case_shared_config) == 680, "configuration");
static_assert(sizeof(struct case_shared_process) == 32, "process");
static_assert(sizeof(struct case_shared_holding) == 48, "holding");
static_assert(sizeof(struct case_shared_request) == 72, "request");
static_assert(sizeof(struct case_shared_books) == 40 + 48 * 512 + 72 * 512, "books");
static_assert(sizeof(struct case_shared_file) == 680 + 64 + 16 + 4 * 512 + 2 * 61480, "file");

static_assert(offsetof(struct case_shared_config, checksum) == 16, "checksum");
static_assert(offsetof(struct case_shared_config, wait_limit_ns) == 24, "wait limit");
static_assert(offsetof(struct case_shared_config, policy) == 32, "policy");
static_assert(offsetof(struct case_shared_config, devices) == 36, "devices");
static_assert(offsetof(struct case_shared_config, device) == 40, "device");
static_assert(offsetof(struct case_shared_device, capacity) == 16, "capacity");
static_assert(offsetof(struct case_shared_device, context_bytes) == 24, "context");
static_assert(offsetof(struct case_shared_device, ordinal) == 32, "ordinal");
static_assert(offsetof(struct case_shared_process, instance) == 4, "instance");
static_assert(offsetof(struct case_shared_process, started) == 8, "started");
static_assert(offsetof(struct case_shared_process, code) == 16, "code");
static_assert(offsetof(struct case_shared_process, stack) == 24, "stack");
static_assert(offsetof(struct case_shared_holding, bytes) == 32, "bytes");
static_assert(offsetof(struct case_shared_holding, device) == 40, "device");
static_assert(offsetof(struct case_shared_holding, tasks) == 44, "tasks");
static_assert(offsetof(struct case_shared_request, id) == 32, "id");
static_assert(offsetof(struct case_shared_request, bytes) == 40, "bytes");
static_assert(offsetof(struct case_shared_request, expires_ns) == 48, "expires");
static_assert(offsetof(struct case_shared_request, priority) == 56, "priority");
static_assert(offsetof(struct case_shared_request, device) == 60, "device");
static_assert(offsetof(struct case_shared_request, grows) == 64, "grows");
static_assert(offsetof(struct case_shared_request, answer) == 68, "answer");
static_assert(offsetof(struct case_shared_books, sequence) == 8, "sequence");
static_assert(offsetof(struct case_shared_books, epoch) == 16, "epoch");
static_assert(offsetof(struct case_shared_books, last_id) == 24, "last id");
static_assert(offsetof(struct case_shared_books, holdings) == 32, "holdings");
static_assert(offsetof(struct case_shared_books, requests) == 36, "requests");
static_assert(offsetof(struct case_shared_books, holding) == 40, "holding");
static_assert(offsetof(struct case_shared_file, committed) == 744, "committed");
static_assert(offsetof(struct case_shared_file, look_at_ns) == 752, "look at");
static_assert(offsetof(struct case_shared_file, bell) == 760, "bell");
static_assert(offsetof(struct case_shared_file, books) == 2808, "books");

#endif
