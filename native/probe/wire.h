/* wire.h: the frames between libcase and the run's scheduler.
 *
 * Transport: one SOCK_SEQPACKET Unix socket per process. One packet is one
 * frame, so there is no partial frame to reassemble. Each frame type has one
 * fixed size; integers are little-endian; unused bytes are zero. A frame that
 * breaks a rule of this file costs its sender the connection.
 *
 * Client to server: HELLO once and first; then any number of TASK_BEGIN, TASK_DECIDED,
 * TASK_SHAPE, TASK_GROW, TASK_SHRINK, TASK_FREE, OOM and FAULT; BYE last. Server to client:
 * GRANT or REFUSE, one for each TASK_BEGIN and TASK_GROW, in any order between tasks.
 *
 * A task id is chosen by the client and names a task of its own connection.
 * It becomes live with TASK_BEGIN and stops being live with TASK_FREE or when
 * its begin is refused; then it may be used again. TASK_SHAPE, TASK_GROW, TASK_SHRINK and
 * TASK_FREE need a live task that has no request outstanding. TASK_SHAPE and TASK_SHRINK
 * have no answer. A refused grow leaves the task as it was.
 *
 * In a run whose clients decide for themselves the server only records. Every TASK_BEGIN has
 * CASE_FLAG_DECIDED there, and nowhere else. The server answers neither it nor a TASK_GROW of
 * such a task: TASK_DECIDED, from the client, says how the request ended.
 *
 * The process's end frees all of its tasks, and so does exec: device memory lasts as long as
 * the program that allocated it. The end of the connection alone withdraws what waits for a
 * device and frees nothing; growth is answered over the next connection, if there is one by
 * then. What the client itself decides is not withdrawn. A process that has lost its
 * descriptor, as one that closes all descriptors, connects again and says HELLO with the same
 * `instance`: its tasks go on. Only where the server cannot see the process, as in another PID
 * namespace, does the end of the connection count as the process's.
 *
 * The server records the first CASE_WIRE_REPORTS OOM and FAULT frames of a process each and
 * counts further ones. It refuses requests of a job that has too many open
 * (CASE_REASON_TOO_MANY), and connections of a process or job that has too many.
 *
 * runner/probe/wire.go is the Go side. testdata/ holds one frame of each type, which both
 * sides test against. A change of layout changes
 * CASE_WIRE_VERSION; the header and REFUSE never change, so that each version
 * can tell another why it hangs up.
 */
#ifndef CASE_WIRE_H
#define CASE_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are the structs' own bytes, which needs a little-endian machine"
#endif

#define CASE_WIRE_VERSION 3

enum case_wire_type {
	CASE_WIRE_HELLO = 1,
	CASE_WIRE_TASK_BEGIN = 2,
	CASE_WIRE_GRANT = 3,
	CASE_WIRE_REFUSE = 4,
	CASE_WIRE_TASK_GROW = 5,
	CASE_WIRE_TASK_FREE = 6,
	CASE_WIRE_OOM = 7,
	CASE_WIRE_FAULT = 8,
	CASE_WIRE_BYE = 9,
	CASE_WIRE_TASK_SHAPE = 10,
	CASE_WIRE_TASK_SHRINK = 11,
	CASE_WIRE_TASK_DECIDED = 12
};

/* Why a request was refused. */
enum case_wire_reason {
	CASE_REASON_TOO_LARGE = 1,   /* fits no device that it may use, even empty */
	CASE_REASON_DEVICE_FULL = 2, /* no room beside what nobody will give back */
	CASE_REASON_TIMEOUT = 3,     /* waited as long as it, or the scheduler, allows */
	CASE_REASON_STOPPING = 4,    /* the run is ending */
	CASE_REASON_PROTOCOL = 5,    /* task is 0: the server hangs up after this */
	CASE_REASON_TOO_MANY = 6     /* its job has too many requests or tasks open */
};

