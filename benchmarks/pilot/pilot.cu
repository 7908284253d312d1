#undef PILOT_STOPS
#define PILOT_STOPS 0 /* digest adds to what it reads */
#include "pilot.h"

#include <algorithm>
#include <string>

/* digest adds a hash of each word and its place, in any order. */
__global__ void digest(const uint32_t *words, size_t count, unsigned long long *sum)
{
	unsigned long long own = 0;

	for (size_t i = first_item(); i < count; i += items_apart())
		own += mixed((uint64_t)i << 32 ^ words[i] ^ i >> 32);
	atomicAdd(sum, own);
}
KERNEL(digest);

static std::string usage_of(const about &what, const std::vector<own_option> &own)
{
	std::string also;

	for (const own_option &o : own)
		also += std::string(" [") + o.name + (o.number ? " F]" : " TEXT]");
	return std::string("usage: ") + program_invocation_short_name +
	       " [--size sm|md|lg|N] [--rounds N] [--memory device|managed] [--blocks N] [--threads N]" + also + " [options]\n" + what.does +
	       "\nSizes: sm " + std::to_string(what.sizes[0]) + ", md " + std::to_string(what.sizes[1]) + ", lg (default) " +
	       std::to_string(what.sizes[2]) + "." + (what.most_rounds ? "" : " Rounds: 0 (default) is endless.") +
	       " Grid: " + std::to_string(what.blocks) + " blocks of 256 threads. README.md says more.\n";
}

/* number reads an integer, which may end with KiB, MiB or GiB. */
static long number(const char *text, const char *option, long low, long high)
{
	static const char *const units[] = {"KiB", "MiB", "GiB"};
	std::string digits = text;
	long times = 1;

	for (int i = 0; i < 3; i++)
		if (digits.size() > 3 && digits.compare(digits.size() - 3, 3, units[i]) == 0) {
			digits.resize(digits.size() - 3);
			times = 1024L << 10 * i;
		}
	const long value = parse_int(digits.c_str(), option, 0, high / times) * times;
	if (value < low)
		die(EXIT_INPUT, "%s is \"%s\", want an integer from %ld to %ld", option, text, low, high);
	return value;
}

static long size_of(const char *text, const about &what)
{
	static const char *const names[] = {"sm", "md", "lg"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(text, names[i]))
			return what.sizes[i];
	return number(text, "--size", what.smallest, what.largest);
}

static bool managed_memory(const char *text)
{
	if (strcmp(text, "device") && strcmp(text, "managed"))
		die(EXIT_INPUT, "--memory is \"%s\", want device or managed", text);
	return !strcmp(text, "managed");
}

static unsigned threads_of(const char *text)
{
	const long threads = parse_int(text, "--threads", 32, 1024);

	if (threads & (threads - 1))
		die(EXIT_INPUT, "--threads is %ld, want a power of two from 32 to 1024", threads);
	return threads;
}

/* take takes an option of the program's own, if it is one. */
static bool take(const std::vector<own_option> &own, const std::string &option, const char *value)
{
	for (const own_option &o : own) {
		if (option != o.name)
			continue;
		if (o.text)
			*o.text = value;
		else if ((*o.number = parse_real(value, o.name)) < o.least)
			die(EXIT_INPUT, "%s is %s, want a number of at least %g", o.name, value, o.least);
		return true;
	}
	return false;
}

program::program(int argc, char **argv, const about &what, const std::vector<own_option> &own)
	: size(what.sizes[2]), rounds(-1), blocks(what.blocks), threads(256), what_(what), clock_(false)
{
	const std::string usage = usage_of(what, own);

	chosen = take_options(&argc, argv, usage.c_str());
	clock_ = phase_clock(chosen.phases);
	for (int i = 1; i < argc; i += 2) {
		const std::string option = argv[i];
		const char *value = argv[i + 1];
		if (value == nullptr)
			usage_error(usage.c_str());
		if (option == "--size")
			size = size_of(value, what);
		else if (option == "--rounds")
			rounds = parse_int(value, "--rounds", what.most_rounds ? 1 : 0, 1L << 24);
		else if (option == "--memory")
			managed_ = managed_memory(value);
		else if (option == "--blocks")
			blocks = parse_int(value, "--blocks", 1, 1L << 20);
		else if (option == "--threads")
			threads = threads_of(value);
		else if (!take(own, option, value))
			usage_error(usage.c_str());
	}
	clock_.start("set up");
}

void *program::allocate_bytes(size_t bytes, const char *name)
{
	void *memory = nullptr;

	bytes_ += bytes;
	if (chosen.footprint)
		return nullptr;
	cudaError_t error = managed_ ? cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal) : cudaMalloc(&memory, bytes);
	if (error != cudaSuccess)
		allocation_failed(error, bytes, name);
	memory_.push_back(memory);
	return memory;
}

void program::begin(double bytes_a_round)
{
	if (chosen.footprint) {
		print_footprint(footprint{bytes_ + sizeof(unsigned long long), what_.kernel, dim3{blocks, 1, 1}, dim3{threads, 1, 1}});
		exit(EXIT_OK);
	}
	if (rounds < 0)
		rounds = std::min(what_.most_rounds, std::max(1L, lround(2e12 / bytes_a_round)));
}

void program::phase(const char *name)
{
	GPU(cudaDeviceSynchronize());
	clock_.start(name);
}

static void write_result(const char *path, const char *result, size_t bytes)
{
	std::vector<char> part(std::min(bytes, (size_t)16 << 20));
	FILE *file = open_output(path);

	for (size_t at = 0; at < bytes; at += part.size()) {
		const size_t now = std::min(part.size(), bytes - at);
		copy_to_host(part.data(), result + at, now);
		fwrite(part.data(), 1, now, file);
	}
	close_output(file, path);
}

int program::finish(const void *result, size_t bytes)
{
	auto *sum = static_cast<unsigned long long *>(allocate_bytes(sizeof(unsigned long long), "checksum"));

	phase("result");
	GPU(cudaMemset(sum, 0, sizeof *sum));
	LAUNCH(digest, *this, static_cast<const uint32_t *>(result), bytes / sizeof(uint32_t), sum);
	print_checksum(peek(sum));
	if (chosen.out)
		write_result(chosen.out, static_cast<const char *>(result), bytes);
	return tear_down();
}

int program::finish_on_host(const void *result, size_t bytes)
{
	phase("result");
	print_checksum(checksum(result, bytes));
	if (chosen.out) {
		FILE *file = open_output(chosen.out);
		fwrite(result, 1, bytes, file);
		close_output(file, chosen.out);
	}
	return tear_down();
}

int program::tear_down()
{
	clock_.start("tear-down");
	for (void *memory : memory_)
		device_free(memory);
	clock_.finish();
	return EXIT_OK;
}
