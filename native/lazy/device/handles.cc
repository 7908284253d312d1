// handles.cc: streams and events that exist before their device does.
//
// Such a virtual handle is an address in a range of its own, which holds zeros. So its value alone
// tells it from CUDA's handles, and CUDA finds no valid handle there. Every overridden or forwarded
// call passes the real handle to CUDA. A program that makes other calls gets no virtual handles,
// because it is not self-contained.
#include <sys/mman.h>

#include <atomic>

#include "device.h"
#include "handles.h"

namespace lazy {

static const size_t handles = 4096, spacing = 64; // bytes between two handles

static std::atomic<uintptr_t> range; // 0: none yet
static std::atomic<void *> real_of[handles];
static std::atomic<bool> destroyed[handles]; // by the program, or by a reset
static size_t used;

static bool index_of(const void *handle, size_t *index)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(handle), first = range.load(std::memory_order_acquire);

	if (first == 0 || at < first || at >= first + handles * spacing)
		return false;
	*index = (at - first) / spacing;
	return true;
}

bool is_virtual(const void *handle)
{
	size_t index;
	return index_of(handle, &index);
}

// A handle that was never made stays as it is: it must not become the default stream.
void *real_handle(void *maybe)
{
	size_t index;
	void *made = index_of(maybe, &index) ? real_of[index].load(std::memory_order_acquire) : nullptr;
	return made != nullptr ? made : maybe;
}

bool only_recorded(const void *handle)
{
	size_t index;
	return index_of(handle, &index) && real_of[index].load() == nullptr;
}

bool gone(const void *handle)
{
	size_t index;
	return index_of(handle, &index) && destroyed[index];
}

bool may_exist(const void *handle) { return is_virtual(handle) ? !gone(handle) : handle != nullptr && home() >= 0; }

void destroy(const void *handle)
{
	size_t index;
	if (index_of(handle, &index))
		destroyed[index].store(true);
}

cudaStream_t real(cudaStream_t stream) { return static_cast<cudaStream_t>(real_handle(stream)); }
cudaEvent_t real(cudaEvent_t event) { return static_cast<cudaEvent_t>(real_handle(event)); }

void *new_handle()
{
	if (range == 0) {
		void *made = mmap(nullptr, handles * spacing, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (made == MAP_FAILED)
			return nullptr;
		range = reinterpret_cast<uintptr_t>(made);
	}
	return used < handles ? reinterpret_cast<void *>(range + spacing * used++) : nullptr;
}

void set_real(void *handle, void *made)
{
	size_t index;
	if (index_of(handle, &index))
		real_of[index].store(made, std::memory_order_release);
}

void forget_handles()
{
	for (size_t i = 0; i < used; i++)
		destroyed[i].store(true);
}

} // namespace lazy
