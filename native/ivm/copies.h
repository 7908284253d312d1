/* copies.h: the copies of objects on a node: memfds, and memory of GPUs that PEs have made. Nothing of them lasts longer than the processes
 * that have it. */
#ifndef IVM_COPIES_H
#define IVM_COPIES_H

#include <stdbool.h>

#include "wire.h"

/* copies_get returns the descriptor of a copy, which it makes if there is none, or a negative errno value. */
int copies_get(uint64_t object, int32_t dev, uint64_t bytes);
/* copies_keep takes a copy on a GPU that a PE has made. It returns 0 or a negative errno value. */
int copies_keep(uint64_t object, int32_t dev, uint64_t bytes, int fd);
void copies_drop(uint64_t object, int32_t dev);

/* copies_hold and copies_release are those of net.h. */
char *copies_hold(uint64_t object, int32_t dev, struct range range, bool to_write, void **held);
int copies_release(void *held, bool written);

#endif