/* Sums of bytes stay below 2^63: the store keeps signed 64-bit integers. */
#define CASE_WIRE_MAX_BYTES INT64_MAX
#define CASE_FLAG_DECIDED 4u /* the client decides by itself (TASK_DECIDED) */
#define CASE_WIRE_FLAGS 7u   /* this one and those of case.h */
#define CASE_WIRE_REPORTS 8
#define CASE_WIRE_TEXT 120
#define CASE_WIRE_WHERE 120
#define CASE_WIRE_TOKEN 16
#define CASE_WIRE_MAX_FRAME 160

struct case_wire_header {
	uint16_t type;
	uint16_t version;
	uint32_t size; /* of the whole frame, this header included */
};

struct case_wire_hello {
	struct case_wire_header header;
	uint32_t pid; /* for people; the server trusts SO_PEERCRED instead */
	uint32_t instance; /* of the library in the process, which may have several; 0: never connects again */
	uint8_t token[CASE_WIRE_TOKEN]; /* CASE_TOKEN, which names the job */
};

struct case_wire_task_begin {
	struct case_wire_header header;
	uint64_t task;
	uint64_t bytes;
	uint64_t blocks; /* below 2^63, as bytes */
	uint64_t heap_bytes;
	uint32_t threads_per_block;
	uint32_t flags;
	uint32_t blocks_per_sm; /* of the kernel that one SM holds; 0: unknown */
	int32_t device;         /* ordinal, with CASE_FLAG_DEVICE; else 0 */
	uint32_t wait_ms;       /* longest wait, or one of CASE_WAIT_* of case.h */
	uint32_t zero;
};

struct case_wire_grant {
	struct case_wire_header header;
	uint64_t task;
	uint8_t uuid[16];
	int32_t ordinal; /* as cudaSetDevice takes it, in PCI bus order */
	uint32_t zero;
};

struct case_wire_refuse {
	struct case_wire_header header;
	uint64_t task;
	uint64_t need;     /* bytes */
	uint64_t capacity; /* bytes */
	uint32_t reason;
	uint32_t zero;
	char text[CASE_WIRE_TEXT]; /* NUL-terminated, filled up with NUL */
};

struct case_wire_task_grow {
	struct case_wire_header header;
	uint64_t task;
	uint64_t bytes;   /* in addition to what the task holds */
	uint32_t wait_ms; /* as in TASK_BEGIN */
	uint32_t zero;
};

struct case_wire_task_shrink {
	struct case_wire_header header;
	uint64_t task;
	uint64_t bytes; /* given back; no more than the task holds */
};

/* How the outstanding request of a task with CASE_FLAG_DECIDED ended. */
struct case_wire_task_decided {
	struct case_wire_header header;
	uint64_t task;
	uint64_t need;     /* bytes, below 2^63; 0 where it was granted */
	uint64_t capacity; /* the same */
	uint32_t reason;   /* 0: granted; else 1 to 3 of enum case_wire_reason */
	int32_t ordinal;   /* as in GRANT; 0 where it was refused */
};

/* The task's largest kernel so far, which corrects what TASK_BEGIN said. */
struct case_wire_task_shape {
	struct case_wire_header header;
	uint64_t task;
	uint64_t blocks; /* below 2^63 */
	uint32_t threads_per_block;
	uint32_t blocks_per_sm;
};

struct case_wire_task_free {
	struct case_wire_header header;
	uint64_t task;
};

struct case_wire_oom {
	struct case_wire_header header;
	uint64_t bytes;
	char where[CASE_WIRE_WHERE]; /* as text above */
};

struct case_wire_fault {
	struct case_wire_header header;
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC of the host */
	int32_t code;          /* cudaError_t */
	uint32_t zero;
	char where[CASE_WIRE_WHERE];
};

struct case_wire_bye {
	struct case_wire_header header;
};

/* With HELLO comes, as SCM_RIGHTS, the descriptor of a memfd that cannot shrink
 * (F_SEAL_SHRINK), which the process keeps up to date; without it the server knows
 * nothing of its work and its memory. */
struct case_activity {
	uint64_t busy_since_ns; /* CLOCK_MONOTONIC when the first work began whose end the
	                         * process has not seen; 0: none is running */
	uint64_t peak_bytes; /* the most that its tasks had in use at one time of what they
	                      * were granted, device heap included; 0: unknown */
};

