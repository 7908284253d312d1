// calls_host.cc: page-locked host memory.
#include <sys/mman.h>

#include "api.h"
#include "runtime.h"

namespace lazy {
namespace {

// Host memory that the program asked to be page-locked before there was a
// context: ordinary memory until the process binds.
struct Pinned {
	size_t bytes;
	unsigned flags;
	bool ours, registered, gone;
};

std::map<uintptr_t, std::shared_ptr<Pinned>> &pinned()
{
	static auto *const all = new std::map<uintptr_t, std::shared_ptr<Pinned>>;
	return *all;
}

void pin(void *memory, size_t bytes, unsigned flags, bool ours)
{
	auto block = std::make_shared<Pinned>(Pinned{bytes, flags, ours, false, false});

	pinned()[reinterpret_cast<uintptr_t>(memory)] = block;
	record_kept("cudaHostRegister", [memory, block] {
		if (block->gone)
			return cudaSuccess;
		unsigned flags = block->flags | (block->ours ? cudaHostRegisterPortable | cudaHostRegisterMapped : 0u);
		cudaError_t error = REAL(cudaHostRegister)(memory, block->bytes, flags);
		block->registered = error == cudaSuccess;
		if (error != cudaSuccess)
			REAL(cudaGetLastError)(); // it stays ordinary memory, which only costs speed
		return cudaSuccess;
	});
}

// before_context: nothing in this process has a context yet.
bool before_context() { return deferring() && home() < 0; }

cudaError_t allocate_host(void **memory, size_t bytes, unsigned flags)
{
	Locked locked;
	void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		return fail(cudaErrorMemoryAllocation);
	madvise(made, bytes, MADV_HUGEPAGE); // for fewer faults, and fewer pages to register: all will be
	pin(made, bytes, flags, true);
	*memory = made;
	return cudaSuccess;
}

} // namespace

bool page_locked(const void *memory, size_t bytes)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(memory);
	auto after = pinned().upper_bound(at);

	if (after == pinned().begin())
		return false;
	auto &block = *std::prev(after);
	return at - block.first < block.second->bytes && bytes <= block.second->bytes - (at - block.first);
}

} // namespace lazy

using namespace lazy;

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
	if (memory != nullptr && bytes > 0 && before_context())
		return allocate_host(memory, bytes, 0);
	use_device();
	return seen(REAL(cudaMallocHost)(memory, bytes), "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	if (memory != nullptr && bytes > 0 && before_context())
		return allocate_host(memory, bytes, 0);
	use_device();
	return seen(REAL(cudaHostAlloc)(memory, bytes, flags), "cudaHostAlloc");
}

cudaError_t cudaFreeHost(void *memory)
{
	{
		Locked locked;
		auto at = pinned().find(reinterpret_cast<uintptr_t>(memory));
		if (at != pinned().end() && at->second->ours) {
			if (promised()) // a recorded copy still reads it
				if (cudaError_t error = enter(); error != cudaSuccess)
					return error;
			cudaError_t error = cudaSuccess;
			if (at->second->registered) {
				use_device();
				error = REAL(cudaDeviceSynchronize)(); // cudaFreeHost waits for copies under way
				if (error == cudaSuccess)
					error = REAL(cudaHostUnregister)(memory);
			}
			at->second->gone = true;
			munmap(memory, at->second->bytes);
			pinned().erase(at);
			return seen(error, "cudaFreeHost");
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaFreeHost)(memory), "cudaFreeHost") : error;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	{
		Locked locked;
		if (before_context() && memory != nullptr && bytes > 0 && !page_locked(memory, bytes)) {
			pin(memory, bytes, flags, false);
			return cudaSuccess;
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaHostRegister)(memory, bytes, flags), "cudaHostRegister") : error;
}

cudaError_t cudaHostUnregister(void *memory)
{
	{
		Locked locked;
		auto at = pinned().find(reinterpret_cast<uintptr_t>(memory));
		if (at != pinned().end() && !at->second->ours) {
			if (promised())
				if (cudaError_t error = enter(); error != cudaSuccess)
					return error;
			use_device();
			cudaError_t error = at->second->registered ? REAL(cudaHostUnregister)(memory) : cudaSuccess;
			at->second->gone = true;
			pinned().erase(at);
			return seen(error, "cudaHostUnregister");
		}
	}
	cudaError_t error = enter();
	return error == cudaSuccess ? seen(REAL(cudaHostUnregister)(memory), "cudaHostUnregister") : error;
}
