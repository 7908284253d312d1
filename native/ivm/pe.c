/* pe.c: the calls about PEs and devices, in a PE. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "pe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum state { OUTSIDE, ENTERED, LEFT };

/* What ivm_enter sets before state, and nobody changes then. */
static struct {
	int socket;
	ivm_pe id;
	int group;
	enum ivm_dev_type type;
	const _Atomic uint64_t *drops;
} self;
static _Atomic enum state state;
static pthread_mutex_t entering = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	int code;
	const char *text;
} texts[] = {
	{ENOTCONN, "the process is not a PE: ivmd did not start it, or it has not called ivm_enter, or it has called ivm_exit"},
	{EALREADY, "the process has called ivm_enter before"},
	{EHOSTUNREACH, "the application has no such node"},
	{ENODEV, "there is no such device, or no driver for it"},
	{EBUSY, "the device has PEs or the master copy of an object"},
	{EPERM, "a PE can end neither the root nor itself"},
	{ESRCH, "there is no such PE, or it has ended"},
	{EEXIST, "there is an object of this name"},
	{ENOENT, "there is no such object"},
	{EFAULT, "no object is mapped at this address"},
	{ERANGE, "not all bytes are in the object, or in what is mapped of it"},
	{ENXIO, "the device has no mirror of these bytes"},
	{EIO, "CUDA has failed, and a line on stderr names the call and the error; or the network has"},
};

const char *ivm_error(int result)
{
	if (result >= 0)
		return "no error";
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].code == -result)
			return texts[i].text;
	return strerror(-result);
}

static void lost(void)
{
	static const char text[] = "ivm: ivmd has gone\n";

	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(1);
	_exit(1);
}

/* ask is pe_call_with through a socket. */
static int ask(int through, int copy, const struct request *request, struct reply *reply, int fds[MOST_FDS])
{
	int pair[2], none[MOST_FDS];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	const int failed = wire_send(through, request, sizeof *request, (int[]){pair[1], copy}, copy < 0 ? 1 : 2);
	close(pair[1]); /* so that the reply ends when ivmd does */
	const int got = failed ? failed : wire_receive(pair[0], reply, sizeof *reply, fds != NULL ? fds : none);
	if (got <= 0 && got != -EMFILE)
		lost();
	close(pair[0]);
	return got > 0 ? reply->result : got;
}

int pe_entered(void)
{
	return atomic_load(&state) == ENTERED ? 0 : -ENOTCONN;
}

int pe_call_with(int copy, const struct request *request, struct reply *reply, int fds[MOST_FDS])
{
	const int failed = pe_entered();

	return failed ? failed : ask(self.socket, copy, request, reply, fds);
}

int pe_call(const struct request *request, struct reply *reply, int fds[MOST_FDS])
{
	return pe_call_with(-1, request, reply, fds);
}

/* call is pe_call for a request whose reply has only a result. */
static int call(const struct request *request)
{
	struct reply reply;

	return pe_call(request, &reply, NULL);
}

/* inherited_socket returns the socket that ivmd has given to this process, or -1. */
static int inherited_socket(void)
{
	const char *text = getenv(IVM_SOCKET);
	char *end;
	int type;
	socklen_t size = sizeof type;

	if (text == NULL || *text == '\0')
		return -1;
	const long fd = strtol(text, &end, 10);
	if (*end != '\0' || fd < 0 || fd > 1 << 20 || getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
		return -1;
	return (int)fd;
}

uint64_t pe_drops(void)
{
	return *self.drops;
}

/* enter asks to be a PE, and maps the page of its node. */
static int enter(int socket, struct reply *reply)
{
	int fds[MOST_FDS];
	const int result = ask(socket, -1, &(struct request){.call = CALL_ENTER}, reply, fds);

	if (result != 0)
		return result;
	void *page = mmap(NULL, sizeof *self.drops, PROT_READ, MAP_SHARED, fds[0], 0);
	close(fds[0]);
	self.drops = page;
	return page != MAP_FAILED ? 0 : -errno;
}

int ivm_enter(void)
{
	struct reply reply;
	int result = -EALREADY;

	pthread_mutex_lock(&entering);
	if (atomic_load(&state) == OUTSIDE) {
		const int socket = inherited_socket();
		result = socket < 0 || fcntl(socket, F_SETFD, FD_CLOEXEC) != 0 ? -ENOTCONN : enter(socket, &reply);
		if (result == 0) {
			self.socket = socket;
			self.id = reply.pe;
			self.group = reply.group;
			self.type = (enum ivm_dev_type)reply.type;
			atomic_store(&state, ENTERED);
		}
	}
	pthread_mutex_unlock(&entering);
	return result;
}

int ivm_exit(void)
{
	if (pe_entered() != 0)
		return -ENOTCONN;
	memory_unmap_all();
	const int result = call(&(struct request){.call = CALL_EXIT, .range = memory_copied()});
	atomic_store(&state, LEFT);
	close(self.socket);
	return result;
}

int ivm_create_dev(const char *host, enum ivm_dev_type type, int number, ivm_dev *dev)
{
	struct request request = {.call = CALL_CREATE_DEV, .type = (int32_t)type, .dev = number};
	struct reply reply;

	if (host != NULL && strlen(host) > IVM_NAME)
		return -EHOSTUNREACH;
	snprintf(request.name, sizeof request.name, "%s", host != NULL ? host : "");
	const int result = pe_call(&request, &reply, NULL);
	if (result == 0)
		*dev = reply.dev;
	return result;
}

int ivm_destroy_dev(ivm_dev dev)
{
	return call(&(struct request){.call = CALL_DESTROY_DEV, .dev = dev});
}

int ivm_create_pes(ivm_dev dev, int count, ivm_pe *pes)
{
	struct reply reply;
	const int started = pe_call(&(struct request){.call = CALL_CREATE_PES, .dev = dev, .count = count}, &reply, NULL);

	for (int i = 0; pes != NULL && i < started; i++)
		pes[i] = reply.pe + i;
	return started;
}

int ivm_kill_pes(ivm_dev dev, int count, const ivm_pe *pes)
{
	int result = pe_entered();

	if (count < 0)
		return -EINVAL;
	for (int i = 0; i < count && result == 0; i++)
		result = call(&(struct request){.call = CALL_KILL_PE, .dev = dev, .pe = pes[i]});
	return result;
}

int ivm_get_my_id(ivm_pe *id)
{
	const int result = pe_entered();

	if (result == 0)
		*id = self.id;
	return result;
}

int ivm_get_my_group_id(int *group)
{
	const int result = pe_entered();

	if (result == 0)
		*group = self.group;
	return result;
}

int ivm_get_my_dev_type(enum ivm_dev_type *type)
{
	const int result = pe_entered();

	if (result == 0)
		*type = self.type;
	return result;
}

int ivm_set_max_pes_id(ivm_pe id)
{
	return call(&(struct request){.call = CALL_SET_MAX, .pe = id});
}

int ivm_wait(ivm_pe pe)
{
	return call(&(struct request){.call = CALL_WAIT, .pe = pe});
}

int ivm_signal(void)
{
	return call(&(struct request){.call = CALL_SIGNAL});
}
