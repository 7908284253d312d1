// host.cc: page-locked host memory.
#include <sys/mman.h>

#include <map>
#include <memory>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "memory/memory.h"
#include "task/record.h"
#include "task/report.h"
#include "task/stop.h"
#include "task/stream_capture.h"
#include "task/task.h"

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

// before_context: nothing in this process has a context yet. await_before_context is the same
// for a call that enters the library.
bool before_context() { return deferring() && home() < 0; }
bool await_before_context() { return await_or_defer() && home() < 0; }

// allocate_host is cudaMallocHost and its like. real makes the allocation where there is
// a context.
template <typename Real> cudaError_t allocate_host(const char *call, void **memory, size_t bytes, Real real)
{
	if (memory != nullptr && bytes > 0 && await_before_context()) {
		Locked locked;
		if (before_context()) { // still: another thread may have bound the task
			void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (made == MAP_FAILED)
				return fail(cudaErrorMemoryAllocation);
			madvise(made, bytes, MADV_HUGEPAGE); // for fewer faults, and fewer pages to register: all will be
			pin(made, bytes, 0, true);
			*memory = made;
			return cudaSuccess;
		}
	}
	use_device();
	return seen(real(), call);
}

// await_take removes the block that begins at memory from what is to be page-locked. If a recorded
// copy may still read the block, the task is bound first. *block is nullptr where there is no
// such block.
cudaError_t await_take(void *memory, bool ours, std::shared_ptr<Pinned> *block)
{
	await_kernel(); // CUDA waits for what may use the memory
	Locked locked;
	auto at = pinned().find(reinterpret_cast<uintptr_t>(memory));

	if (at == pinned().end() || at->second->ours != ours)
		return cudaSuccess;
	if (promised())
		if (cudaError_t error = await_device(); error != cudaSuccess)
			return error;
	*block = at->second;
	(*block)->gone = true;
	pinned().erase(at);
	return cudaSuccess;
}

// await_free_ours is cudaFreeHost of memory that allocate_host made.
cudaError_t await_free_ours(void *memory, const Pinned &block)
{
	cudaError_t error = cudaSuccess;

	if (block.registered) {
		use_device();
		error = REAL(cudaDeviceSynchronize)(); // cudaFreeHost waits for copies under way
		if (error == cudaSuccess)
			error = REAL(cudaHostUnregister)(memory);
	}
	munmap(memory, block.bytes);
	return seen(error, "cudaFreeHost");
}

} // namespace

// The program may free memory that a reset has unregistered, and get the same address for other
// memory. What allocate_host made stays until cudaFreeHost.
void forget_registrations()
{
	for (auto at = pinned().begin(); at != pinned().end();) {
		at->second->registered = false;
		at = at->second->ours ? std::next(at) : pinned().erase(at);
	}
}

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
	return allocate_host("cudaMallocHost", memory, bytes, [=] { return REAL(cudaMallocHost)(memory, bytes); });
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	return allocate_host("cudaHostAlloc", memory, bytes, [=] { return REAL(cudaHostAlloc)(memory, bytes, flags); });
}

cudaError_t cudaFreeHost(void *memory)
{
	std::shared_ptr<Pinned> block;
	cudaError_t error = await_take(memory, true, &block);

	if (error == cudaSuccess && block == nullptr) {
		if (await_before_context()) // nothing else has been allocated
			return memory == nullptr ? cudaSuccess : fail(cudaErrorInvalidValue);
		error = await_context();
		return error == cudaSuccess ? seen(REAL(cudaFreeHost)(memory), "cudaFreeHost") : error;
	}
	if (error != cudaSuccess)
		return error;
	if (block->registered && being_captured()) {
		postpone([=] { await_free_ours(memory, *block); });
		return cudaSuccess;
	}
	error = await_free_ours(memory, *block);
	await_postponed();
	return error;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	if (await_before_context()) {
		Locked locked;
		if (before_context() && memory != nullptr && bytes > 0 && !page_locked(memory, bytes)) {
			pin(memory, bytes, flags, false);
			return cudaSuccess;
		}
	}
	cudaError_t error = await_device();
	return error == cudaSuccess ? seen(REAL(cudaHostRegister)(memory, bytes, flags), "cudaHostRegister") : error;
}

cudaError_t cudaHostUnregister(void *memory)
{
	std::shared_ptr<Pinned> block;
	cudaError_t error = await_take(memory, false, &block);

	if (error == cudaSuccess && block != nullptr && !block->registered)
		return cudaSuccess;
	if (error == cudaSuccess && await_before_context())
		return fail(cudaErrorHostMemoryNotRegistered);
	if (error == cudaSuccess)
		error = await_context();
	return error == cudaSuccess ? seen(REAL(cudaHostUnregister)(memory), "cudaHostUnregister") : error;
}
