/* pe.h: what the files of the library share. */
#ifndef IVM_PE_H
#define IVM_PE_H

#include "wire.h"

/* pe_call sends a request and waits for its reply, which it stores. It returns the reply's result. The descriptors of the reply are
 * the caller's; fds may be NULL where there are none. -EMFILE with a reply: the process can have no more descriptors. pe_call_with sends a copy with the request, unless it is -1. */
int pe_call(const struct request *request, struct reply *reply, int fds[MOST_FDS]);
int pe_call_with(int copy, const struct request *request, struct reply *reply, int fds[MOST_FDS]);

/* pe_entered returns 0, or -ENOTCONN if the process is not a PE now. */
int pe_entered(void);

/* pe_drops returns how many copies of objects the application has dropped. Until it changes, a device keeps what it had. */
uint64_t pe_drops(void);

/* memory_copied returns how many bytes the PE has had copied between devices, and how many of them between nodes. */
struct range memory_copied(void);

/* memory_unmap_all unmaps what the PE has mapped. */
void memory_unmap_all(void);

#endif
