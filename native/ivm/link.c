/* link.c: see link.h. */
#define _GNU_SOURCE /* TCP_USER_TIMEOUT */
#include "link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_TAIL = 1 << 24 };

static void queue(struct link *link, const void *bytes, size_t size)
{
	char *more = realloc(link->out, link->size + size);

	if (more == NULL)
		abort(); /* which ends the application */
	memcpy(more + link->size, bytes, size);
	link->out = more;
	link->size += size;
}

void link_over_tcp(int socket)
{
	static const struct {
		int level, name, value;
	} options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 10}, {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
		       {IPPROTO_TCP, TCP_USER_TIMEOUT, 30000}, /* ms: while bytes are on their way, nothing is probed */
		       {IPPROTO_TCP, TCP_NODELAY, 1}};

	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		setsockopt(socket, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

bool link_flush(struct link *link)
{
	size_t sent = 0;

	while (sent < link->size) {
		const ssize_t n = send(link->socket, link->out + sent, link->size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
			sent = link->size; /* nobody reads it any more */
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	memmove(link->out, link->out + sent, link->size - sent);
	link->size -= sent;
	return link->size == 0;
}

void link_send(struct link *link, struct message *message, const void *tail)
{
	queue(link, message, sizeof *message);
	if (message->tail > 0)
		queue(link, tail, message->tail);
	link_flush(link);
}

static bool receive_all(int socket, void *bytes, size_t size)
{
	for (size_t got = 0; got < size;) {
		const ssize_t n = recv(socket, (char *)bytes + got, size - got, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

bool link_receive(const struct link *link, struct message *message, void **tail)
{
	*tail = NULL;
	if (!receive_all(link->socket, message, sizeof *message) || message->tail > MOST_TAIL)
		return false;
	if (message->tail == 0)
		return true;
	*tail = malloc(message->tail);
	if (*tail != NULL && receive_all(link->socket, *tail, message->tail))
		return true;
	free(*tail);
	*tail = NULL;
	return false;
}
