// handles.cc: streams and events behind handles of the library's own.
//
// Such a virtual handle can exist before its device does, and what is behind it can be made again. It is an address
// in a range of its own, which holds zeros. So its value alone tells it from CUDA's handles, and CUDA finds no valid
// handle there. Every overridden or forwarded call passes the real handle to CUDA. A program that makes other calls
// gets no virtual handles, because it is not self-contained.
#include <sys/mman.h>

#include <atomic>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device.h"
#include "handles.h"

namespace lazy {
namespace {

const size_t most = 1 << 22, spacing = 64; // handles at once, and bytes between two
const size_t rest = 4096;                  // so many others are given out before a handle is again

enum State : unsigned char { unused, alive, ended }; // ended: by the program, and the record may still name it

struct Slot {
	std::atomic<void *> made; // what CUDA knows it as; nullptr: it is to be made
	Recipe recipe;
	uint32_t next; // unused slot
	std::atomic<State> state;
};

std::atomic<uintptr_t> range; // 0: none yet
Slot *slots;
size_t used; // slots that were ever in use
size_t to_make;
uint32_t oldest, newest, resting; // the queue of unused slots, and its length

Slot *slot_of(const void *handle)
{
	const uintptr_t at = reinterpret_cast<uintptr_t>(handle), first = range.load(std::memory_order_acquire);

	return first == 0 || at - first >= most * spacing ? nullptr : slots + (at - first) / spacing;
}

// map_slots takes addresses. Memory is behind those that are used.
bool map_slots()
{
	const auto map = [](size_t bytes, int access) {
		return mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	};
	if (range != 0)
		return true;
	void *const all = map(most * sizeof(Slot), PROT_READ | PROT_WRITE);
	if (all == MAP_FAILED)
		return false;
	void *const handles = map(most * spacing, PROT_READ);
	if (handles == MAP_FAILED) {
		munmap(all, most * sizeof(Slot));
		return false;
	}
	slots = static_cast<Slot *>(all);
	range.store(reinterpret_cast<uintptr_t>(handles), std::memory_order_release);
	return true;
}

// take_slot is an unused slot. One that was in use rests first, so that its handle is refused for long.
Slot *take_slot()
{
	if (!map_slots())
		return nullptr;
	if (used < most && resting < rest)
		return slots + used++;
	if (resting == 0)
		return nullptr;
	Slot *const s = slots + oldest;
	oldest = s->next;
	resting--;
	return s;
}

void give_back(Slot *s)
{
	if (s->state == unused)
		return;
	if (s->made.exchange(nullptr) == nullptr)
		to_make--;
	s->state = unused;
	const auto index = static_cast<uint32_t>(s - slots);
	(resting++ == 0 ? oldest : slots[newest].next) = index;
	newest = index;
}

} // namespace

cudaError_t make_real(const Recipe &recipe, void **made)
{
	if (recipe.kind == Recipe::event)
		return REAL(cudaEventCreateWithFlags)(reinterpret_cast<cudaEvent_t *>(made), recipe.flags);
	return REAL(cudaStreamCreateWithPriority)(reinterpret_cast<cudaStream_t *>(made), recipe.flags, recipe.priority);
}

void unmake_real(const Recipe &recipe, void *made)
{
	if (recipe.kind == Recipe::event)
		REAL(cudaEventDestroy)(static_cast<cudaEvent_t>(made));
	else
		REAL(cudaStreamDestroy)(static_cast<cudaStream_t>(made));
}

bool is_virtual(const void *handle) { return slot_of(handle) != nullptr; }

// A handle that is not made stays as it is: it must not become the default stream.
void *real_handle(void *maybe)
{
	const Slot *const s = slot_of(maybe);
	void *const made = s != nullptr ? s->made.load(std::memory_order_acquire) : nullptr;
	return made != nullptr ? made : maybe;
}

cudaStream_t real(cudaStream_t stream) { return static_cast<cudaStream_t>(real_handle(stream)); }
cudaEvent_t real(cudaEvent_t event) { return static_cast<cudaEvent_t>(real_handle(event)); }

cudaEvent_t shown(cudaEvent_t told)
{
	Locked locked;

	for (size_t i = 0; told != nullptr && i < used; i++)
		if (slots[i].made == told)
			return reinterpret_cast<cudaEvent_t>(range + spacing * i);
	return told;
}

bool unmade(const void *handle)
{
	const Slot *const s = slot_of(handle);
	return s != nullptr && s->made == nullptr;
}

bool gone(const void *handle)
{
	const Slot *const s = slot_of(handle);
	return s != nullptr && s->state.load(std::memory_order_relaxed) != alive;
}

bool may_exist(const void *handle) { return is_virtual(handle) ? !gone(handle) : handle != nullptr && home() >= 0; }

void *new_handle(const Recipe &recipe, void *made)
{
	Locked locked;
	Slot *const s = take_slot();

	if (s == nullptr)
		return nullptr;
	if (made == nullptr)
		to_make++;
	s->recipe = recipe;
	s->made.store(made, std::memory_order_release);
	s->state = alive;
	return reinterpret_cast<void *>(range + spacing * static_cast<size_t>(s - slots));
}

cudaError_t make_handles(const char **call)
{
	Locked locked;
	cudaError_t first = cudaSuccess;

	for (size_t i = 0; to_make > 0 && i < used; i++) {
		Slot &s = slots[i];
		void *made = nullptr;
		if (s.state == unused || s.made != nullptr)
			continue;
		const cudaError_t error = make_real(s.recipe, &made);
		if (error == cudaSuccess) {
			s.made.store(made, std::memory_order_release);
			to_make--;
			continue;
		}
		give_back(&s);
		if (first == cudaSuccess) {
			first = error;
			*call = s.recipe.kind == Recipe::event ? "cudaEventCreate" : "cudaStreamCreate";
		}
	}
	return first;
}

bool end_handle(const void *handle)
{
	Slot *const s = slot_of(handle);
	State was = alive;

	return s != nullptr ? s->state.compare_exchange_strong(was, ended) : may_exist(handle);
}

void keep_handle(const void *handle)
{
	if (Slot *const s = slot_of(handle); s != nullptr)
		s->state = alive;
}

void forget_handle(const void *handle)
{
	Locked locked;

	if (Slot *const s = slot_of(handle); s != nullptr)
		give_back(s);
}

void forget_handles()
{
	Locked locked;

	for (size_t i = 0; i < used; i++)
		give_back(slots + i);
}

} // namespace lazy
