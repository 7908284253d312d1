/* trace.h: the file that libcasetrace writes for each process and
 * collectors/kernels reads. docs/design/tracing.md describes it.
 *
 * A header, then records, all little-endian and multiples of 8 bytes. Each
 * record begins with its type and its size in bytes, which includes both. If the end of the file
 * cuts a record off, the process was killed while it wrote the record. Times are nanoseconds of the host's CLOCK_MONOTONIC. */
#ifndef CASE_TRACE_H
#define CASE_TRACE_H

#include <stdint.h>

#define CASE_TRACE_MAGIC "CASETRC\n"
#define CASE_TRACE_VERSION 1
#define CASE_TRACE_MAX_TEXT 8192 /* bytes of a name or a note; a longer text is cut */

struct case_trace_header {
	char magic[8];
	uint32_t version;
	uint32_t size; /* of this header */
	uint32_t pid;
	uint32_t cupti; /* CUPTI_API_VERSION that the tracer was built with */
	uint64_t started_ns;
};

enum case_trace_type {
	CASE_TRACE_NAME = 1,
	CASE_TRACE_DEVICE = 2,
	CASE_TRACE_KERNEL = 3,
	CASE_TRACE_COPY = 4,
	CASE_TRACE_LOST = 5,
	CASE_TRACE_NOTE = 6,
	CASE_TRACE_END = 7,
};

/* NAME gives a kernel's name, mangled as in the binary, a number; it precedes
 * the first record with that number. The text is padded with zeros. */
struct case_trace_name {
	uint16_t type, size;
	uint32_t id; /* from 0, in order */
	char text[];
};

/* DEVICE tells which GPU the process knows by an ordinal, which
 * CUDA_VISIBLE_DEVICES renumbers. It precedes the first record of the device. */
struct case_trace_device {
	uint16_t type, size;
	uint32_t ordinal;
	uint8_t uuid[16]; /* zeros: unknown */
};

struct case_trace_kernel {
	uint16_t type, size;
	uint32_t name;
	uint64_t start_ns, end_ns;
	uint32_t grid[3];
	uint16_t block[3];
	uint16_t registers; /* of each thread */
	uint32_t static_shared, dynamic_shared; /* bytes of each block */
	uint32_t stream; /* CUPTI's number, unique in the process */
	uint32_t correlation; /* counts the process's CUDA calls: the order of launches */
	uint32_t device;
};

/* Kinds of copies: those of CUpti_ActivityMemcpyKind, and two more of this file. */
enum case_trace_copy_kind {
	CASE_TRACE_COPY_HTOD = 1,
	CASE_TRACE_COPY_DTOH = 2,
	CASE_TRACE_COPY_HTOA = 3,
	CASE_TRACE_COPY_ATOH = 4,
	CASE_TRACE_COPY_ATOA = 5,
	CASE_TRACE_COPY_ATOD = 6,
	CASE_TRACE_COPY_DTOA = 7,
	CASE_TRACE_COPY_DTOD = 8,
	CASE_TRACE_COPY_HTOH = 9,
	CASE_TRACE_COPY_PTOP = 10,
	CASE_TRACE_COPY_SET = 64,
};

struct case_trace_copy {
	uint16_t type, size;
	uint32_t kind;
	uint64_t start_ns, end_ns, bytes;
	uint32_t stream, correlation, device, reserved;
};

/* LOST counts records that will not come: dropped by CUPTI, without times, or
 * not written. The counts of a file add up. */
struct case_trace_lost {
	uint16_t type, size;
	uint32_t reserved;
	uint64_t records;
};

/* NOTE is something that went wrong in the tracer: a CUPTI result and where. */
struct case_trace_note {
	uint16_t type, size;
	uint32_t code;
	char text[];
};

/* END says that the process exited in order and that everything was flushed. */
struct case_trace_end {
	uint16_t type, size;
	uint32_t reserved;
	uint64_t at_ns;
};

_Static_assert(sizeof(struct case_trace_header) == 32, "size of the header");
_Static_assert(sizeof(struct case_trace_name) == 8, "size of NAME");
_Static_assert(sizeof(struct case_trace_device) == 24, "size of DEVICE");
_Static_assert(sizeof(struct case_trace_kernel) == 64, "size of KERNEL");
_Static_assert(sizeof(struct case_trace_copy) == 48, "size of COPY");
_Static_assert(sizeof(struct case_trace_lost) == 16, "size of LOST");
_Static_assert(sizeof(struct case_trace_note) == 8, "size of NOTE");
_Static_assert(sizeof(struct case_trace_end) == 16, "size of END");

#endif
