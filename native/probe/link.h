/* link.h: one connection to the scheduler, as bytes. No state and no locks;
 * case.c has both. Nothing here raises SIGPIPE or stops at EINTR. */
#ifndef CASE_LINK_H
#define CASE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Any frame that a server may send. */
union link_frame {
	struct case_wire_header header;
	struct case_wire_grant grant;
	struct case_wire_refuse refuse;
	struct case_wire_welcome welcome;
	struct case_wire_revoke revoke;
	struct case_wire_swap_space space;
	struct case_wire_swap_recall recall;
	struct case_wire_room_is room;
	unsigned char bytes[CASE_WIRE_MAX_FRAME];
};

enum link_event {
	LINK_FRAME,  /* one valid frame */
	LINK_CLOSED, /* the server ended the connection, or recv failed */
	LINK_BROKEN  /* the server sent what wire.h does not allow */
};

/* link_say writes one line, "caserun: ...", to stderr in a single write, so
 * that lines of jobs that share a terminal stay whole. */
void link_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A connection's descriptor, and the socket that it named when it was opened. The
 * program may close it, and open something else with its number. */
struct link {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
};

/* Descriptors that came with a frame, close-on-exec. */
struct link_files {
	int count;
	int fd[CASE_WIRE_FILES];
};

/* link_open connects to the socket at `path`, and says HELLO with the token in `hex_token`, this
 * instance and CASE_CAN_*. It passes the descriptor `page` on (wire.h, struct case_activity; -1: none), which the
 * caller keeps. It returns the connection, close-on-exec, or a connection without a descriptor and
 * the reason in `why`. It blocks while the server's backlog is full. */
struct link link_open(const char *path, const char *hex_token, uint32_t instance, uint32_t can, int page, char *why, size_t why_size);

/* link_intact reports whether the descriptor still names the connection's socket. */
bool link_intact(const struct link *link);

/* link_header fills in the header of a frame of `size` bytes. */
struct case_wire_header link_header(enum case_wire_type type, size_t size);

/* link_report tells the report socket with this abstract name something that needs no connection: "unreached" and
 * why this process cannot reach the scheduler, or "hint" and what may explain how the program ends. It waits a second at
 * most. The text is the token, which may be NULL, the process's session, the kind and what there is to say. */
void link_report(const char *name, const char *hex_token, const char *kind, const char *what);

/* link_send sends one frame and returns 0 or an errno value. flags: MSG_*. It
 * blocks, unless told otherwise, while the server's receive queue is full. */
int link_send(int fd, const void *frame, size_t size, int flags);

/* link_receive blocks until the next frame or the connection's end. The files are the caller's to
 * close, and there are any only with LINK_FRAME. */
enum link_event link_receive(int fd, union link_frame *frame, struct link_files *files);

/* link_close closes the files, and then there are none. */
void link_close(struct link_files *files);

/* link_text copies `from`, which may be NULL, into a field of `size` bytes that
 * is already zero, cut so that the last byte stays NUL. */
void link_text(char *to, size_t size, const char *from);

#ifdef __cplusplus
}
#endif
#endif
