// swap.cc: see swap.h.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <vector>

#include "abi/symbols.h"
#include "device/driver.h"
#include "device/serving.h"
#include "memory.h"
#include "swap.h"

extern "C" CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *memory, void *file, int type);

namespace lazy {

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

static const size_t reached_at_once = 8; // chunks

// Offered are chunks that came unasked, in the order of the offers. The scheduler can have them back until they are among
// the unused ones.
static struct {
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	Chunks *chunks = nullptr; // nullptr: none; made once, and outlives static destructors
	uint64_t used = 0;        // bytes, from the beginning of all that was offered, that are not to go back
} offered;

// use_offered takes the first offered chunks, as many as are reached at once.
static void use_offered(Chunks &to)
{
	pthread_mutex_lock(&offered.mutex);
	if (offered.chunks != nullptr && !offered.chunks->empty()) {
		const auto first = offered.chunks->begin(), last = first + static_cast<ptrdiff_t>(std::min(offered.chunks->size(), reached_at_once));
		offered.used = last[-1]->offer_end;
		std::move(std::make_reverse_iterator(last), std::make_reverse_iterator(first), std::back_inserter(to));
		offered.chunks->erase(first, last);
	}
	pthread_mutex_unlock(&offered.mutex);
}

// unused is at least so many chunks, if as many are there or were offered. The last is taken first.
static Chunks &unused(size_t wanted = 0)
{
	static Chunks *const all = new Chunks;
	if (all->size() < wanted)
		use_offered(*all);
	return *all;
}

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

Windows::~Windows()
{
	if (bytes > 0)
		driver()->unreserve(first, bytes);
}

// import makes chunks of descriptors, which stay the caller's. Their windows lie side by side, that of the last chunk first.
static Chunks import(const client_space &space)
{
	const Driver *d = driver();
	const auto from_file = REAL_DRIVER(cuMemImportFromShareableHandle);
	const size_t count = static_cast<size_t>(space.file_count);
	const auto windows = std::make_shared<Windows>();
	Chunks made;

	if (from_file == nullptr || d->reserve(&windows->first, count * movable_chunk(), 0, 0, 0) != CUDA_SUCCESS)
		return made;
	windows->bytes = count * movable_chunk();
	for (size_t i = count; i-- > 0;) {
		auto chunk = std::make_unique<HostChunk>();
		if (from_file(&chunk->memory, reinterpret_cast<void *>(static_cast<intptr_t>(space.files[i])), file_descriptor) != CUDA_SUCCESS)
			continue;
		chunk->windows = windows;
		chunk->window = windows->first + i * movable_chunk();
		chunk->device = -1;
		chunk->offer_end = space.offset + (i + 1) * movable_chunk();
		if (d->map(chunk->window, movable_chunk(), 0, chunk->memory, 0) == CUDA_SUCCESS)
			made.push_back(std::move(chunk));
		else
			d->release(chunk->memory);
	}
	return made;
}

static bool await_space(uint64_t bytes, client_space *space)
{
	const AwaitsScheduler awaits;
	return client_await_swap(bytes, space);
}

static void await_more(size_t chunks)
{
	client_space space = {};

	if (!await_space((chunks < CASE_WIRE_FILES ? chunks : CASE_WIRE_FILES) * movable_chunk(), &space))
		return;
	Chunks made = import(space);
	std::move(made.begin(), made.end(), std::back_inserter(unused()));
	std::for_each(space.files, space.files + space.file_count, close);
}

void offer_host_chunks(const client_space &space, int device)
{
	const Serving serving;
	Chunks made;

	if (serving.exits)
		return;
	made = import(space);
	for (auto last = made.rbegin(); last != made.rend() && reach(last, made.rend(), device); ++last)
		;
	pthread_mutex_lock(&offered.mutex);
	if (offered.chunks == nullptr)
		offered.chunks = new Chunks;
	std::move(made.rbegin(), made.rend(), std::back_inserter(*offered.chunks));
	pthread_mutex_unlock(&offered.mutex);
}

// swap_offered changes what is offered for other chunks, and returns how much is used of all that was offered.
static uint64_t swap_offered(Chunks &chunks)
{
	pthread_mutex_lock(&offered.mutex);
	if (offered.chunks != nullptr)
		offered.chunks->swap(chunks);
	const uint64_t used = offered.used;
	pthread_mutex_unlock(&offered.mutex);
	return used;
}

// What the driver does not unmap stays in use.
uint64_t return_offered()
{
	const Serving serving;
	Chunks chunks;

	uint64_t kept = swap_offered(chunks);
	while (!serving.exits && !chunks.empty() && driver()->unmap(chunks.back()->window, movable_chunk()) == CUDA_SUCCESS) {
		driver()->release(chunks.back()->memory);
		chunks.pop_back();
	}
	if (!chunks.empty()) {
		kept = chunks.back()->offer_end;
		swap_offered(chunks);
	}
	return kept;
}

void renew_offered()
{
	pthread_mutex_init(&offered.mutex, nullptr);
	offered.chunks = nullptr; // another thread may have been in the middle of a change
	offered.used = 0;
}

HostChunk *await_host_chunk(int device, size_t more)
{
	if (const size_t left = unused(2).size(); left < 2)
		await_more(more + 1 - left);
	return unused_host_chunk(device);
}

HostChunk *unused_host_chunk(int device)
{
	Chunks &all = unused(1);

	if (all.empty() || !reach(all.rbegin(), all.rend(), device))
		return nullptr;
	HostChunk *const chunk = all.back().release();
	all.pop_back();
	return chunk;
}

bool has_unused_host_chunk() { return !unused(1).empty(); }

void give_host_chunk(HostChunk *chunk) { unused().emplace_back(chunk); }

} // namespace lazy
