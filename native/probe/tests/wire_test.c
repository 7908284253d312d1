/* wire_test.c: each frame of wire.h against its bytes in testdata, written and
 * read, and the parts of a state file (shared/state.h). runner/probe/wire/wire_test.go and
 * runner/schedshm/file_test.go do the same with the same values. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../case.h"
#include "../shared/books.h"
#include "../wire.h"

static const char *directory;
static int failures;

/* fixture reads hex digits; '#' starts a comment. */
static size_t fixture(const char *name, unsigned char *to, size_t size)
{
	char path[512], line[256];
	size_t n = 0;

	snprintf(path, sizeof path, "%s/%s.hex", directory, name);
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof line, file) != NULL) {
		line[strcspn(line, "#\n")] = '\0';
		for (char *p = line, *end; n < size; p = end) {
			unsigned long byte = strtoul(p, &end, 16);
			if (end == p)
				break;
			to[n++] = (unsigned char)byte;
		}
	}
	fclose(file);
	return n;
}

static void compare(const char *name, const void *frame, size_t size)
{
	unsigned char want[CASE_WIRE_MAX_FRAME + 1];
	size_t n = fixture(name, want, sizeof want);

	if (n != size || memcmp(want, frame, size) != 0) {
		fprintf(stderr, "wire_test: %s: %zu bytes that differ from the fixture's %zu\n", name, size, n);
		failures++;
	}
}

static void expect(const char *what, int ok)
{
	if (!ok) {
		fprintf(stderr, "wire_test: %s\n", what);
		failures++;
	}
}

#define HEADER(type, frame) {type, 6, sizeof(frame)}

static void encode(void)
{
	struct case_wire_hello hello = {HEADER(CASE_WIRE_HELLO, hello), 4242, 17, {0}, CASE_CAN_EVICT, 0};
	struct case_wire_task_begin begin = {
		HEADER(CASE_WIRE_TASK_BEGIN, begin), 7, 0x312345678, 65535, 8 << 20, 16, 3, 6, 2, 30000, 0, 1 << 30, 2ull << 30};
	struct case_wire_grant grant = {HEADER(CASE_WIRE_GRANT, grant), 7, {0}, 3, 0, 512 << 20};
	struct case_wire_refuse refuse = {HEADER(CASE_WIRE_REFUSE, refuse), 7, 20ull << 30, 16ull << 30,
	                                  CASE_CAUSE_TOO_LARGE, 0, "fits no device"};
	struct case_wire_task_grow grow = {HEADER(CASE_WIRE_TASK_GROW, grow), 7, 1 << 20, CASE_WAIT_NONE, 0};
	struct case_wire_task_shrink shrink = {HEADER(CASE_WIRE_TASK_SHRINK, shrink), 7, 3 << 20};
	struct case_wire_task_decided decided = {HEADER(CASE_WIRE_TASK_DECIDED, decided), 7, 20ull << 30, 16ull << 30,
	                                         CASE_CAUSE_TIMED_OUT, 0};
	struct case_wire_task_shape shape = {HEADER(CASE_WIRE_TASK_SHAPE, shape), 7, 2097152, 256, 8};
	struct case_wire_task_free release = {HEADER(CASE_WIRE_TASK_FREE, release), 7};
	struct case_wire_oom oom = {HEADER(CASE_WIRE_OOM, oom), 1 << 30, "cudaMalloc"};
	struct case_wire_fault fault = {HEADER(CASE_WIRE_FAULT, fault), 123456789012345, 700, 0, "cudaMemcpy"};
	struct case_wire_welcome welcome = {HEADER(CASE_WIRE_WELCOME, welcome), 32 << 20, 50000, 2, 1, 0};
	struct case_wire_revoke revoke = {HEADER(CASE_WIRE_REVOKE, revoke), 7, 99, 3ull << 30, CASE_REVOKE_MOVE, 250, {0}, 3, 0};
	struct case_wire_revoked revoked = {HEADER(CASE_WIRE_REVOKED, revoked), 7, 99, 0, 5ull << 30, 517 << 20, 1000000, 2000000, 3000000, 4000000,
	                                    CASE_REVOKED_UNABLE, 0, "the swap area is full"};
	struct case_wire_task_moved moved = {HEADER(CASE_WIRE_TASK_MOVED, moved), 7, 5ull << 30, 2000000, 3000000, CASE_MOVED_OUT, 0};
	struct case_wire_task_resume resume = {HEADER(CASE_WIRE_TASK_RESUME, resume), 7, 5ull << 30, 1 << 30, 3ull << 30};
	struct case_wire_task_yielded yielded = {HEADER(CASE_WIRE_TASK_YIELDED, yielded), 7};
	struct case_wire_swap_more more = {HEADER(CASE_WIRE_SWAP_MORE, more), 96 << 20};
	struct case_wire_swap_space space = {HEADER(CASE_WIRE_SWAP_SPACE, space), 96 << 20, 0, 3, 0};
	struct case_wire_swap_recall recall = {HEADER(CASE_WIRE_SWAP_RECALL, recall)};
	struct case_wire_swap_kept kept = {HEADER(CASE_WIRE_SWAP_KEPT, kept), 96 << 20};
	struct case_wire_room room = {HEADER(CASE_WIRE_ROOM, room), 3, 0};
	struct case_wire_room_is room_is = {HEADER(CASE_WIRE_ROOM_IS, room_is), 5ull << 30};
	struct case_wire_managed managed = {HEADER(CASE_WIRE_MANAGED, managed), 5ull << 30, 1 << 30, 9ull << 30, 3, 0};
	struct case_wire_bye bye = {HEADER(CASE_WIRE_BYE, bye)};

	for (unsigned i = 0; i < 16; i++) {
		hello.token[i] = (uint8_t)i;
		revoke.uuid[i] = grant.uuid[i] = (uint8_t)(0xa0 + i);
	}
	compare("hello", &hello, sizeof hello);
	compare("task_begin", &begin, sizeof begin);
	compare("grant", &grant, sizeof grant);
	compare("refuse", &refuse, sizeof refuse);
	compare("task_grow", &grow, sizeof grow);
	compare("task_shrink", &shrink, sizeof shrink);
	compare("task_decided", &decided, sizeof decided);
	compare("task_shape", &shape, sizeof shape);
	compare("task_free", &release, sizeof release);
	compare("oom", &oom, sizeof oom);
	compare("fault", &fault, sizeof fault);
	compare("bye", &bye, sizeof bye);
	compare("welcome", &welcome, sizeof welcome);
	compare("revoke", &revoke, sizeof revoke);
	compare("revoked", &revoked, sizeof revoked);
	compare("task_resume", &resume, sizeof resume);
	compare("task_moved", &moved, sizeof moved);
	compare("task_yielded", &yielded, sizeof yielded);
	compare("swap_more", &more, sizeof more);
	compare("swap_space", &space, sizeof space);
	compare("swap_recall", &recall, sizeof recall);
	compare("swap_kept", &kept, sizeof kept);
	compare("room", &room, sizeof room);
	compare("room_is", &room_is, sizeof room_is);
	compare("managed", &managed, sizeof managed);
}

