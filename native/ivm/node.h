/* node.h: a node of an application. It starts the PEs of its host, has their copies, and is between them and the head. It ends its PEs
 * when the head has gone. */
#ifndef IVM_NODE_H
#define IVM_NODE_H

#include <sys/types.h>

/* node_run serves until the head has gone, and returns the exit status of the process. The head is at the other end of a socket, to
 * which a node of several has said JOIN. */
int node_run(int head, char **program);

/* node_join connects to the head that the environment names, and is node_run then. */
int node_join(char **program);

/* What a node needs to join, in its environment. */
#define IVM_HEAD "IVM_HEAD"   /* host:port */
#define IVM_TOKEN "IVM_TOKEN" /* which the head knows */
#define IVM_NODE "IVM_NODE"   /* its number, unless Slurm has given one */

/* What PEs find in theirs: the names of all nodes, with commas between them. */
#define IVM_HOSTS "IVM_HOSTS"

/* gpus.c: the GPUs of the node. */

int gpus_count(void);
/* gpus_seen_from returns CUDA_VISIBLE_DEVICES for a PE on the GPU of a number: first its own, then the others, each once, because CUDA shows
 * no GPU at all where one is listed twice. NULL: there is no such GPU, or the PE is on none and the variable is not set. */
enum { NO_GPU = -1 };
const char *gpus_seen_from(int number);

/* process.c: processes of PEs. */

/* process_raise_limits has this process have as many descriptors as it may, and get an error for a memfd that is larger than files may be.
 * PEs get the limits that were. */
void process_raise_limits(void);

/* process_start starts argv as the leader of its own process group, which ends with the caller, and gives it one end of the socket whose
 * other end it stores. Unless gpus is NULL, it is CUDA_VISIBLE_DEVICES. It returns the process's id or a negative errno value. */
pid_t process_start(char **argv, const char *gpus, int *socket);
/* process_next_end removes a process that has ended, and all of its group. It returns its id, or 0 if none has ended. */
pid_t process_next_end(int *status);

/* say prints a line on stderr (ivmd.c). */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

#endif
