/* net.h: the network of an application's nodes, which copies between copies of objects on different nodes. It is a shared object, so
 * that ivmd needs it for several nodes only. */
#ifndef IVM_NET_H
#define IVM_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "wire.h"

#define NET_FILE "libivm-ucx.so" /* beside ivmd */
#define NET_SYMBOL "ivm_net"

/* What a node gives its network. */
struct net_node {
	int number;
	/* hold returns the address of bytes of a copy of this node, to read or to write them, until release. It returns NULL and sets errno if it
	 * cannot: to ENOENT if the copy is not there or has not these bytes. Release says whether they have been written. It returns 0 or
	 * a negative errno value. */
	char *(*hold)(uint64_t object, int32_t dev, struct range range, bool to_write, void **held);
	int (*release)(void *held, bool written);
	/* done says the result of a transfer: 0 or a negative errno value. */
	void (*done)(uint64_t ticket, int result);
};

struct net {
	/* open starts the network, and stores its address, which lasts, and a descriptor that can be read when there is work. It returns NULL or
	 * what went wrong, which lasts. */
	const char *(*open)(const struct net_node *node, const void **address, size_t *size, int *fd);
	/* meet adds a node, which is the next number, by its address. It returns NULL or what went wrong. */
	const char *(*meet)(const void *address, size_t size);
	/* transfer copies bytes of an object from one home to another. At least one is on another node. Done may come before it returns. */
	void (*transfer)(uint64_t ticket, uint64_t object, struct range range, struct home from, struct home to);
	/* work does some work. It reports whether there is more. Only after false the descriptor tells of new work. */
	bool (*work)(void);
};

#endif
