/* sample.c: writes testdata/sample.trace to standard output, through the
 * tracer's own writer and a file in the directory of its argument.
 * collectors/kernels/read_test.go has the same values. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../file.h"

int main(int argc, char **argv)
{
	struct case_trace_kernel first = {
		.start_ns = 1000000100, .end_ns = 1000000350, .grid = {1, 2, 3}, .block = {256, 2, 1}, .registers = 32,
		.static_shared = 4096, .dynamic_shared = 1024, .stream = 7, .correlation = 42, .device = 1};
	struct case_trace_kernel second = {
		.start_ns = 1000000400, .end_ns = 1000000400, .grid = {0x7fffffff, 65535, 65535}, .block = {1024, 1, 1},
		.registers = 255, .stream = 13, .correlation = 41, .device = 1};
	struct case_trace_copy copy = {.kind = CASE_TRACE_COPY_HTOD, .start_ns = 1000000000, .end_ns = 1000000050,
		.bytes = 5ull << 30, .stream = 7, .correlation = 40, .device = 1};
	uint8_t uuid[16];
	char path[4096];

	for (unsigned i = 0; i < 16; i++)
		uuid[i] = (uint8_t)(0xa0 + i);
	snprintf(path, sizeof path, "%s/4242.trace", argc > 1 ? argv[1] : ".");
	unlink(path);
	if (trace_open(argc > 1 ? argv[1] : ".", 4242, 18, 999999999) != 0) {
		perror(path);
		return 1;
	}
	trace_device(1, uuid);
	trace_copy(&copy);
	trace_kernel(&first, "_Z4fillPfi");
	trace_kernel(&second, "sum");
	trace_kernel(&first, "_Z4fillPfi");
	copy.kind = CASE_TRACE_COPY_SET;
	copy.bytes = 3;
	trace_copy(&copy);
	trace_note(8, "cuptiActivityEnable: a sample");
	trace_end(1000001000);
	trace_lost(5);
	trace_flush();

	FILE *file = fopen(path, "rb");
	if (file == NULL) {
		perror(path);
		return 1;
	}
	for (int c; (c = getc(file)) != EOF;)
		putchar(c);
	fclose(file);
	unlink(path);
	return 0;
}
