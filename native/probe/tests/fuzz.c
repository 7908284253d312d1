/* fuzz.c: the library against a server that sends what an input says, right or wrong, in any order.
 *
 *     fuzz FOLDER                 plays the inputs of the folder
 *     fuzz FOLDER SECONDS SEED    then plays random changes of them for so long
 *
 * It is built with the address and undefined-behaviour sanitizers. An input is hex digits; '#' starts a
 * comment. Each is played in a child process, so that it has a library without a connection. A child
 * that fails, or that hangs for 20 s, is a finding: its input is printed, and the program exits with 1.
 *
 * The first byte of an input says what the process is like, the second what the program and the hooks
 * do. The others are the server's steps (step).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../activity.h"
#include "../case.h"
#include "../client.h"
#include "../wire.h"

#define INPUTS 512
#define LONGEST 512

struct input {
	size_t size;
	unsigned char bytes[LONGEST];
};

static struct input corpus[INPUTS];
static size_t inputs;

enum { EVICTS = 1, REPORTS = 2, CLOSES = 4 }; /* bits of the first byte */

static const struct input *played;
static size_t position;
static int listener, server = -1;
static uint64_t chunk; /* bytes, of the last welcome */

static unsigned char next(void) { return position < played->size ? played->bytes[position++] : 0; }

static void welcome(const struct client_welcome *w) { (void)w; }

static struct client_need needs(void) { return (struct client_need){900, 600, 0}; }

static void take_back(const struct client_revocation *r, struct client_revoked *answer)
{
	const unsigned char does = played->bytes[1];
	struct client_space space;

	answer->outcome = (enum case_wire_outcome)(1 + (r->task + does) % 3);
	memset(answer->why, 'w', does % sizeof answer->why);
	if ((does & 1) != 0 && client_await_swap(1 + r->bytes, &space))
		for (int i = 0; i < space.file_count; i++)
			close(space.files[i]);
	if ((does & 2) != 0)
		case_report_oom(r->bytes, "a hook");
	if ((does & 4) != 0)
		client_await_resume(&(struct case_task){.id = r->task}, needs);
}

static void put_away(const struct client_space *offered)
{
	for (int i = 0; i < offered->file_count; i++)
		close(offered->files[i]);
}

static uint64_t give_back(void) { return played->bytes[1]; }

static const struct client_hooks hooks = {welcome, take_back, put_away, give_back, 0};

/* step sends a frame with the task, the numbers and the changed byte that the input says, or takes one.
 * false: the connection has ended. */
