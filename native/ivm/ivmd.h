/* ivmd.h: what the files of the head share. It has one thread. */
#ifndef IVMD_H
#define IVMD_H

#include <stdbool.h>
#include <sys/types.h>

#include "link.h"

/* A request while it is answered. */
struct caller {
	int pe, dev;
	bool gpu;    /* the device is one */
	bool brings; /* a copy came with the request */
	struct waiting *waiting;
	struct message answer;
};

/* What a call returns instead of a result, if its reply must come later. It is tried again after each other event. */
enum { LATER = 1 << 30 };

/* home_of returns where a device's copies are. */
struct home home_of(ivm_dev dev);
bool is_gpu(ivm_dev dev);
/* drop_copy has nodes drop the copy of an object, and tell their PEs that copies were dropped. */
void drop_copy(uint64_t object, ivm_dev dev);

/* objects.c: objects and their copies. The calls return a result or LATER. */
int objects_malloc(struct caller *caller, const struct request *request);
int objects_free(struct caller *caller, const struct request *request);
int objects_map(struct caller *caller, const struct request *request);
int objects_filled(struct caller *caller, const struct request *request);
int objects_failed(struct caller *caller, const struct request *request);
int objects_mirror(struct caller *caller, const struct request *request);
/* objects_leave lets other PEs make the mirrors that a PE has not completed. */
void objects_leave(ivm_pe pe);
/* objects_drop_mirrors removes the mirrors of a device. -EBUSY: it has the master copy of an object. */
int objects_drop_mirrors(ivm_dev dev);
/* objects_not_made removes a copy that its node could not make, and with a master copy its object. */
void objects_not_made(uint64_t object, ivm_dev dev);

#endif
