/* wire.h: what PEs and ivmd say to each other. ivmd gives each PE one end of a socket pair, whose number is in IVM_SOCKET. It has no
 * name, so nothing of it is left. Each request carries the socket of its reply, and perhaps a copy on a GPU. So threads of a PE need
 * no lock, and ivmd may answer a request after later ones. */
#ifndef IVM_WIRE_H
#define IVM_WIRE_H

#include <stdint.h>

#include "ivm.h"

#define IVM_SOCKET "IVM_SOCKET"

enum { MOST_FDS = 2 };

enum ivm_call {
	CALL_ENTER, /* the reply has a page of the node, which begins with a uint64_t: how many copies of all nodes were dropped */
	CALL_EXIT, /* range.begin is how many bytes the PE has had copied between devices, and range.end how many of them between nodes */
	CALL_CREATE_DEV,  /* name is the host, dev the number */
	CALL_DESTROY_DEV,
	CALL_CREATE_PES,
	CALL_KILL_PE,
	CALL_SET_MAX,
	CALL_WAIT,
	CALL_SIGNAL,
	CALL_MALLOC, /* the reply has the copy. On a GPU the request has it. */
	CALL_FREE,
	CALL_MAP,    /* the reply has the copy, that of the master if it is another, and a hole; or make. Then the PE asks again, with the copy. */
	CALL_FILLED, /* the hole of the last reply has been filled. The reply has the next. */
	CALL_FAILED, /* the PE cannot make what the last reply has asked for: the copy, or what is in its hole */
	CALL_MIRROR, /* the reply has the mirror of a device, unless the device has the master copy. All in hole is in the mirror, until a copy is dropped. */
	CALL_TRANSFER, /* the node has bytes copied from a home to another. This one is not for the head. */
};

/* Bytes from begin to before end. */
struct range {
	uint64_t begin, end;
};

/* A home is where a copy of an object is. */
struct home {
	int32_t node, dev;
};

/* A request has the fields that its call has arguments for. */
struct request {
	uint32_t call;
	int32_t type, dev, pe, count;
	uint64_t object;
	struct range range; /* begin may be equal to end for all of the object */
	struct home from, to;
	char name[IVM_NAME + 1];
};

struct reply {
	int32_t result, type, dev, pe, group;
	uint64_t object, bytes;
	struct home copy, master; /* the PE gets a descriptor of a copy that is on its node */
	struct range hole; /* what the PE must copy from the master copy to the mirror, if it is not empty */
	uint8_t make;      /* the device has no copy, and the PE must make it: only it has the device's memory */
	uint8_t on_gpu[MOST_FDS]; /* whether a descriptor is memory of a GPU */
};

/* wire_send sends a message with descriptors. It returns 0 or a negative errno value. */
int wire_send(int socket, const void *message, size_t size, const int *fds, int count);

/* wire_receive reads a message of this size, and stores descriptors, which the receiver closes, or -1. It returns 1, 0 if the other
 * side has gone, or a negative errno value. -EPROTO is a message of another size. -EMFILE: it has read the message, but the process can
 * have no more descriptors. */
int wire_receive(int socket, void *message, size_t size, int fds[MOST_FDS]);

#endif
