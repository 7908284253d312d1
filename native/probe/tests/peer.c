/* peer.c: a process whose connections a test drives: the kernel records this process at
 * connect, and the test sends, receives and closes.
 *
 * Its standard input is a Unix socket. It says "r" when it begins, and then does what each
 * byte says:
 *
 *   c   connects to the socket named by its argument and passes the connection on
 *   x   runs this program again in its place
 *
 * At end of input it exits.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int open_connection(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static void pass_on(int fd)
{
	char control[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec byte = {"c", 1};
	struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(rights), &fd, sizeof fd);
	if (sendmsg(0, &message, 0) != 1)
		_exit(2);
	close(fd);
}

int main(int argc, char **argv)
{
	char what;

	if (argc != 2 || write(0, "r", 1) != 1)
		return 2;
	while (read(0, &what, 1) == 1)
		if (what == 'x')
			execv("/proc/self/exe", argv);
		else
			pass_on(open_connection(argv[1]));
	return 0;
}
