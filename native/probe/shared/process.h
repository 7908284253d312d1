/* process.h: which process a client is, and whether it lives. */
#ifndef CASE_SHARED_PROCESS_H
#define CASE_SHARED_PROCESS_H

#include <stdbool.h>

#include "state.h"

/* shared_self is the calling process, with this instance of the library in it. */
struct case_shared_process shared_self(uint32_t instance);

/* shared_gone says that the client's process no longer has its device memory: the process has ended,
 * or runs another program. If that is unknown, the process counts as alive. */
bool shared_gone(const struct case_shared_process *process);

#endif
