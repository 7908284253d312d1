/* activity.h: whether kernels of this process may be running, how much memory it had in use and, of a
 * process that can give memory back, what the scheduler must know to choose. All is in a page that the scheduler can read too, even after the process is gone (wire.h, struct
 * case_activity). Safe to call from several threads; none of the calls waits. */
#ifndef CASE_ACTIVITY_H
#define CASE_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* activity_watched says that the functions below will be called for everything that this process
 * does. Without this call there is nothing to share. */
void activity_watched(void);

/* activity_began says that work was submitted to a device: a kernel, a graph, a batch of copies. Single copies and sets do not
 * count. */
void activity_began(void);

/* activity_mark is how often that was said. It is taken before a wait for all that this process has submitted, and
 * handed to activity_over when the wait has succeeded. What other threads have
 * submitted meanwhile goes on. */
uint64_t activity_mark(void);
void activity_over(uint64_t mark);

/* activity_ended says that what was submitted before the mark was taken is over on the devices, as activity_over does, though
 * no wait of the program has seen its end. If that is news, its end is now. activity_working: something that was submitted is not known to be over. */
void activity_ended(uint64_t mark);
bool activity_working(void);

/* activity_uses says how many bytes the tasks of this process have in use. The most counts. */
void activity_uses(uint64_t bytes);

/* activity_enter and activity_leave enclose a call that touches a device or waits for it. activity_leave gets what
 * activity_enter has returned. rough: the time of the end is that of the system's last tick, so up to 10 ms
 * early, which is faster. activity_calls: there are such calls.
 * activity_last_call: what the page says of the last. */
void *activity_enter(void);
void activity_leave(void *entered, bool rough);
bool activity_calls(void);
uint64_t activity_last_call(void); /* CLOCK_MONOTONIC in nanoseconds */

/* activity_holds says how many bytes the tasks of this process have on devices and how many of these
 * its latest kernels were given, or cannot be moved. Calls are made one at a time. */
void activity_holds(uint64_t resident, uint64_t referenced, uint64_t fixed);

/* activity_permitted: work may be submitted without asking (client_await_resume). case.c says so with
 * activity_permit. */
bool activity_permitted(void);
void activity_permit(bool permitted);

/* activity_share moves the contents to a new page and returns its descriptor, which the caller passes
 * on and closes; -1: the system gives no page. A process that connects again shares a new page,
 * because the program may have closed the first descriptor. */
int activity_share(void);

#ifdef __cplusplus
}
#endif
#endif