static void encode_state(void)
{
	static struct case_shared_config config = {CASE_SHARED_MAGIC, CASE_SHARED_VERSION, sizeof(struct case_shared_file), 0, 30000000000,
	                                           CASE_SHARED_PRIORITY_FIFO, 1, {{{0}, 16ull << 30, 576 << 20, 2, 0}}};
	static struct case_shared_books books = {.sequence = 42, .epoch = 987654321, .last_id = 123456789012345, .holdings = 1, .requests = 1};
	const struct case_shared_process client = {4242, 17, 123456, 0x555555554000, 0x7ffffffde000};

	for (unsigned i = 0; i < 16; i++)
		config.device[0].uuid[i] = (uint8_t)(0xa0 + i);
	config.checksum = books_config_checksum(&config);
	books.holding[0] = (struct case_shared_holding){client, 3ull << 30, 0, 2};
	books.request[0] = (struct case_shared_request){client, 123456789012345, 1 << 30, 123456789999999, -5, 0, 1,
	                                                CASE_SHARED_WAITING};
	books.checksum = books_checksum(&books);
	compare("shared_config", &config, 80);
	compare("shared_books", &books, 40);
	compare("shared_holding", &books.holding[0], sizeof books.holding[0]);
	compare("shared_request", &books.request[0], sizeof books.request[0]);
	expect("what is written is valid", books_config_valid(&config) && books_valid(&config, &books));
}

/* decode reads the two frames that libcase receives. */
static void decode(void)
{
	struct case_wire_grant grant;
	struct case_wire_refuse refuse;

	fixture("grant", (unsigned char *)&grant, sizeof grant);
	expect("GRANT reads as written",
	       grant.header.type == CASE_WIRE_GRANT && grant.header.version == CASE_WIRE_VERSION &&
	       grant.header.size == sizeof grant && grant.task == 7 && grant.uuid[0] == 0xa0 &&
	       grant.uuid[15] == 0xaf && grant.ordinal == 3 && grant.host_bytes == 512 << 20);
	fixture("refuse", (unsigned char *)&refuse, sizeof refuse);
	expect("REFUSE reads as written",
	       refuse.header.type == CASE_WIRE_REFUSE && refuse.header.size == sizeof refuse &&
	       refuse.task == 7 && refuse.need == 20ull << 30 && refuse.capacity == 16ull << 30 &&
	       refuse.cause == CASE_CAUSE_TOO_LARGE && strcmp(refuse.text, "fits no device") == 0);
}

int main(int argc, char **argv)
{
	directory = argc > 1 ? argv[1] : "testdata";
	encode();
	encode_state();
	decode();
	if (failures == 0)
		puts("wire_test: ok");
	return failures != 0;
}