static_assert(sizeof(struct case_activity) == 16, "activity");
static_assert(sizeof(struct case_wire_header) == 8, "header");
static_assert(sizeof(struct case_wire_hello) == 32, "HELLO");
static_assert(sizeof(struct case_wire_task_begin) == 64, "TASK_BEGIN");
static_assert(sizeof(struct case_wire_grant) == 40, "GRANT");
static_assert(sizeof(struct case_wire_refuse) == 160, "REFUSE");
static_assert(sizeof(struct case_wire_task_grow) == 32, "TASK_GROW");
static_assert(sizeof(struct case_wire_task_shrink) == 24, "TASK_SHRINK");
static_assert(sizeof(struct case_wire_task_decided) == 40, "TASK_DECIDED");
static_assert(sizeof(struct case_wire_task_free) == 16, "TASK_FREE");
static_assert(sizeof(struct case_wire_oom) == 136, "OOM");
static_assert(sizeof(struct case_wire_fault) == 144, "FAULT");
static_assert(sizeof(struct case_wire_bye) == 8, "BYE");
static_assert(sizeof(struct case_wire_task_shape) == 32, "TASK_SHAPE");
static_assert(sizeof(struct case_wire_refuse) == CASE_WIRE_MAX_FRAME, "largest");

static_assert(offsetof(struct case_wire_hello, pid) == 8, "pid");
static_assert(offsetof(struct case_wire_hello, instance) == 12, "instance");
static_assert(offsetof(struct case_wire_hello, token) == 16, "token");
static_assert(offsetof(struct case_wire_task_begin, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_begin, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_begin, blocks) == 24, "blocks");
static_assert(offsetof(struct case_wire_task_begin, heap_bytes) == 32, "heap");
static_assert(offsetof(struct case_wire_task_begin, threads_per_block) == 40, "threads");
static_assert(offsetof(struct case_wire_task_begin, flags) == 44, "flags");
static_assert(offsetof(struct case_wire_task_begin, blocks_per_sm) == 48, "blocks per SM");
static_assert(offsetof(struct case_wire_task_begin, device) == 52, "device");
static_assert(offsetof(struct case_wire_task_begin, wait_ms) == 56, "wait");
static_assert(offsetof(struct case_wire_task_shape, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_shape, blocks) == 16, "blocks");
static_assert(offsetof(struct case_wire_task_shape, threads_per_block) == 24, "threads");
static_assert(offsetof(struct case_wire_task_shape, blocks_per_sm) == 28, "blocks per SM");
static_assert(offsetof(struct case_wire_grant, task) == 8, "task");
static_assert(offsetof(struct case_wire_grant, uuid) == 16, "uuid");
static_assert(offsetof(struct case_wire_grant, ordinal) == 32, "ordinal");
static_assert(offsetof(struct case_wire_refuse, task) == 8, "task");
static_assert(offsetof(struct case_wire_refuse, need) == 16, "need");
static_assert(offsetof(struct case_wire_refuse, capacity) == 24, "capacity");
static_assert(offsetof(struct case_wire_refuse, reason) == 32, "reason");
static_assert(offsetof(struct case_wire_refuse, text) == 40, "text");
static_assert(offsetof(struct case_wire_task_grow, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_grow, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_grow, wait_ms) == 24, "wait");
static_assert(offsetof(struct case_wire_task_shrink, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_shrink, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_decided, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_decided, need) == 16, "need");
static_assert(offsetof(struct case_wire_task_decided, capacity) == 24, "capacity");
static_assert(offsetof(struct case_wire_task_decided, reason) == 32, "reason");
static_assert(offsetof(struct case_wire_task_decided, ordinal) == 36, "ordinal");
static_assert(offsetof(struct case_wire_task_free, task) == 8, "task");
static_assert(offsetof(struct case_wire_oom, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_oom, where) == 16, "where");
static_assert(offsetof(struct case_wire_fault, monotonic_ns) == 8, "time");
static_assert(offsetof(struct case_wire_fault, code) == 16, "code");
static_assert(offsetof(struct case_wire_fault, where) == 24, "where");

#endif
