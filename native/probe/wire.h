/* wire.h: the frames between libcase and the run's scheduler.
 *
 * Transport: one SOCK_SEQPACKET Unix socket per process. One packet is one
 * frame, so there is no partial frame to reassemble. Each frame type has one
 * fixed size; integers are little-endian; unused bytes are zero. A frame that
 * breaks a rule of this file costs its sender the connection.
 *
 * Client to server: HELLO once and first; then any number of TASK_BEGIN, TASK_DECIDED,
 * TASK_SHAPE, TASK_GROW, TASK_SHRINK, TASK_RESUME, TASK_YIELDED, TASK_MOVED, TASK_FREE, REVOKED, SWAP_MORE,
 * SWAP_KEPT, ROOM, MANAGED, OOM and FAULT;
 * BYE last. Server to client: WELCOME, which answers a HELLO with capabilities, before any other
 * frame; GRANT or REFUSE, one for each TASK_BEGIN, TASK_GROW and TASK_RESUME, in any order between
 * tasks; SWAP_SPACE, one for each SWAP_MORE, and such as are `offered`; SWAP_RECALL; REVOKE; ROOM_IS, one for each
 * ROOM and each MANAGED. A connection has at most one of these two unanswered.
 *
 * A task id is chosen by the client and names a task of its own connection.
 * It becomes live with TASK_BEGIN and stops being live with TASK_FREE or when
 * its begin is refused; then it may be used again. TASK_SHAPE, TASK_GROW, TASK_SHRINK,
 * TASK_RESUME, TASK_YIELDED, TASK_MOVED and TASK_FREE need a live task that has no request outstanding. TASK_SHAPE,
 * TASK_SHRINK, TASK_YIELDED and TASK_MOVED have no answer. A refused grow or resume leaves the task as it was.
 *
 * A server may take device memory back from a process whose HELLO said CASE_CAN_EVICT, if its
 * WELCOME had chunk_bytes other than 0. From then on:
 *
 *   - REVOKE needs a task that has a device, whatever request of the task is outstanding. Its
 *     ticket is the server's and is not 0. A task has at most one ticket unanswered.
 *   - REVOKED answers the ticket, over the connection on which REVOKE came. TASK_FREE answers it
 *     too, and so does the end of the connection. Outcome `busy` or `unable`: nothing has changed,
 *     and freed_bytes is 0. Only `unable` has a text. It also answers an action that the HELLO did not
 *     announce, or that the client does not know, and flags that it does not know.
 *   - A REVOKE may cross TASK_FREE, so a client ignores a REVOKE of a task that is not live, and
 *     uses no task id twice. A REVOKE may cross TASK_RESUME too.
 *   - From REVOKE on the task submits no work. After the outcome `done` of a yield or a stop it sends
 *     TASK_RESUME before it submits work again. After all others it goes on with its answer. The
 *     server grants a TASK_RESUME only while the task has no ticket unanswered.
 *   - TASK_YIELDED needs a WELCOME with bursts 1, and a task that may submit work and whose context has none
 *     unfinished. The task sends TASK_RESUME before it submits work again. TASK_YIELDED may cross REVOKE,
 *     which is answered nevertheless. The answer gives no permission back.
 *   - A connection has at most one SWAP_MORE unanswered.
 *   - A SWAP_SPACE that is offered has files. It needs CASE_CAN_PREPARE, and answers nothing.
 *   - SWAP_RECALL needs CASE_CAN_PREPARE too. SWAP_KEPT answers it, over the same connection. Until
 *     then the server neither recalls nor offers.
 *
 * For any other process, and in a run whose clients decide for themselves, REVOKE, REVOKED,
 * TASK_RESUME, TASK_YIELDED, TASK_MOVED, SWAP_MORE, SWAP_SPACE, SWAP_RECALL and SWAP_KEPT break the protocol.
 *
 * In a run whose clients decide for themselves the server only records. Every TASK_BEGIN has
 * CASE_FLAG_DECIDED there, and nowhere else. The server answers neither it nor a TASK_GROW of
 * such a task: TASK_DECIDED, from the client, says how the request ended.
 *
 * Descriptors (SCM_RIGHTS) come with HELLO, WELCOME and SWAP_SPACE alone: with the last two as many
 * as their field `files` says, or fewer if the receiver can have no more.
 *
 * The process's end frees all of its tasks, and so does exec: device memory lasts as long as
 * the program that allocated it. The end of the connection alone withdraws what waits for a
 * device, SWAP_MORE and ROOM, and frees nothing; growth and resumption are answered over the next
 * connection, if there is one by then. What the client itself decides is not withdrawn. A process
 * that has lost its descriptor, as one that closes all descriptors, connects again and says HELLO
 * with the same `instance`: its tasks go on, the capabilities of this HELLO count, and the server
 * ends the earlier connection. Only where the server cannot see the process, as in another PID
 * namespace, does the end of the connection count as the process's.
 *
 * The server records the first CASE_WIRE_REPORTS OOM and FAULT frames of a process each and
 * counts further ones. It refuses requests of a job that has too many open
 * (CASE_CAUSE_TOO_MANY), and connections of a process or job that has too many.
 *
 * runner/probe/wire is the Go side. testdata/ holds one frame of each type, which both
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

#define CASE_WIRE_VERSION 6

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
	CASE_WIRE_TASK_DECIDED = 12,
	CASE_WIRE_WELCOME = 13,
	CASE_WIRE_REVOKE = 14,
	CASE_WIRE_REVOKED = 15,
	CASE_WIRE_TASK_RESUME = 16,
	CASE_WIRE_SWAP_MORE = 17,
	CASE_WIRE_SWAP_SPACE = 18,
	CASE_WIRE_TASK_MOVED = 19,
	CASE_WIRE_SWAP_RECALL = 20,
	CASE_WIRE_SWAP_KEPT = 21,
	CASE_WIRE_TASK_YIELDED = 22,
	CASE_WIRE_ROOM = 23,
	CASE_WIRE_ROOM_IS = 24,
	CASE_WIRE_MANAGED = 25
};

/* Why a request was refused. */
enum case_wire_cause {
	CASE_CAUSE_TOO_LARGE = 1,   /* fits no device that it may use, even empty */
	CASE_CAUSE_DEVICE_FULL = 2, /* no room beside what nobody will give back */
	CASE_CAUSE_TIMED_OUT = 3,   /* waited as long as it, or the scheduler, allows */
	CASE_CAUSE_PROTOCOL = 5,    /* task is 0: the server hangs up after this */
	CASE_CAUSE_TOO_MANY = 6     /* its job has too many requests or tasks open */
};

