/* nodes.h: the nodes of an application, as its head has them. */
#ifndef IVM_NODES_H
#define IVM_NODES_H

#include "link.h"

struct node {
	struct link link;
	char name[NODE_NAME + 1];
	bool gone;
	int gpus; /* or one of these */
};

enum { NOT_ASKED = -1, ASKED = -2 };

extern struct node *nodes; /* by number */
extern int node_count;

/* nodes_one makes a node in a child of this process. nodes_here makes several, on this host. nodes_of_slurm makes one for each node of
 * the allocation that this process is in. They return 0, or -1 after a message. */
int nodes_one(char **program);
int nodes_here(int count, char **program);
int nodes_of_slurm(char **program);

/* nodes_end has all nodes end, and waits for their processes. */
void nodes_end(void);

#endif
