// swap.cc: see swap.h.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <vector>

#include "memory.h"
#include "real.h"
#include "swap.h"

extern "C" CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *memory, void *file, int type);

namespace lazy {

static const size_t granule = 2 << 20;

enum { file_descriptor = 1 }; // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static std::atomic<size_t> chunk_bytes{largest_chunk};

size_t movable_chunk() { return chunk_bytes; }

bool use_chunks(uint64_t bytes)
{
	if (bytes == chunk_bytes)
		return true;
	const bool possible = bytes >= granule && bytes <= largest_chunk && (bytes & (bytes - 1)) == 0;
	if (possible && resident_bytes() + away_bytes() == 0)
		chunk_bytes = bytes;
	return bytes == chunk_bytes;
}

using Chunks = std::vector<std::unique_ptr<HostChunk>>;

// Offered are chunks that came unasked, and are not among the unused ones yet.
static struct {
	pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; // held during calls of the driver, and guards `over`
	bool over = false;                                  // the process is ending, and the driver with it
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the chunks
	Chunks *chunks = nullptr;                           // nullptr: none; made once, and outlives static destructors
} offered;

// take_offered adds the offered chunks to some.
static void take_offered(Chunks &to)
{
	pthread_mutex_lock(&offered.mutex);
	if (offered.chunks != nullptr) {
		std::move(offered.chunks->begin(), offered.chunks->end(), std::back_inserter(to));
		offered.chunks->clear();
	}
	pthread_mutex_unlock(&offered.mutex);
}

static Chunks &unused()
{
	static Chunks *const all = new Chunks;
	take_offered(*all);
	return *all;
}

static const size_t reached_at_once = 8; // chunks

// reach lets the device reach the last chunk, and with it those before that lie beside it.
static bool reach(Chunks::reverse_iterator last, Chunks::reverse_iterator end, int device)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const CUdeviceptr window = (*last)->window;
	size_t count = 0;

	if ((*last)->device == device)
		return true;
	for (auto c = last; c != end && count < reached_at_once && (*c)->device != device && (*c)->window == window + count * movable_chunk(); ++c)
		count++;
	if (driver()->set_access(window, count * movable_chunk(), &access, 1) != CUDA_SUCCESS)
		return false;
	std::for_each(last, last + static_cast<ptrdiff_t>(count), [=](const auto &c) { c->device = device; });
	return true;
}

// import makes chunks of descriptors, which stay the caller's. Their windows lie side by side, that of the last chunk first.
static Chunks import(const client_space &space)
{
	const Driver *d = driver();
	const auto from_file = REAL_DRIVER(cuMemImportFromShareableHandle);
	const size_t count = static_cast<size_t>(space.file_count);
	Chunks made;
	CUdeviceptr window;

	if (from_file == nullptr || d->reserve(&window, count * movable_chunk(), 0, 0, 0) != CUDA_SUCCESS)
		return made;
	for (size_t i = count; i-- > 0;) {
		auto chunk = std::make_unique<HostChunk>();
		if (from_file(&chunk->memory, reinterpret_cast<void *>(static_cast<intptr_t>(space.files[i])), file_descriptor) != CUDA_SUCCESS)
			continue;
		chunk->window = window + i * movable_chunk();
		chunk->device = -1;
		if (d->map(chunk->window, movable_chunk(), 0, chunk->memory, 0) == CUDA_SUCCESS)
			made.push_back(std::move(chunk));
		else
			d->release(chunk->memory);
	}
	return made;
}

static void await_more(size_t chunks)
{
	client_space space = {};

	if (!client_await_swap((chunks < CASE_WIRE_FILES ? chunks : CASE_WIRE_FILES) * movable_chunk(), &space))
		return;
	Chunks made = import(space);
	std::move(made.begin(), made.end(), std::back_inserter(unused()));
	std::for_each(space.files, space.files + space.file_count, close);
}

// end_offers waits for what is under way: no call of the driver may be when the driver's own handlers run.
static void end_offers()
{
	pthread_mutex_lock(&offered.making);
	offered.over = true;
	pthread_mutex_unlock(&offered.making);
}

void offer_host_chunks(const client_space &space, int device)
{
	static const bool ends = atexit(end_offers) == 0;
	Chunks made;

	pthread_mutex_lock(&offered.making);
	if (ends && !offered.over)
		made = import(space);
	for (auto last = made.rbegin(); last != made.rend() && reach(last, made.rend(), device); ++last)
		;
	pthread_mutex_unlock(&offered.making);
	pthread_mutex_lock(&offered.mutex);
	if (offered.chunks == nullptr)
		offered.chunks = new Chunks;
	std::move(made.begin(), made.end(), std::back_inserter(*offered.chunks));
	pthread_mutex_unlock(&offered.mutex);
}

void renew_offered()
{
	pthread_mutex_init(&offered.making, nullptr);
	pthread_mutex_init(&offered.mutex, nullptr);
	offered.chunks = nullptr; // another thread may have been in the middle of a change
}

HostChunk *await_host_chunk(int device, size_t more)
{
	if (unused().size() < 2)
		await_more(more + 1 - unused().size());
	return unused_host_chunk(device);
}

HostChunk *unused_host_chunk(int device)
{
	Chunks &all = unused();

	if (all.empty() || !reach(all.rbegin(), all.rend(), device))
		return nullptr;
	HostChunk *const chunk = all.back().release();
	all.pop_back();
	return chunk;
}

bool has_unused_host_chunk() { return !unused().empty(); }

void give_host_chunk(HostChunk *chunk) { unused().emplace_back(chunk); }

} // namespace lazy