/* What a process can do when it is told to (HELLO). Other bits are 0, and all but the first need the first. */
#define CASE_CAN_EVICT 1u   /* give device memory back, and have the same memory again later: yield and evict */
#define CASE_CAN_PREPARE 2u /* take host memory for which it has not asked, and give it back */
#define CASE_CAN_ADVISE 4u
#define CASE_CAN_MOVE 8u
#define CASE_CAN_STOP 16u

/* What REVOKE asks of a task. */
enum case_wire_action {
	CASE_REVOKE_YIELD = 1,  /* move at least `bytes` from the device to the host, and submit no more work */
	CASE_REVOKE_EVICT = 2,  /* move at least `bytes` */
	CASE_REVOKE_ADVISE = 3, /* move at least `bytes`, which kernels use from the host until the task resumes; 0: it is to resume for more */
	CASE_REVOKE_MOVE = 4,   /* move all that is on the device to the device named, where the task is from then on */
	CASE_REVOKE_STOP = 5    /* end kernels that run before they are done, to run them again after TASK_RESUME; else as yield */
};

/* How a revocation ended. */
enum case_wire_outcome {
	CASE_REVOKED_DONE = 1,
	CASE_REVOKED_BUSY = 2,  /* work that was submitted did not end by the deadline */
	CASE_REVOKED_UNABLE = 3 /* the text says why */
};

