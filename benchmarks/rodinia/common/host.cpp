#include "host.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

void die(exit_status status, const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(status);
}

static const char common_usage[] =
	"Options:\n"
	"  --footprint   print device bytes, largest kernel, grid and block; no GPU needed\n"
	"  --verify      compare with a host reference; exit 4 on a mismatch\n"
	"  --phases      print the length of each phase on stderr, in seconds\n"
	"  --out FILE    write the result to FILE (README.md says what by default)\n"
	"  --help        this text\n";

void usage_error(const char *usage)
{
	fprintf(stderr, "%s%s", usage, common_usage);
	exit(EXIT_INPUT);
}

options take_options(int *argc, char **argv, const char *usage)
{
	options chosen = {false, false, false, nullptr};
	int kept = 1;

	for (int i = 1; i < *argc; i++) {
		if (!strcmp(argv[i], "--footprint")) {
			chosen.footprint = true;
		} else if (!strcmp(argv[i], "--verify")) {
			chosen.verify = true;
		} else if (!strcmp(argv[i], "--phases")) {
			chosen.phases = true;
		} else if (!strcmp(argv[i], "--out")) {
			if (++i == *argc)
				usage_error(usage);
			chosen.out = argv[i];
		} else if (!strcmp(argv[i], "--help")) {
			printf("%s%s", usage, common_usage);
			exit(EXIT_OK);
		} else {
			argv[kept++] = argv[i];
		}
	}
	argv[kept] = nullptr;
	*argc = kept;
	return chosen;
}

long parse_int(const char *text, const char *name, long low, long high)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);
	if (end == text || *end || errno || value < low || value > high)
		die(EXIT_INPUT, "%s is \"%s\", want an integer from %ld to %ld", name, text, low, high);
	return value;
}

double parse_real(const char *text, const char *name)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value))
		die(EXIT_INPUT, "%s is \"%s\", want a number", name, text);
	return value;
}

void *host_alloc_bytes(size_t bytes, const char *name)
{
	void *memory = malloc(bytes);

	if (!memory)
		die(EXIT_INPUT, "out of host memory: %s (%zu bytes)", name, bytes);
	return memory;
}

static double now_s()
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

phase_clock::phase_clock(bool print) : print_(print), name_(nullptr), since_(0) {}

void phase_clock::start(const char *name)
{
	double now = now_s();

	if (print_ && name_)
		fprintf(stderr, "phase %-14s %9.4f\n", name_, now - since_);
	name_ = name;
	since_ = now;
}

void phase_clock::finish()
{
	start(nullptr);
}

static uint64_t mix64(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9fb21c651e98df25u;
	return hash ^ hash >> 32;
}

/* Four independent chains, so that the multiplier's latency does not bound the
 * speed on arrays of gigabytes. */
uint64_t checksum(const void *data, size_t bytes, uint64_t seed)
{
	const unsigned char *at = static_cast<const unsigned char *>(data);
	uint64_t chain[4] = {seed, seed + 1, seed + 2, seed + 3}, word[4];
	size_t left = bytes;

	for (; left >= sizeof word; at += sizeof word, left -= sizeof word) {
		memcpy(word, at, sizeof word);
		for (int i = 0; i < 4; i++)
			chain[i] = mix64(chain[i], word[i]);
	}
	memset(word, 0, sizeof word);
	memcpy(word, at, left);
	uint64_t hash = bytes;
	for (int i = 0; i < 4; i++)
		hash = mix64(hash, mix64(chain[i], word[i]));
	return hash;
}

void print_checksum(uint64_t value)
{
	printf("checksum 0x%016llx\n", (unsigned long long)value);
}

FILE *open_output(const char *path)
{
	const char *name = path ? path : "/dev/null";
	FILE *file = fopen(name, "w");

	if (!file)
		die(EXIT_INPUT, "open %s for writing: %s", name, strerror(errno));
	return file;
}

void close_output(FILE *file, const char *path)
{
	bool failed = ferror(file);

	if (fclose(file) || failed)
		die(EXIT_INPUT, "write %s: %s", path ? path : "/dev/null", strerror(errno));
}

void verify_report(const char *name, double max_error, double limit)
{
	printf("verify %s max_error %.3g (limit %.3g)\n", name, max_error, limit);
	if (!(max_error <= limit))
		die(EXIT_MISMATCH, "%s differs from the host reference: max error %.3g, limit %.3g",
		    name, max_error, limit);
}

double relative_error(double got, double want, double floor)
{
	return fabs(got - want) / fmax(fabs(want), floor);
}

void keep_worst(double *max, double error)
{
	if (!(error <= *max))
		*max = isnan(error) ? INFINITY : error;
}
