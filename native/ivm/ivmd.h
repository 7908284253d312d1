/* ivmd.h: what the files of ivmd share. ivmd has one thread. */
#ifndef IVMD_H
#define IVMD_H

#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

/* A request while it is answered. */
struct caller {
	int pe, dev;
	bool gpu; /* the device is one */
	int copy; /* that came with the request, or -1. Who keeps it sets -1. */
	struct reply reply;
	int fds[MOST_FDS], fd_count; /* to send with the reply: they stay ivmd's */
};

/* What a call returns instead of a result, if its reply must come later. It is tried again after each other event. */
enum { LATER = 1 << 30 };

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

/* gpus.c: the GPUs of the node. */

/* gpus_seen_from returns CUDA_VISIBLE_DEVICES for a PE on the GPU of a number: first its own, then the others, each once, because CUDA shows
 * no GPU at all where one is listed twice. NULL: there is no such GPU, or the PE is on none and the variable is not set. */
enum { NO_GPU = -1 };
const char *gpus_seen_from(int number);

/* process.c: processes of PEs. */

/* process_start starts argv as the leader of its own process group, which ends with ivmd, and gives it one end of the socket whose
 * other end it stores. Unless gpus is NULL, it is CUDA_VISIBLE_DEVICES. It returns the process's id or a negative errno value. */
pid_t process_start(char **argv, const char *gpus, int *socket);
/* process_next_end removes a process that has ended, and all of its group. It returns its id, or 0 if none has ended. */
pid_t process_next_end(int *status);

#endif