/* Sums of bytes stay below 2^63: the store keeps signed 64-bit integers. */
#define CASE_WIRE_MAX_BYTES INT64_MAX
#define CASE_FLAG_DECIDED 4u /* the client decides by itself (TASK_DECIDED) */
#define CASE_WIRE_FLAGS 15u  /* this one and those of case.h */
#define CASE_WIRE_REPORTS 8
#define CASE_WIRE_TEXT 120
#define CASE_WIRE_WHERE 120
#define CASE_WIRE_WHY 80
#define CASE_WIRE_FILES 64 /* at most, with one frame */
#define CASE_WIRE_TOKEN 16
#define CASE_WIRE_MAX_FRAME 168

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
	uint32_t capabilities; /* CASE_CAN_* */
	uint32_t zero;
};

struct case_wire_welcome {
	struct case_wire_header header;
	uint64_t chunk_bytes; /* unit in which memory moves; 0: this run takes nothing back */
	uint32_t window_us;   /* at most so much work is to be submitted at a time */
	uint32_t files;       /* descriptors that come with the frame; 0: nobody needs any */
	uint32_t bursts;      /* 1: TASK_YIELDED ends each burst of work; 0: a task may submit work until it is revoked */
	uint32_t zero;
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
	uint64_t host_bytes; /* of `bytes`, that are on the host at first; 0 unless HELLO said CASE_CAN_EVICT */
	uint64_t stay_bytes; /* of the others, that may begin on the host too (GRANT); 0 unless HELLO said CASE_CAN_ADVISE */
};

struct case_wire_grant {
	struct case_wire_header header;
	uint64_t task;
	uint8_t uuid[16];
	int32_t ordinal; /* as cudaSetDevice takes it, in PCI bus order */
	uint32_t zero;
	uint64_t host_bytes; /* of what is asked for, that stay on the host, as advised; not more than the request's stay_bytes */
};

