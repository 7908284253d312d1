/* putget.c: how fast put and get are beside a plain copy, in one run, and their group forms for one part. PE 1 is on another device than the
 * root, which has the master copy. On a GPU the plain copy is cuMemcpy between it and the same kind of memory. On another node it is a
 * TCP connection to a process of this host, over which the bytes go once. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "library.h"
#include "measure.h"
#include "program.h"

enum { ROUNDS = 7 };

static ivm_dev dev; /* PE 1's */
static long gpu, far;

enum what { TO_MASTER, TO_MIRROR, PUT, GET, SCATTER, GATHER, KINDS }; /* the first two are plain copies */
static const enum what beside[KINDS] = {[PUT] = TO_MASTER, [GET] = TO_MIRROR, [SCATTER] = TO_MIRROR, [GATHER] = TO_MASTER};

static struct {
	int (*to_gpu)(unsigned long long, const void *, size_t), (*to_host)(void *, unsigned long long, size_t), (*synchronize)(void);
	int (*retain)(void **, int), (*set)(void *), (*allocate)(unsigned long long *, size_t), (*pin)(void *, size_t, unsigned), (*unpin)(void *);
} cuda;

static char *own_master, *own_mirror; /* of plain copies */
static int connection;                /* to a process that reads into its own_master */

