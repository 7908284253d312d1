/* file.h: writes trace.h's file. Functions are safe to call from any thread.
 * Records gather in a buffer until trace_flush, which hands them to the kernel:
 * from then on they survive whatever happens to the process. */
#ifndef CASE_TRACE_FILE_H
#define CASE_TRACE_FILE_H

#include "trace.h"

/* trace_open makes DIR/PID.trace, or DIR/PID-N.trace where a program that this
 * process ran before has left one. Returns 0, or -1 with errno. */
int trace_open(const char *dir, uint32_t pid, uint32_t cupti, uint64_t started_ns);

/* trace_kernel and trace_copy set type and size themselves; trace_kernel
 * replaces name by the number of text. */
void trace_kernel(struct case_trace_kernel *kernel, const char *text);
void trace_copy(struct case_trace_copy *copy);
void trace_device(uint32_t ordinal, const uint8_t uuid[16]);
void trace_lost(uint64_t records);
void trace_note(uint32_t code, const char *text);
void trace_end(uint64_t at_ns);
void trace_flush(void);

#endif
