/* link.h: what the head and the nodes of an application say to each other, over a stream. The head is the process that a user starts. It
 * answers all requests of PEs. A node starts the PEs of its host, has their copies, and passes requests on. */
#ifndef IVM_LINK_H
#define IVM_LINK_H

#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

enum message_kind {
	/* to a node */
	MEET,  /* the tail has the name and the network's address of each node: struct meeting, and the address after it */
	START, /* PEs from pe on, as many as count, on a device of a type and number */
	KILL,  /* pe. Result is 1 if nobody is to wait for its transfers, because the application ends */
	ANSWER,
	DROP,  /* the copy of an object on a device, of whichever node */
	COUNT_GPUS,

	/* to the head */
	JOIN, /* a struct joining; the tail has the network's address */
	STARTED, /* as many as count; then result is why not more. The tail has their process ids. */
	ASK,     /* with_copy says whether the PE has sent a copy with its request */
	REFUSED, /* a request of pe cannot be taken. Result is why: -EPROTO if it is none */
	PE_ENDED, /* pe, and status of waitpid in result. Its transfers have ended */
	GPUS,        /* the node has as many as count */
	COPY_FAILED, /* the copy of an object on a device could not be made */
};

enum { NODE_NAME = 255 };

struct joining {
	char token[64], name[NODE_NAME + 1];
	int32_t number;
};

struct meeting {
	char name[NODE_NAME + 1];
	uint32_t size; /* of the address */
};

/* A copy that a node adds to a reply as a descriptor, and makes if it has not got it. */
struct attached {
	uint64_t object, bytes;
	int32_t dev;
	bool brought; /* it is the one that came with the request */
};

struct message {
	uint32_t kind, tail; /* bytes that follow */
	int32_t pe, dev, type, number, count, result, with_copy;
	uint64_t object, ticket; /* the ticket is the node's, for a request and its reply */
	union {
		struct request request;
		struct joining joining;
		struct {
			struct reply reply;
			int32_t attached_count;
			struct attached attached[MOST_FDS];
		};
	};
};

/* One side of a stream. */
struct link {
	int socket;
	char *out; /* what the socket could not take yet */
	size_t size;
};

/* link_over_tcp has a connection end if the other host is gone, and send small messages at once. */
void link_over_tcp(int socket);
/* link_send sends a message and its tail, now or at the next link_flush. It never waits. A failure shows at link_receive. */
void link_send(struct link *link, struct message *message, const void *tail);
/* link_flush sends what is left, and reports whether all is sent. */
bool link_flush(struct link *link);
/* link_receive waits for a message, and stores its tail, which the caller frees, or NULL. It reports whether there is one. */
bool link_receive(const struct link *link, struct message *message, void **tail);

#endif
