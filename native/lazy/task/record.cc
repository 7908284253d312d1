// record.cc: the calls that the program made before it had a device, in order.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "record.h"
#include "report.h"
#include "task.h"

extern "C" cudaError_t cudaDeviceSynchronize(void);

namespace lazy {

struct Recorded {
	const char *call;
	Operation run;
	bool kept, waits;
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

// A wait is left out where nothing, or another wait, comes before it.
static void append(std::vector<Recorded> &all, Recorded r)
{
	if (!r.waits || (!all.empty() && !all.back().waits))
		all.push_back(std::move(r));
}

void record(const char *call, Operation run, std::initializer_list<Allocation *> touches)
{
	Recorded r = {call, std::move(run), false, false, pthread_self(), {}};

	for (Allocation *a : touches) {
		a->recorded++;
		r.touches.push_back(a->base);
	}
	append(log(), std::move(r));
}

void record_kept(const char *call, Operation run)
{
	append(log(), {call, std::move(run), true, false, pthread_self(), {}});
}

void record_wait()
{
	const char *const call = "cudaDeviceSynchronize";

	append(log(), {call, [] { return REAL(cudaDeviceSynchronize)(); }, true, true, pthread_self(), {}});
}

bool recorded()
{
	Locked locked;
	return !log().empty();
}

static void let_go(const std::vector<uintptr_t> &touches)
{
	for (uintptr_t base : touches)
		if (Allocation *a = recorded_at(base))
			release_recorded(a);
}

static void forget_unread(const Allocation &a)
{
	const auto fills = [&](const Recorded &r) { return !r.touches.empty() && r.touches.front() == a.base; };
	std::vector<Recorded> left, gone;

	for (const Recorded &r : log())
		if (!r.touches.empty() && std::find(r.touches.begin() + 1, r.touches.end(), a.base) != r.touches.end())
			return;
	for (Recorded &r : log())
		if (fills(r))
			gone.push_back(std::move(r));
		else
			append(left, std::move(r));
	log().swap(left);
	for (const Recorded &r : gone) {
		let_go(r.touches);
		for (uintptr_t base : r.touches)
			if (const Allocation *read = recorded_at(base); read != nullptr && read->freed)
				forget_unread(*read);
	}
}

void drop_allocation(const void *address)
{
	Locked locked;
	const Allocation *recorded = nullptr;

	if (!drop(address, &recorded))
		return;
	if (recorded != nullptr)
		forget_unread(*recorded);
	Task::process().count(-1, 0);
}

void drop_retired_allocation(uintptr_t base)
{
	Locked locked;
	drop_retired(base);
	Task::process().count(-1, 0);
}

cudaError_t await_replay()
{
	cudaError_t first = cudaSuccess;
	std::vector<Recorded> operations;
	bool of_others = false;
	const auto note = [&](cudaError_t result, const char *call) {
		const cudaError_t error = seen(result, call);
		if (error == cudaSuccess)
			return;
		failed_replay(error, call);
		if (first == cudaSuccess && (error == cudaErrorMemoryAllocation || stays(error)))
			first = error;
	};

	const char *refused = "";
	const cudaError_t made = make_handles(&refused);
	note(made, refused);
	operations.swap(log());
	for (Recorded &r : operations) {
		of_others = of_others || !pthread_equal(r.by, pthread_self());
		note(r.run(), r.call);
	}
	for (const Recorded &r : operations)
		let_go(r.touches);
	by_reference = false;
	// A wait keeps the order of operations in the default stream of another thread.
	if (first == cudaSuccess && of_others)
		first = seen(REAL(cudaDeviceSynchronize)(), "cudaDeviceSynchronize");
	return first;
}

void forget_record()
{
	std::vector<Recorded> operations, kept;

	operations.swap(log());
	for (Recorded &r : operations)
		if (r.kept)
			append(kept, std::move(r));
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

// What a snapshot takes of the limit. A large one has whole pages. A small one is on the heap,
// where a recorded operation takes several times as much as its few bytes.
static const size_t page = 4096, operation = 512; // bytes
static size_t taken(size_t bytes) { return bytes < page ? bytes + operation : (bytes + page - 1) / page * page; }

static void *make_room(size_t bytes)
{
	if (bytes < page)
		return malloc(bytes);
	void *room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		return nullptr;
	madvise(room, bytes, MADV_HUGEPAGE); // fewer page faults; a wish
	return room;
}

std::shared_ptr<void> snapshot(const void *from, size_t width, size_t pitch, size_t rows)
{
	const size_t bytes = width * rows;

	if (bytes > record_limit() || snapshots + taken(bytes) > record_limit())
		return nullptr;
	void *copy = make_room(bytes);
	if (copy == nullptr)
		return nullptr;
	for (size_t row = 0; row < rows; row++)
		memcpy(static_cast<char *>(copy) + row * width, static_cast<const char *>(from) + row * pitch, width);
	snapshots += taken(bytes);
	return std::shared_ptr<void>(copy, [bytes](void *memory) {
		if (bytes < page)
			free(memory);
		else
			munmap(memory, bytes);
		snapshots -= taken(bytes);
	});
}

} // namespace lazy