static bool step(void)
{
	union {
		struct case_wire_header header;
		struct case_wire_grant grant;
		struct case_wire_refuse refuse;
		struct case_wire_welcome welcome;
		struct case_wire_revoke revoke;
		struct case_wire_swap_space space;
		struct case_wire_swap_recall recall;
		struct case_wire_room_is room;
		unsigned char bytes[2 * CASE_WIRE_MAX_FRAME];
	} f = {.bytes = {0}};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	const unsigned char what = next(), task = next() % 4, number = next();
	size_t size = 0;
	uint32_t files = what >> 6;

	switch (what % 8) {
	case 0:
		size = sizeof f.grant;
		f.grant = (struct case_wire_grant){{CASE_WIRE_GRANT, CASE_WIRE_VERSION, 0}, task, {1}, number % 4, 0, 0};
		break;
	case 1:
		size = sizeof f.refuse;
		f.refuse = (struct case_wire_refuse){{CASE_WIRE_REFUSE, CASE_WIRE_VERSION, 0}, task, 2, 1, number % 8, 0, "no"};
		break;
	case 2:
		size = sizeof f.welcome;
		chunk = number;
		f.welcome = (struct case_wire_welcome){{CASE_WIRE_WELCOME, CASE_WIRE_VERSION, 0}, number, 5, files, number % 2, 0};
		break;
	case 3:
		size = sizeof f.revoke;
		f.revoke = (struct case_wire_revoke){{CASE_WIRE_REVOKE, CASE_WIRE_VERSION, 0}, task, 1u + number / 2, number % 2 != 0, 1 + number % 6u, number, {1}, number % 4, number / 64};
		break;
	case 4:
		if (files == 0 && number % 2 != 0) {
			size = sizeof f.recall;
			f.recall = (struct case_wire_swap_recall){{CASE_WIRE_SWAP_RECALL, CASE_WIRE_VERSION, 0}};
			break;
		}
		size = sizeof f.space;
		f.space = (struct case_wire_swap_space){{CASE_WIRE_SWAP_SPACE, CASE_WIRE_VERSION, 0}, number, files != 0 ? 0 : number, files, files != 0 && number % 2 != 0};
		if (f.space.offered != 0) {
			f.space.bytes = files * chunk;
			f.space.offset = number / 2 * chunk;
		}
		break;
	case 7:
		size = sizeof f.room;
		f.room = (struct case_wire_room_is){{CASE_WIRE_ROOM_IS, CASE_WIRE_VERSION, 0}, number};
		break;
	case 5: /* any bytes */
		size = 1 + number % (sizeof f.bytes - 1);
		for (size_t i = 0; i < size; i++)
			f.bytes[i] = next();
		break;
	default:
		return recv(server, &f, sizeof f, 0) != 0; /* waits a little */
	}
	if (what % 8 != 5)
		f.header.size = (uint32_t)size;
	const unsigned char change = (what & 8) != 0 ? next() : 0;
	f.bytes[change % size] ^= change;
	struct iovec part = {&f, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (files > 0) {
		control.header = (struct cmsghdr){CMSG_LEN(files * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		for (uint32_t i = 0; i < files; i++)
			memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &listener, sizeof listener);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(files * sizeof(int));
	}
	return sendmsg(server, &message, MSG_NOSIGNAL) >= 0;
}

static void *serve(void *unused)
{
	const struct timeval little = {0, 2000};
	unsigned char hello[sizeof(struct case_wire_hello)];

	while ((server = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little);
		recv(server, hello, sizeof hello, 0);
		while (position < played->size && step())
			;
		close(server);
	}
	return unused;
}

static void *program(void *number)
{
	const unsigned char does = played->bytes[1];
	struct case_task task;
	uint64_t room;

	for (int i = 0; i < 3; i++) {
		if (case_task_begin((uint64_t)(uintptr_t)number + 1, 1, 32, 0, 0, &task) != CASE_OK)
			continue;
		if ((does & 8) != 0)
			case_task_grow(&task, 5, 0);
		if ((does & 128) != 0)
			client_await_room(1, &room), client_await_managed(&(struct client_managed){1, 0, 0, 1}, &room);
		if ((does & 16) != 0 && client_await_resume(&task, needs) == CASE_OK)
			client_moved(&task, CASE_MOVED_IN, &(struct client_move){800, 1, 1});
		if ((does & 64) != 0)
			client_end_burst(&task);
		case_task_shape(&task, 2, 64, 1);
		if ((does & 32) != 0 && i == 1)
			continue;
		case_task_shrink(&task, 1);
		case_task_free(&task);
	}
	return NULL;
}

/* close_connections closes the library's descriptors, as a program may. */
static void close_connections(void)
{
	for (int fd = 3; fd < 32; fd++) {
		struct sockaddr_un peer;
		socklen_t size = sizeof peer;
		if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && size > sizeof peer.sun_family)
			close(fd);
	}
}

static void child(const struct input *input)
{
	pthread_t threads[3];

	alarm(20);
	played = input;
	position = 2;
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
	activity_watched();
	if ((input->bytes[0] & EVICTS) != 0)
		client_can_evict(&hooks);
	if ((input->bytes[0] & REPORTS) != 0)
		case_report_oom(1, "first");
	if (pthread_create(&threads[0], NULL, serve, NULL) != 0 || pthread_create(&threads[1], NULL, program, (void *)1) != 0 ||
	    pthread_create(&threads[2], NULL, program, (void *)2) != 0)
		_exit(3);
	if ((input->bytes[0] & CLOSES) != 0)
		close_connections();
	pthread_join(threads[1], NULL);
	pthread_join(threads[2], NULL);
	shutdown(listener, SHUT_RDWR);
	pthread_join(threads[0], NULL);
	exit(0);
}

/* play says whether the library withstood the input. */
static bool play(const struct input *input, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int status = 0;

	if (input->size < 2)
		return true;
	strcpy(address.sun_path, path);
	unlink(path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 8) != 0) {
		perror(path);
		exit(2);
	}
	fflush(NULL);
	const pid_t player = fork();
	if (player == 0)
		child(input);
	close(listener);
	if (player < 0 || waitpid(player, &status, 0) != player || status != 0) {
		printf("wait status %#x after\n", (unsigned)status);
		for (size_t i = 0; i < input->size; i++)
			printf("%02x%c", input->bytes[i], i % 16 == 15 || i + 1 == input->size ? '\n' : ' ');
		return false;
	}
	return true;
}

