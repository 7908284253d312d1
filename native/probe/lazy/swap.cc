// swap.cc: see swap.h.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "../client.h"
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

static std::vector<std::unique_ptr<HostChunk>> &unused()
{
	static auto *const all = new std::vector<std::unique_ptr<HostChunk>>; // outlives static destructors
	return *all;
}

static bool reach(HostChunk &chunk, int device)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	if (chunk.device != device && driver()->set_access(chunk.window, movable_chunk(), &access, 1) != CUDA_SUCCESS)
		return false;
	chunk.device = device;
	return true;
}

// import makes a chunk of a descriptor, which stays the caller's.
static std::unique_ptr<HostChunk> import(int file)
{
	const Driver *d = driver();
	const auto from_file = REAL_DRIVER(cuMemImportFromShareableHandle);
	auto chunk = std::make_unique<HostChunk>();

	chunk->device = -1;
	if (from_file == nullptr || from_file(&chunk->memory, reinterpret_cast<void *>(static_cast<intptr_t>(file)), file_descriptor) != CUDA_SUCCESS)
		return nullptr;
	if (d->reserve(&chunk->window, movable_chunk(), 0, 0, 0) == CUDA_SUCCESS) {
		if (d->map(chunk->window, movable_chunk(), 0, chunk->memory, 0) == CUDA_SUCCESS)
			return chunk;
		d->unreserve(chunk->window, movable_chunk());
	}
	d->release(chunk->memory);
	return nullptr;
}

static void await_more(size_t chunks)
{
	client_space space = {};

	if (!client_await_swap((chunks < CASE_WIRE_FILES ? chunks : CASE_WIRE_FILES) * movable_chunk(), &space))
		return;
	for (int i = 0; i < space.file_count; i++) {
		if (auto chunk = import(space.files[i]); chunk != nullptr)
			unused().push_back(std::move(chunk));
		close(space.files[i]);
	}
}

HostChunk *await_host_chunk(int device, size_t more)
{
	if (unused().size() < 2)
		await_more(more + 1 - unused().size());
	return unused_host_chunk(device);
}

HostChunk *unused_host_chunk(int device)
{
	if (unused().empty() || !reach(*unused().back(), device))
		return nullptr;
	HostChunk *const chunk = unused().back().release();
	unused().pop_back();
	return chunk;
}

bool has_unused_host_chunk() { return !unused().empty(); }

void give_host_chunk(HostChunk *chunk) { unused().emplace_back(chunk); }

} // namespace lazy
