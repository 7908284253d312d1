/* host.h: what the programs of the suites share without CUDA: options, exit statuses,
 * phases, checksums, comparisons and output files. Exit statuses are part of the interface
 * (README.md). */
#ifndef SUITE_HOST_H
#define SUITE_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum exit_status {
	EXIT_OK = 0,
	EXIT_INPUT = 1,    /* usage, input file, output file or host memory */
	EXIT_OOM = 2,      /* out of device memory */
	EXIT_FAULT = 3,    /* any other CUDA error */
	EXIT_MISMATCH = 4  /* --verify found a difference */
};

/* die prints "PROGRAM: MESSAGE" on stderr and exits. */
[[noreturn]] void die(exit_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

struct options {
	bool footprint;  /* print the footprint and exit; makes no CUDA call */
	bool verify;     /* compare with a host reference */
	bool phases;     /* print the length of each phase on stderr */
	const char *out; /* result file; nullptr: see open_output */
};

/* take_options removes the options above from argv, leaving the arguments of
 * the original command line. --help prints `usage` and exits 0. */
options take_options(int *argc, char **argv, const char *usage);

/* usage_error prints usage on stderr and exits with EXIT_INPUT. */
[[noreturn]] void usage_error(const char *usage);

/* parse_int and parse_real parse the whole text or die; name is for the message. parse_int
 * also dies if the number is outside [low, high]. */
long parse_int(const char *text, const char *name, long low, long high);
double parse_real(const char *text, const char *name);

/* host_alloc never returns nullptr. The memory is malloc's, so its pages are
 * first touched by the program. */
void *host_alloc_bytes(size_t bytes, const char *name);
template <typename T> T *host_alloc(size_t count, const char *name)
{
	return static_cast<T *>(host_alloc_bytes(count * sizeof(T), name));
}

/* phase_clock, if enabled, prints "phase NAME SECONDS" on stderr when the next phase starts
 * and at finish(). */
class phase_clock {
public:
	explicit phase_clock(bool print);
	void start(const char *name);
	void finish();

private:
	bool print_;
	const char *name_;
	double since_;
};

/* checksum mixes bytes into a 64-bit value that depends on every byte and its
 * position; chain arrays by passing the previous value as seed. */
uint64_t checksum(const void *data, size_t bytes, uint64_t seed = 0);
void print_checksum(uint64_t value); /* "checksum 0x%016x" on stdout */

/* open_output opens the result file, or /dev/null without --out. Copies of a program in one
 * directory therefore never share a file, and still pay the cost of formatting. close_output
 * dies if a write failed. */
FILE *open_output(const char *path);
void close_output(FILE *file, const char *path);

/* verify_report prints "verify NAME max_error E (limit L)" on stdout and dies
 * with EXIT_MISMATCH when E exceeds L or is not a number. */
void verify_report(const char *name, double max_error, double limit);

/* relative_error is |got - want| / max(|want|, floor). */
double relative_error(double got, double want, double floor);

/* keep_worst raises *max to error; a NaN counts as infinite. */
void keep_worst(double *max, double error);

#endif
