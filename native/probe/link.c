/* link.c: see link.h. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

void link_say(const char *format, ...)
{
	char line[512] = "caserun: ";
	size_t used = strlen(line);
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	used += (size_t)n < sizeof line - used - 1 ? (size_t)n : sizeof line - used - 2;
	line[used++] = '\n';
	while (write(STDERR_FILENO, line, used) < 0 && errno == EINTR)
		;
}

struct case_wire_header link_header(enum case_wire_type type, size_t size)
{
	return (struct case_wire_header){(uint16_t)type, CASE_WIRE_VERSION, (uint32_t)size};
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool parse_token(const char *hex, uint8_t token[CASE_WIRE_TOKEN])
{
	if (hex == NULL || strlen(hex) != 2 * CASE_WIRE_TOKEN)
		return false;
	for (int i = 0; i < CASE_WIRE_TOKEN; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		token[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool link_intact(const struct link *link)
{
	struct stat now;

	return link->fd >= 0 && fstat(link->fd, &now) == 0 && now.st_dev == link->device &&
	       now.st_ino == link->inode;
}

/* say_hello sends the first frame, and a descriptor with it. */
static int say_hello(int fd, struct case_wire_hello *hello, int page)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec frame = {hello, sizeof *hello};
	struct msghdr message = {.msg_iov = &frame, .msg_iovlen = 1};
	ssize_t n;

	if (page >= 0) {
		control.header = (struct cmsghdr){CMSG_LEN(sizeof page), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &page, sizeof page);
		message.msg_control = &control;
		message.msg_controllen = sizeof control.bytes;
	}
	do
		n = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

/* dial_socket connects. A job may have removed or locked the socket, which the server then makes again: so that is no
 * failure at first. It returns 0 or an errno value. */
static int dial_socket(int fd, const struct sockaddr_un *address)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int failed;

	for (int tries = 5;;) {
		failed = connect(fd, (const struct sockaddr *)address, sizeof *address) ? errno : 0;
		if (failed == EINTR) /* an interrupted connect of a Unix socket leaves it unconnected */
			continue;
		if ((failed != ENOENT && failed != ENOTDIR && failed != EACCES && failed != ECONNREFUSED) || --tries == 0)
			return failed;
		nanosleep(&pause, NULL);
	}
}

struct link link_open(const char *path, const char *hex_token, uint32_t instance, uint32_t can, int page, char *why, size_t why_size)
{
	const struct link none = {.fd = -1};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct case_wire_hello hello = {
		.header = link_header(CASE_WIRE_HELLO, sizeof hello),
		.pid = (uint32_t)getpid(),
		.instance = instance,
		.capabilities = can,
	};
	struct stat self;

	if (!parse_token(hex_token, hello.token)) {
		snprintf(why, why_size, "CASE_TOKEN is not %d hex digits", 2 * CASE_WIRE_TOKEN);
		return none;
	}
	if (strlen(path) >= sizeof address.sun_path) {
		snprintf(why, why_size, "CASE_SOCKET has %zu bytes; a socket path holds %zu",
		         strlen(path), sizeof address.sun_path - 1);
		return none;
	}
	strcpy(address.sun_path, path);

	int fd = above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0) {
		snprintf(why, why_size, "open a socket: %s", strerror(errno));
		return none;
	}
	int failed = fstat(fd, &self) != 0 ? errno : 0;
	if (!failed)
		failed = dial_socket(fd, &address);
	if (!failed)
		failed = say_hello(fd, &hello, page);
	if (failed) {
		snprintf(why, why_size, "connect to %s: %s", path, strerror(failed));
		close(fd);
		return none;
	}
	return (struct link){fd, self.st_dev, self.st_ino};
}

void link_report(const char *name, const char *hex_token, const char *kind, const char *what)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX}; /* a name that begins with NUL is abstract (unix(7)) */
	const size_t length = strnlen(name, sizeof address.sun_path - 1);
	const struct timeval most = {.tv_sec = 1};
	char text[768];

	const int n = snprintf(text, sizeof text, "%s %d %s %s", hex_token != NULL && *hex_token != '\0' ? hex_token : "-", (int)getsid(0), kind, what);
	const int fd = above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return;
	memcpy(address.sun_path + 1, name, length);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
	while (sendto(fd, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, MSG_NOSIGNAL, (struct sockaddr *)&address,
	              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) < 0 && errno == EINTR)
		;
	close(fd);
}

