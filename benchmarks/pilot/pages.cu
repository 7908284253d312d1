/* pages.cu: how much managed memory is on the device, as libcase.so finds it out (native/lazy/memory/pagemap.h), beside what a kernel
 * has touched.
 *
 *	pages [MIB]    managed memory (2048): never more, and never more than half of what is free
 *
 * It needs no caserun. Exit statuses: 4 if they differ by more than 1 %, 2 where it cannot be measured. */
#include "pilot.h"

#include <chrono>

#include "../../native/lazy/memory/pagemap.h"

enum { BLOCK = 64 << 10 }; /* what the driver moves at least */
static const size_t mib = 1 << 20, most = 2048 * mib, least = 64 * mib;

__global__ void touch(unsigned *memory, size_t blocks)
{
	for (size_t i = first_item(); i < blocks; i += items_apart())
		memory[i * (BLOCK / sizeof *memory)]++;
}
KERNEL(touch);

static double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/* on_device is how much the page table does not have. It adds the time to *spent. */
static size_t on_device(const void *memory, size_t bytes, double *spent)
{
	static const lazy::Pagemap table;
	uint64_t absent = 0;
	const double from = seconds();

	if (!table.absent(reinterpret_cast<uintptr_t>(memory), bytes, &absent))
		die(EXIT_FAULT, "/proc/self/pagemap cannot be read");
	*spent += seconds() - from;
	return absent;
}

/* compare says what was touched and what is on the device, and whether they agree. */
static bool compare(const char *what, const void *memory, size_t bytes, size_t touched)
{
	double spent = 0;
	const size_t there = on_device(memory, bytes, &spent), apart = there > touched ? there - touched : touched - there;
	const bool agrees = apart * 100 <= touched;

	printf("%s: touched %.4f MiB, on the device %.4f MiB, read in %.2f ms for each GiB%s\n", what, touched / double(mib),
	       there / double(mib), 1000 * spent * (1 << 30) / bytes, agrees ? "" : ": NOT WITHIN 1 %");
	return agrees;
}

int main(int argc, char **argv)
{
	size_t free = 0, total = 0, bytes = most;
	unsigned *memory = nullptr;
	volatile char *host;
	bool agrees = true;
	long sum = 0;

	if (argc > 2 || (argc == 2 && (bytes = strtoul(argv[1], nullptr, 10) * mib) < least) || bytes > most)
		die(EXIT_INPUT, "usage: pages [MIB], from %zu to %zu", least / mib, most / mib);
	GPU(cudaMemGetInfo(&free, &total));
	bytes = (bytes < free / 2 ? bytes : free / 2) / (2 * mib) * (2 * mib);
	if (bytes < least)
		die(EXIT_OOM, "%zu MiB are free: too little", free / mib);
	GPU(cudaMallocManaged(reinterpret_cast<void **>(&memory), bytes, cudaMemAttachGlobal));
	host = reinterpret_cast<volatile char *>(memory);
	memset(memory, 0, bytes);
	agrees &= compare("the host alone", memory, bytes, 0);
	for (size_t part = 1; part <= 4; part++) { /* quarters of the memory */
		const size_t touched = bytes / 4 / (2 * mib) * (2 * mib) * part;
		LAUNCH_ON(touch, 256, 256, memory, touched / BLOCK);
		GPU(cudaDeviceSynchronize());
		char what[32];
		snprintf(what, sizeof what, "%zu of 4 parts", part);
		agrees &= compare(what, memory, bytes, touched);
		for (size_t at = 0; at < bytes; at += 4096)
			sum += host[at];
		agrees &= compare("read by the host", memory, bytes, 0);
	}
	if (sum != static_cast<long>(20 * (bytes / 4 / (2 * mib) * (2 * mib) / BLOCK)))
		die(EXIT_MISMATCH, "the kernels have counted %ld", sum);
	GPU(cudaFree(memory));
	return agrees ? 0 : EXIT_MISMATCH;
}
