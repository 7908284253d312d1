/* process.h: which process a client is, and whether it lives. */
#ifndef CASE_SHARED_PROCESS_H
#define CASE_SHARED_PROCESS_H

#include <stdbool.h>

#include "state.h"

/* this_process is the calling one, with this instance of the library in it. */
struct case_shared_process this_process(uint32_t instance);

/* gone says that the client's process has given its device memory back: it has ended, or
 * runs another program. What cannot be told counts as alive. */
bool gone(const struct case_shared_process *process);

#endif
