/* descriptor.h: the descriptors that the library keeps. */
#ifndef CASE_DESCRIPTOR_H
#define CASE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* above_standard moves a descriptor away from 0, 1 and 2, which a daemon has closed, and perhaps still
 * reads and writes. It is close-on-exec there. -1, and errno: it cannot, and has closed it. */
static inline int above_standard(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), failed = errno;
	close(fd);
	errno = failed;
	return moved;
}

#endif