static void load(const char *folder)
{
	DIR *list = opendir(folder);

	if (list == NULL) {
		perror(folder);
		exit(2);
	}
	for (struct dirent *d; (d = readdir(list)) != NULL && inputs < INPUTS;) {
		char path[512], line[512];
		struct input *in = &corpus[inputs];
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
		FILE *file = fopen(path, "r");
		while (file != NULL && fgets(line, sizeof line, file) != NULL) {
			line[strcspn(line, "#\n")] = '\0';
			for (char *p = line, *end; in->size < LONGEST; p = end) {
				const unsigned long byte = strtoul(p, &end, 16);
				if (end == p)
					break;
				in->bytes[in->size++] = (unsigned char)byte;
			}
		}
		if (file != NULL)
			fclose(file);
		inputs++;
	}
	closedir(list);
}

/* change makes one random change to an input. */
static void change(struct input *in, unsigned *seed)
{
	const size_t at = in->size > 0 ? (size_t)rand_r(seed) % in->size : 0;
	const struct input *other = &corpus[(size_t)rand_r(seed) % inputs];
	const size_t n = (size_t)rand_r(seed) % 8 + 1;

	switch (rand_r(seed) % 6) {
	case 0: in->bytes[at] = (unsigned char)rand_r(seed); break;
	case 1: in->bytes[at] ^= (unsigned char)(1u << rand_r(seed) % 8); break;
	case 2: /* insert */
		if (in->size + n <= LONGEST) {
			memmove(in->bytes + at + n, in->bytes + at, in->size - at);
			for (size_t i = 0; i < n; i++)
				in->bytes[at + i] = (unsigned char)rand_r(seed);
			in->size += n;
		}
		break;
	case 3: /* remove */
		if (at + n <= in->size) {
			memmove(in->bytes + at, in->bytes + at + n, in->size - at - n);
			in->size -= n;
		}
		break;
	case 4: in->size = at > 2 ? at : in->size; break;
	default: /* go on with another */
		for (size_t i = 0; i < other->size && at + i < LONGEST; i++) {
			in->bytes[at + i] = other->bytes[i];
			in->size = at + i + 1 > in->size ? at + i + 1 : in->size;
		}
	}
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/fuzzXXXXXX", path[64];
	unsigned long plays = 0;
	bool sound = true;

	if (argc != 2 && argc != 4)
		return 2;
	load(argv[1]);
	if (inputs == 0 || mkdtemp(folder) == NULL)
		return 2;
	snprintf(path, sizeof path, "%s/s", folder);
	setenv("CASE_SOCKET", path, 1);
	setenv("CASE_TOKEN", "000102030405060708090a0b0c0d0e0f", 1);
	setenv("CASE_REQUIRED", "1", 1);
	for (size_t i = 0; i < inputs; i++, plays++)
		sound = play(&corpus[i], path) && sound;
	if (argc == 4) {
		const time_t end = time(NULL) + atol(argv[2]);
		unsigned seed = (unsigned)strtoul(argv[3], NULL, 10);
		for (; sound && time(NULL) < end; plays++) {
			struct input in = corpus[(size_t)rand_r(&seed) % inputs];
			for (int i = rand_r(&seed) % 6; i >= 0; i--)
				change(&in, &seed);
			sound = play(&in, path);
		}
	}
	unlink(path);
	rmdir(folder);
	printf("fuzz: %s, %lu inputs\n", sound ? "ok" : "FAILED", plays);
	return !sound;
}