/* host_memory is as that of objects. */
static char *host_memory(size_t bytes)
{
	const int fd = memfd_create("putget", 0);
	char *at = ftruncate(fd, (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (at == MAP_FAILED)
		must("malloc", -ENOMEM);
	memset(at, 1, bytes);
	return at;
}

static char *gpu_memory(size_t bytes)
{
	static const char driver[] = "libcuda.so.1";
	unsigned long long at;
	void *context;

	*(void **)&cuda.retain = function(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&cuda.set = function(driver, "cuCtxSetCurrent");
	*(void **)&cuda.allocate = function(driver, "cuMemAlloc_v2");
	*(void **)&cuda.to_gpu = function(driver, "cuMemcpyHtoD_v2");
	*(void **)&cuda.to_host = function(driver, "cuMemcpyDtoH_v2");
	*(void **)&cuda.synchronize = function(driver, "cuCtxSynchronize");
	*(void **)&cuda.pin = function(driver, "cuMemHostRegister_v2");
	*(void **)&cuda.unpin = function(driver, "cuMemHostUnregister");
	succeeded("cuDevicePrimaryCtxRetain", cuda.retain(&context, 0)); /* which ivm_map has made */
	succeeded("cuCtxSetCurrent", cuda.set(context));
	succeeded("cuMemAlloc", cuda.allocate(&at, bytes));
	return (char *)at;
}

/* all writes or reads so many bytes. */
static void all(ssize_t (*call)(int, void *, size_t, int), int socket, void *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		const ssize_t n = call(socket, (char *)bytes + done, size - done, 0);
		if (n <= 0)
			_exit(n == 0 ? 0 : 1); /* the other process has ended */
		done += (size_t)n;
	}
}

static ssize_t send_some(int socket, void *bytes, size_t size, int flags)
{
	return send(socket, bytes, size, flags);
}

/* connect_reader starts the process at the other end. */
static void connect_reader(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	const int listener = socket(AF_INET, SOCK_STREAM, 0), own = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	size_t size;

	if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
	    connect(own, (struct sockaddr *)&address, length) != 0)
		must("connect", -errno);
	connection = accept(listener, NULL, NULL);
	setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	if (fork() != 0) {
		close(own);
		return;
	}
	close(connection);
	for (;;) {
		all(recv, own, &size, sizeof size);
		all(recv, own, own_master, size);
		all(send_some, own, "", 1);
	}
}

static void copy_over_socket(size_t bytes)
{
	char done;

	all(send_some, connection, &bytes, sizeof bytes);
	all(send_some, connection, own_mirror, bytes);
	all(recv, connection, &done, 1);
}

static void copy_plainly(bool to_master, size_t bytes)
{
	char *to = to_master ? own_master : own_mirror, *from = to_master ? own_mirror : own_master;

	if (far) {
		copy_over_socket(bytes);
	} else if (!gpu) {
		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
	} else {
		succeeded("cuMemcpy", to_master ? cuda.to_host(to, (unsigned long long)from, bytes) : cuda.to_gpu((unsigned long long)to, from, bytes));
		succeeded("cuCtxSynchronize", cuda.synchronize());
	}
}

static void copy_once(enum what what, char *mirror, size_t bytes)
{
	const struct ivm_part part = {dev, mirror, bytes};

	if (what == TO_MASTER || what == TO_MIRROR)
		copy_plainly(what == TO_MASTER, bytes);
	else
		must("sync", what == PUT ? ivm_sync_put(mirror, bytes) : what == GET ? ivm_sync_get(mirror, bytes) : what == SCATTER ? ivm_sync_put_group(&part, 1) : ivm_sync_get_group(&part, 1));
}

/* copy copies so many bytes, as often as makes 64 MiB, and returns the time of one. */
static double copy(enum what what, char *mirror, size_t bytes)
{
	const size_t times = bytes < 64 << 20 ? (64 << 20) / bytes : 1;
	const double start = now();

	for (size_t i = 0; i < times; i++)
		copy_once(what, mirror, bytes);
	return (now() - start) / (double)times;
}

static double rate(size_t bytes, double seconds)
{
	return 1e-9 * (double)bytes / seconds;
}

/* measure_pinned: what it would bring to register the master copy with CUDA, and cost. */
static void measure_pinned(size_t bytes)
{
	const double start = now();

	succeeded("cuMemHostRegister", cuda.pin(own_master, bytes, 0));
	const double pinned = now();
	for (int i = 0; i < 2; i++) /* the second is measured */
		copy_plainly(true, bytes);
	const double begin = now();
	copy_plainly(true, bytes);
	const double middle = now();
	copy_plainly(false, bytes);
	const double end = now();
	succeeded("cuMemHostUnregister", cuda.unpin(own_master));
	printf("registered with CUDA: %.1f ms for %zu bytes, then %.2f GB/s to the host, %.2f GB/s to the GPU\n", 1e3 * (pinned - start), bytes,
	       rate(bytes, middle - begin), rate(bytes, end - middle));
}

static void measure(char *mirror, size_t most)
{
	own_master = host_memory(most);
	own_mirror = gpu ? gpu_memory(most) : host_memory(most);
	if (far)
		connect_reader();
	if (gpu)
		printf("%12s %14s %14s %10s %10s %10s %10s\n", "bytes", "to host GB/s", "to GPU GB/s", "put", "get", "scatter", "gather");
	else
		printf("%12s %14s %10s %10s %10s %10s\n", "bytes", far ? "socket GB/s" : "memcpy GB/s", "put", "get", "scatter", "gather");
	for (size_t bytes = 1 << 20; bytes <= most; bytes *= 4) {
		double times[KINDS][ROUNDS], median[KINDS];
		for (int round = -1; round < ROUNDS; round++) /* the first is for pages that nobody has touched */
			for (enum what what = TO_MASTER; what < KINDS; what++)
				times[what][round < 0 ? 0 : round] = copy(what, mirror, bytes);
		for (enum what what = TO_MASTER; what < KINDS; what++)
			median[what] = percentile(times[what], ROUNDS, 50);
		printf("%12zu %14.2f", bytes, rate(bytes, median[TO_MASTER]));
		if (gpu)
			printf(" %14.2f", rate(bytes, median[TO_MIRROR]));
		for (enum what what = PUT; what < KINDS; what++)
			printf(" %10.2f", median[beside[what]] / median[what]);
		printf("\n");
		fflush(stdout);
	}
	if (gpu)
		measure_pinned(most);
}

int main(int argc, char **argv)
{
	long most = 1 << 30;
	const struct option_of_program options[] = {{"--most", &most, 1, 1L << 40, "greatest size in bytes"}, {"--gpu", &gpu, 0, 0, "the mirror is on GPU 0"}, {"--far", &far, 0, 0, "the mirror is on the second node"}, {0}};
	ivm_pe id;
	char *at;

	read_options(argc, argv, "How fast put, get, scatter and gather are beside a plain copy: medians of 7, as ratios of its rate.", options);
	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&id));
	if (far && getenv("IVM_HOSTS") == NULL)
		must("create_dev", -EHOSTUNREACH);
	if (gpu)
		must("create_dev", ivm_create_dev(NULL, IVM_GPU, 0, &dev));
	else
		dev = device(1);
	if (id == 0) {
		must("malloc", ivm_malloc("object", (size_t)most, (void **)&at));
		memset(at, 1, (size_t)most);
		must("create_pes", ivm_create_pes(dev, 1, NULL));
		must("wait", ivm_wait(1));
	} else {
		must("map", ivm_map("object", (void **)&at, NULL));
		measure(at, (size_t)most);
		must("signal", ivm_signal());
	}
	must("exit", ivm_exit());
	return 0;
}