int link_send(int fd, const void *frame, size_t size, int flags)
{
	ssize_t n;

	do
		n = send(fd, frame, size, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

/* brings says how many descriptors the frame says it brings. */
static uint32_t brings(const union link_frame *frame)
{
	return frame->header.type == CASE_WIRE_WELCOME      ? frame->welcome.files
	       : frame->header.type == CASE_WIRE_SWAP_SPACE ? frame->space.files
	                                                    : 0;
}

static bool valid(const union link_frame *frame, size_t size)
{
	if (size < sizeof frame->header || frame->header.size != size)
		return false;
	if (frame->header.type == CASE_WIRE_REFUSE)
		return size == sizeof frame->refuse &&
		       frame->refuse.text[CASE_WIRE_TEXT - 1] == '\0';
	if (frame->header.version != CASE_WIRE_VERSION)
		return false;
	switch (frame->header.type) {
	case CASE_WIRE_GRANT:
		return size == sizeof frame->grant && frame->grant.ordinal >= 0;
	case CASE_WIRE_WELCOME:
		return size == sizeof frame->welcome && frame->welcome.chunk_bytes <= CASE_WIRE_MAX_BYTES && frame->welcome.bursts <= 1;
	case CASE_WIRE_REVOKE:
		return size == sizeof frame->revoke && frame->revoke.ticket != 0 &&
		       frame->revoke.bytes <= CASE_WIRE_MAX_BYTES && frame->revoke.action != 0 && frame->revoke.ordinal >= 0;
	case CASE_WIRE_SWAP_SPACE:
		return size == sizeof frame->space && frame->space.bytes <= CASE_WIRE_MAX_BYTES &&
		       frame->space.offset <= CASE_WIRE_MAX_BYTES - frame->space.bytes &&
		       (frame->space.offered == 0 ? frame->space.files == 0 || frame->space.offset == 0
		                                  : frame->space.offered == 1 && frame->space.files > 0);
	case CASE_WIRE_SWAP_RECALL:
		return size == sizeof frame->recall;
	case CASE_WIRE_ROOM_IS:
		return size == sizeof frame->room && frame->room.bytes <= CASE_WIRE_MAX_BYTES;
	}
	return false;
}

/* take_files takes the descriptors out of the control message. A descriptor that cannot be kept
 * counts as cut off. */
static void take_files(struct msghdr *message, struct link_files *files)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			const size_t came = (c->cmsg_len - CMSG_LEN(0)) / sizeof *files->fd;
			for (size_t i = 0; i < came; i++) {
				int fd;
				memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
				fd = above_standard(fd);
				if (fd >= 0)
					files->fd[files->count++] = fd;
				else
					message->msg_flags |= MSG_CTRUNC;
			}
		}
}

void link_close(struct link_files *files)
{
	while (files->count > 0)
		close(files->fd[--files->count]);
}

enum link_event link_receive(int fd, union link_frame *frame, struct link_files *files)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof files->fd)];
	} control;
	struct iovec buffer = {frame, sizeof *frame};
	struct msghdr message;
	ssize_t n;

	/* A server that closes with unread frames of the client leaves ECONNRESET, once,
	 * in front of what it sent before, such as the refusal that says why
	 * (Linux net/unix/af_unix.c, unix_release_sock). */
	do {
		message = (struct msghdr){.msg_iov = &buffer, .msg_iovlen = 1,
		                          .msg_control = &control, .msg_controllen = sizeof control};
		n = recvmsg(fd, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	files->count = 0;
	if (n <= 0)
		return LINK_CLOSED;
	take_files(&message, files);
	if (valid(frame, (size_t)n)) {
		const uint32_t said = brings(frame);
		const bool all = (uint32_t)files->count == said;
		if (all || ((uint32_t)files->count < said && said <= CASE_WIRE_FILES && (message.msg_flags & MSG_CTRUNC) != 0))
			return LINK_FRAME;
	}
	link_close(files);
	return LINK_BROKEN;
}

void link_text(char *to, size_t size, const char *from)
{
	if (from != NULL)
		memcpy(to, from, strnlen(from, size - 1));
}
