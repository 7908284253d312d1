/* activity.h: whether kernels of this process may be running, and how much memory it had
 * in use, in a page that the scheduler can read as well, also when the process is gone (wire.h, struct
 * case_activity). Safe to call from several threads; none of the calls waits. */
#ifndef CASE_ACTIVITY_H
#define CASE_ACTIVITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* activity_watched says that the others below will be called for all that this process
 * does. Without it there is nothing to share. */
void activity_watched(void);

/* activity_began says that work was submitted to a device. */
void activity_began(void);

/* activity_mark is taken before a wait for all that this process has submitted, and
 * handed to activity_over when the wait has succeeded. What other threads have
 * submitted meanwhile goes on. */
uint64_t activity_mark(void);
void activity_over(uint64_t mark);

/* activity_uses says how many bytes the tasks of this process have in use. The most counts. */
void activity_uses(uint64_t bytes);

/* activity_share moves what is kept to a new page and returns its descriptor, which
 * the caller passes on and closes; -1 where the system gives none. A process that
 * connects again shares a new one: the program may have closed the first. */
int activity_share(void);

#ifdef __cplusplus
}
#endif
#endif
