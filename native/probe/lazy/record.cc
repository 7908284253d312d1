// record.cc: what the program asked for before it had a device, in order.
#include <string.h>
#include <sys/mman.h>

#include "runtime.h"

namespace lazy {

struct Recorded {
	const char *call;
	Operation run;
	bool kept;
	pthread_t by; // the thread that asked
	std::vector<uintptr_t> touches; // allocations, by base
};

static std::vector<Recorded> &log()
{
	static auto *const all = new std::vector<Recorded>;
	return *all;
}

static uint64_t snapshots; // bytes of host memory held by the record
static bool by_reference;

void record(const char *call, Operation run, std::initializer_list<Allocation *> touches)
{
	Recorded r = {call, std::move(run), false, pthread_self(), {}};

	for (Allocation *a : touches) {
		a->recorded++;
		r.touches.push_back(a->base);
	}
	log().push_back(std::move(r));
}

void record_kept(const char *call, Operation run)
{
	log().push_back({call, std::move(run), true, pthread_self(), {}});
}

static void let_go(const std::vector<uintptr_t> &touches)
{
	for (uintptr_t base : touches)
		if (Allocation *a = recorded_at(base))
			release_recorded(a);
}

cudaError_t replay()
{
	cudaError_t first = cudaSuccess;
	std::vector<Recorded> operations;

	operations.swap(log());
	for (Recorded &r : operations) {
		// Its order in a default stream of its own thread is kept by waiting.
		if (!pthread_equal(r.by, pthread_self()))
			owe_synchronization();
		cudaError_t error = seen(r.run(), r.call);
		if (error == cudaSuccess)
			continue;
		failed_replay(error, r.call);
		if (first == cudaSuccess)
			first = error;
	}
	for (const Recorded &r : operations)
		let_go(r.touches);
	by_reference = false;
	return first;
}

void forget_record()
{
	std::vector<Recorded> operations, kept;

	operations.swap(log());
	for (Recorded &r : operations)
		if (r.kept)
			kept.push_back(std::move(r));
	for (const Recorded &r : operations)
		let_go(r.touches);
	log().swap(kept);
	by_reference = false;
}

void clear_record()
{
	log().clear();
	by_reference = false;
}

void promise() { by_reference = true; }
bool promised() { return by_reference; }

std::shared_ptr<void> snapshot(const void *from, size_t width, size_t pitch, size_t rows)
{
	const size_t bytes = width * rows;

	if (bytes > record_limit() || snapshots > record_limit() - bytes)
		return nullptr;
	void *copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return nullptr;
	madvise(copy, bytes, MADV_HUGEPAGE); // fewer page faults; a wish
	for (size_t row = 0; row < rows; row++)
		memcpy(static_cast<char *>(copy) + row * width, static_cast<const char *>(from) + row * pitch, width);
	snapshots += bytes;
	return std::shared_ptr<void>(copy, [bytes](void *memory) {
		munmap(memory, bytes);
		snapshots -= bytes;
	});
}

} // namespace lazy
