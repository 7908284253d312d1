/* wire.c: see wire.h. */
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
};

int wire_send(int socket, const void *message, size_t size, const int *fds, int count)
{
	union control control = {.bytes = {0}};
	struct iovec part = {(void *)message, size};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (count > 0) {
		control.header = (struct cmsghdr){CMSG_LEN((size_t)count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
	}
	do
		n = sendmsg(socket, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int wire_receive(int socket, void *message, size_t size, int fds[MOST_FDS])
{
	union control control;
	struct iovec part = {message, size};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t n;

	for (int i = 0; i < MOST_FDS; i++)
		fds[i] = -1;
	do
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c != NULL; c = CMSG_NXTHDR(&header, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	if (n == 0)
		return 0;
	const bool whole = n == (ssize_t)size && !(header.msg_flags & MSG_TRUNC), all = !(header.msg_flags & MSG_CTRUNC);
	if (whole && all)
		return 1;
	for (int i = 0; i < MOST_FDS; i++)
		if (fds[i] >= 0) {
			close(fds[i]);
			fds[i] = -1;
		}
	return whole ? -EMFILE : -EPROTO;
}