struct case_wire_refuse {
	struct case_wire_header header;
	uint64_t task;
	uint64_t need;     /* bytes */
	uint64_t capacity; /* bytes */
	uint32_t cause;
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
	uint32_t cause;    /* 0: granted; else 1 to 3 of enum case_wire_cause */
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

struct case_wire_revoke {
	struct case_wire_header header;
	uint64_t task;
	uint64_t ticket;
	uint64_t bytes; /* below 2^63 */
	uint32_t action;
	uint32_t deadline_ms; /* for work that is running to end, from when the frame is read */
	uint8_t uuid[16]; /* of the device to which it moves, */
	int32_t ordinal;  /* both as in GRANT; of other actions 0 */
	uint32_t flags;   /* 0: this version has no flags */
};

struct case_wire_revoked {
	struct case_wire_header header;
	uint64_t task;
	uint64_t ticket;
	uint64_t freed_bytes;    /* device memory that this revocation gave back, or a move brought to the other device; this and all below: below 2^63 */
	uint64_t resident_bytes; /* of the task on the device now, fixed_bytes included */
	uint64_t fixed_bytes;    /* of these, cannot be moved */
	uint64_t drain_ns;       /* until the work that was running had ended */
	uint64_t copy_ns;
	uint64_t bookkeeping_ns; /* mapping, unmapping and the like */
	uint64_t lost_ns; /* how long kernels had run on the device that were stopped and are in no earlier answer; whatever the outcome */
	uint32_t outcome;
	uint32_t zero;
	char why[CASE_WIRE_WHY]; /* as text of REFUSE */
};

struct case_wire_task_resume {
	struct case_wire_header header;
	uint64_t task;
	uint64_t bytes;            /* of the task that must be on the device; below 2^63 */
	uint64_t referenced_bytes; /* that the work which waits is known to touch; below 2^63 */
	uint64_t stay_bytes;       /* of `bytes`, that may stay on the host (GRANT), as may what a revocation takes meanwhile; 0 unless HELLO said CASE_CAN_ADVISE */
};

/* The task gives up its permission to submit work by itself. */
struct case_wire_task_yielded {
	struct case_wire_header header;
	uint64_t task;
};

/* Which way memory has moved. */
enum case_wire_direction {
	CASE_MOVED_IN = 1, /* onto the device */
	CASE_MOVED_OUT = 2
};

/* What came back onto the device after a GRANT of TASK_RESUME; or what changed places for a launch, within what the
 * task has on the device. What leaves for a revocation is in REVOKED. */
struct case_wire_task_moved {
	struct case_wire_header header;
	uint64_t task;
	uint64_t bytes; /* this and the next two: below 2^63 */
	uint64_t copy_ns;
	uint64_t bookkeeping_ns;
	uint32_t direction;
	uint32_t zero;
};

/* Host memory, from the swap area of the run, to which device memory moves. It is the
 * process's until its end, but what was offered and is not used can be recalled. */
struct case_wire_swap_more {
	struct case_wire_header header;
	uint64_t bytes; /* more than it has; below 2^63, not 0 */
};

/* Each of the files has an equal part of it. If it is offered, offset is how much was offered to the process
 * before, less what it gave back; else it is 0. */
struct case_wire_swap_space {
	struct case_wire_header header;
	uint64_t bytes; /* 0: the server has no more to give */
	uint64_t offset;
	uint32_t files;
	uint32_t offered; /* 1: unasked, to be ready for a revocation; else 0 */
};

/* The server wants back what it has offered and the process has not used. */
struct case_wire_swap_recall {
	struct case_wire_header header;
};

/* Of all that was offered, in the order of the offers, the first `bytes` stay the process's. It does not have the
 * rest mapped any more, nor will it. */
struct case_wire_swap_kept {
	struct case_wire_header header;
	uint64_t bytes; /* not more than the server has offered */
};

/* How much more memory of a device could the process's tasks have now? In a run whose clients decide for themselves
 * ROOM and MANAGED break the protocol. */
struct case_wire_room {
	struct case_wire_header header;
	int32_t device; /* ordinal, as in GRANT */
	uint32_t zero;
};

struct case_wire_room_is {
	struct case_wire_header header;
	uint64_t bytes; /* below 2^63 */
};

/* The process is about to have so much managed memory, or has less since. ROOM_IS says how much it may have, with what
 * is beside it: if that is less, nothing has changed. It is told apart for each device; that of a process whose device was
 * settled before it began does not count. */
struct case_wire_managed {
	struct case_wire_header header;
	uint64_t bytes;  /* this and the next two: below 2^63 */
	uint64_t beside; /* other memory of the device, of a process whose device was settled before it began */
	uint64_t free;   /* that the driver has now; 0: unknown */
	int32_t device;  /* ordinal, as in GRANT */
	uint32_t zero;
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
 * nothing of its work and its memory. The server may read it at any time and believes no
 * number of it that it need not. Of a process that cannot evict, only the first two, the submissions and the last count. */
struct case_activity {
	uint64_t busy_since_ns; /* CLOCK_MONOTONIC when the first work began whose end the
	                         * process has not seen; 0: none is running */
	uint64_t peak_bytes; /* the most that its tasks had in use at one time of what they
	                      * were granted, device heap included; 0: unknown */
	uint64_t calls; /* that touch a device or wait for it, and are under way; not those that
	                 * began before the process connected again */
	uint64_t last_call_ns; /* CLOCK_MONOTONIC when the last of them ended, or what they submitted was seen to be over; 0: never */
	uint64_t submissions; /* of kernels, graphs, copies and sets so far */
	uint64_t resident_bytes;   /* of its tasks on devices, fixed_bytes included */
	uint64_t referenced_bytes; /* of its tasks, that its latest kernels were given, on devices or not */
	uint64_t fixed_bytes;      /* of these, cannot be moved */
	uint64_t permit; /* 1: work may be submitted without asking. 0: a task has been revoked or has
	                  * yielded, or none has been granted. GRANT sets it, REVOKE clears it. */
	uint64_t ended; /* of the submissions, known to be over on the devices: all of them, but the latest
	                 * that are not known to be */
	uint64_t idle_since_ns; /* CLOCK_MONOTONIC_COARSE when busy_since_ns became 0 last; 0: it never did, as far as is known */
};

static_assert(sizeof(struct case_activity) == 88, "activity");
static_assert(sizeof(struct case_wire_header) == 8, "header");
static_assert(sizeof(struct case_wire_hello) == 40, "HELLO");
static_assert(sizeof(struct case_wire_welcome) == 32, "WELCOME");
static_assert(sizeof(struct case_wire_task_begin) == 80, "TASK_BEGIN");
static_assert(sizeof(struct case_wire_grant) == 48, "GRANT");
static_assert(sizeof(struct case_wire_refuse) == 160, "REFUSE");
static_assert(sizeof(struct case_wire_task_grow) == 32, "TASK_GROW");
static_assert(sizeof(struct case_wire_task_shrink) == 24, "TASK_SHRINK");
static_assert(sizeof(struct case_wire_task_decided) == 40, "TASK_DECIDED");
static_assert(sizeof(struct case_wire_task_free) == 16, "TASK_FREE");
static_assert(sizeof(struct case_wire_revoke) == 64, "REVOKE");
static_assert(sizeof(struct case_wire_revoked) == 168, "REVOKED");
static_assert(sizeof(struct case_wire_task_resume) == 40, "TASK_RESUME");
static_assert(sizeof(struct case_wire_task_yielded) == 16, "TASK_YIELDED");
static_assert(sizeof(struct case_wire_task_moved) == 48, "TASK_MOVED");
static_assert(sizeof(struct case_wire_swap_more) == 16, "SWAP_MORE");
static_assert(sizeof(struct case_wire_swap_space) == 32, "SWAP_SPACE");
static_assert(sizeof(struct case_wire_swap_recall) == 8, "SWAP_RECALL");
static_assert(sizeof(struct case_wire_swap_kept) == 16, "SWAP_KEPT");
static_assert(sizeof(struct case_wire_room) == 16, "ROOM");
static_assert(sizeof(struct case_wire_room_is) == 16, "ROOM_IS");
static_assert(sizeof(struct case_wire_managed) == 40, "MANAGED");
static_assert(sizeof(struct case_wire_oom) == 136, "OOM");
static_assert(sizeof(struct case_wire_fault) == 144, "FAULT");
static_assert(sizeof(struct case_wire_bye) == 8, "BYE");
static_assert(sizeof(struct case_wire_task_shape) == 32, "TASK_SHAPE");
static_assert(sizeof(struct case_wire_revoked) == CASE_WIRE_MAX_FRAME, "largest");

static_assert(offsetof(struct case_wire_hello, pid) == 8, "pid");
static_assert(offsetof(struct case_wire_hello, instance) == 12, "instance");
static_assert(offsetof(struct case_wire_hello, token) == 16, "token");
static_assert(offsetof(struct case_wire_hello, capabilities) == 32, "capabilities");
static_assert(offsetof(struct case_wire_welcome, chunk_bytes) == 8, "chunk");
static_assert(offsetof(struct case_wire_welcome, window_us) == 16, "window");
static_assert(offsetof(struct case_wire_welcome, files) == 20, "files");
static_assert(offsetof(struct case_wire_welcome, bursts) == 24, "bursts");
static_assert(offsetof(struct case_wire_task_begin, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_begin, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_begin, blocks) == 24, "blocks");
static_assert(offsetof(struct case_wire_task_begin, heap_bytes) == 32, "heap");
static_assert(offsetof(struct case_wire_task_begin, threads_per_block) == 40, "threads");
static_assert(offsetof(struct case_wire_task_begin, flags) == 44, "flags");
static_assert(offsetof(struct case_wire_task_begin, blocks_per_sm) == 48, "blocks per SM");
static_assert(offsetof(struct case_wire_task_begin, device) == 52, "device");
static_assert(offsetof(struct case_wire_task_begin, wait_ms) == 56, "wait");
static_assert(offsetof(struct case_wire_task_begin, host_bytes) == 64, "host");
static_assert(offsetof(struct case_wire_task_begin, stay_bytes) == 72, "stay");
static_assert(offsetof(struct case_wire_task_shape, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_shape, blocks) == 16, "blocks");
static_assert(offsetof(struct case_wire_task_shape, threads_per_block) == 24, "threads");
static_assert(offsetof(struct case_wire_task_shape, blocks_per_sm) == 28, "blocks per SM");
static_assert(offsetof(struct case_wire_grant, task) == 8, "task");
static_assert(offsetof(struct case_wire_grant, uuid) == 16, "uuid");
static_assert(offsetof(struct case_wire_grant, ordinal) == 32, "ordinal");
static_assert(offsetof(struct case_wire_grant, host_bytes) == 40, "host");
static_assert(offsetof(struct case_wire_refuse, task) == 8, "task");
static_assert(offsetof(struct case_wire_refuse, need) == 16, "need");
static_assert(offsetof(struct case_wire_refuse, capacity) == 24, "capacity");
static_assert(offsetof(struct case_wire_refuse, cause) == 32, "cause");
static_assert(offsetof(struct case_wire_refuse, text) == 40, "text");
static_assert(offsetof(struct case_wire_task_grow, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_grow, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_grow, wait_ms) == 24, "wait");
static_assert(offsetof(struct case_wire_task_shrink, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_shrink, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_decided, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_decided, need) == 16, "need");
static_assert(offsetof(struct case_wire_task_decided, capacity) == 24, "capacity");
static_assert(offsetof(struct case_wire_task_decided, cause) == 32, "cause");
static_assert(offsetof(struct case_wire_task_decided, ordinal) == 36, "ordinal");
static_assert(offsetof(struct case_wire_task_free, task) == 8, "task");
static_assert(offsetof(struct case_wire_revoke, task) == 8, "task");
static_assert(offsetof(struct case_wire_revoke, ticket) == 16, "ticket");
static_assert(offsetof(struct case_wire_revoke, bytes) == 24, "bytes");
static_assert(offsetof(struct case_wire_revoke, action) == 32, "action");
static_assert(offsetof(struct case_wire_revoke, deadline_ms) == 36, "deadline");
static_assert(offsetof(struct case_wire_revoke, uuid) == 40, "uuid");
static_assert(offsetof(struct case_wire_revoke, ordinal) == 56, "ordinal");
static_assert(offsetof(struct case_wire_revoke, flags) == 60, "flags");
static_assert(offsetof(struct case_wire_revoked, task) == 8, "task");
static_assert(offsetof(struct case_wire_revoked, ticket) == 16, "ticket");
static_assert(offsetof(struct case_wire_revoked, freed_bytes) == 24, "freed");
static_assert(offsetof(struct case_wire_revoked, resident_bytes) == 32, "resident");
static_assert(offsetof(struct case_wire_revoked, fixed_bytes) == 40, "fixed");
static_assert(offsetof(struct case_wire_revoked, drain_ns) == 48, "drain");
static_assert(offsetof(struct case_wire_revoked, copy_ns) == 56, "copy");
static_assert(offsetof(struct case_wire_revoked, bookkeeping_ns) == 64, "bookkeeping");
static_assert(offsetof(struct case_wire_revoked, lost_ns) == 72, "lost");
static_assert(offsetof(struct case_wire_revoked, outcome) == 80, "outcome");
static_assert(offsetof(struct case_wire_revoked, why) == 88, "why");
static_assert(offsetof(struct case_wire_task_resume, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_resume, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_resume, referenced_bytes) == 24, "referenced");
static_assert(offsetof(struct case_wire_task_resume, stay_bytes) == 32, "stay");
static_assert(offsetof(struct case_wire_task_yielded, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_moved, task) == 8, "task");
static_assert(offsetof(struct case_wire_task_moved, bytes) == 16, "bytes");
static_assert(offsetof(struct case_wire_task_moved, copy_ns) == 24, "copy");
static_assert(offsetof(struct case_wire_task_moved, bookkeeping_ns) == 32, "bookkeeping");
static_assert(offsetof(struct case_wire_task_moved, direction) == 40, "direction");
static_assert(offsetof(struct case_wire_swap_more, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_swap_space, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_swap_space, offset) == 16, "offset");
static_assert(offsetof(struct case_wire_swap_space, files) == 24, "files");
static_assert(offsetof(struct case_wire_swap_kept, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_room, device) == 8, "device");
static_assert(offsetof(struct case_wire_room_is, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_managed, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_managed, beside) == 16, "beside");
static_assert(offsetof(struct case_wire_managed, free) == 24, "free");
static_assert(offsetof(struct case_wire_managed, device) == 32, "device");
static_assert(offsetof(struct case_wire_oom, bytes) == 8, "bytes");
static_assert(offsetof(struct case_wire_oom, where) == 16, "where");
static_assert(offsetof(struct case_wire_fault, monotonic_ns) == 8, "time");
static_assert(offsetof(struct case_wire_fault, code) == 16, "code");
static_assert(offsetof(struct case_wire_fault, where) == 24, "where");

#endif
