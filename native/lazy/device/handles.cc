// handles.cc: streams and events behind handles of the library's own.
//
// Such a virtual handle can exist before its device does, and what is behind it can be made again. It is an address
// in a range of its own, which holds zeros. So its value alone tells it from CUDA's handles, and CUDA finds no valid
// handle there. Every overridden or forwarded call passes the real handle to CUDA. A program that makes other calls
// gets no virtual handles, because it is not self-contained.
#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <utility>
#include <vector>

#include "abi/api.h"
#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device.h"
#include "handles.h"

namespace lazy {
namespace {

const size_t most = 1 << 22, spacing = 64; // handles at once, and bytes between two
const size_t rest = 4096;                  // so many others are given out before a handle is again

enum State : unsigned char { unused, alive, ended }; // ended: by the program, and the record may still name it

using OnDevices = std::vector<std::pair<int, void *>>; // what CUDA knows it as, by ordinal

struct Slot {
	std::atomic<void *> made; // what CUDA knows it as; nullptr: it is to be made
	Recipe recipe;
	uint32_t next; // unused slot
	std::atomic<State> state;
	std::atomic<unsigned> recorded; // device_epoch() when the event was recorded last; 0: never
	double at_ms;                   // then, if the process has moved since; NaN: CUDA does not tell
	OnDevices *former;              // on devices that the process has left; nullptr: none
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
	delete std::exchange(s->former, nullptr);
	s->recorded = 0;
	s->state = unused;
	const auto index = static_cast<uint32_t>(s - slots);
	(resting++ == 0 ? oldest : slots[newest].next) = index;
	newest = index;
}

// Moment is an event of a device that is reached, and when that was.
struct Moment {
	cudaEvent_t event = nullptr; // nullptr: CUDA refuses
	double at_ms = 0;
};

Moment arrival; // on the device to which the process has moved last

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

// A move leaves a handle alone that has ended.
bool end_handle(const void *handle)
{
	Locked locked;
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

	Slot *const s = slot_of(handle);
	if (s == nullptr)
		return;
	if (s->former != nullptr)
		for (const auto &there : *s->former)
			unmake_real(s->recipe, there.second);
	give_back(s);
}

void forget_handles()
{
	Locked locked;

	for (size_t i = 0; i < used; i++)
		give_back(slots + i);
	arrival = {}; // which has gone with its context
}

// ---- moves

// Remade is what is to be a handle's real one.
struct Remade {
	Slot *slot;
	void *made;
	bool made_now;
};

static std::vector<Remade> &remade()
{
	static auto *const all = new std::vector<Remade>;
	return *all;
}

// former_on is what the handle was on a device; nullptr: nothing.
static void *former_on(Slot &s, int device)
{
	if (s.former != nullptr)
		for (const auto &there : *s.former)
			if (there.first == device)
				return there.second;
	return nullptr;
}

bool remake_handles(int to)
{
	for (size_t i = 0; i < used; i++) {
		Slot &s = slots[i];
		if (s.state != alive || s.made == nullptr)
			continue;
		void *made = former_on(s, to);
		const bool missing = made == nullptr;
		if (missing && make_real(s.recipe, &made) != cudaSuccess)
			return false;
		remade().push_back({&s, made, missing});
	}
	return true;
}

void drop_remade()
{
	for (const Remade &r : remade())
		if (r.made_now)
			unmake_real(r.slot->recipe, r.made);
	remade().clear();
}

void switch_handles(int from)
{
	for (const Remade &r : remade()) {
		Slot &s = *r.slot;
		if (s.former == nullptr)
			s.former = new OnDevices;
		if (r.made_now)
			s.former->emplace_back(from, s.made.load());
		else
			for (auto &there : *s.former)
				if (there.second == r.made)
					there = {from, s.made.load()};
		s.made.store(r.made, std::memory_order_release);
	}
	remade().clear();
}

// moment needs the thread's device to have no work.
static Moment moment()
{
	Moment m;

	if (REAL(cudaEventCreateWithFlags)(&m.event, 0) != cudaSuccess)
		return {};
	if (REAL(cudaEventRecord)(m.event, nullptr) != cudaSuccess || REAL(cudaEventSynchronize)(m.event) != cudaSuccess) {
		REAL(cudaEventDestroy)(m.event);
		return {};
	}
	m.at_ms = static_cast<double>(now_ns()) / 1e6;
	return m;
}

void keep_times()
{
	const Moment now = moment();
	float ago = 0;

	for (size_t i = 0; i < used; i++)
		if (Slot &s = slots[i]; s.state == alive && s.recorded == device_epoch()) {
			const bool told = now.event != nullptr &&
				REAL(cudaEventElapsedTime)(&ago, static_cast<cudaEvent_t>(s.made.load()), now.event) == cudaSuccess;
			s.at_ms = told ? now.at_ms - static_cast<double>(ago) : std::nan("");
		}
	if (now.event != nullptr)
		REAL(cudaEventDestroy)(now.event);
}

void note_arrival()
{
	if (arrival.event != nullptr)
		REAL(cudaEventDestroy)(arrival.event);
	arrival = moment();
}

void note_recorded(cudaEvent_t event)
{
	if (Slot *const s = slot_of(event); s != nullptr)
		s->recorded = device_epoch();
}

// time_of is when an event was recorded, on the clock of the host.
static cudaError_t time_of(ElapsedTime ask, const Slot &s, double *ms)
{
	float since = 0;

	if (s.recorded != device_epoch()) {
		*ms = s.at_ms;
		return std::isnan(s.at_ms) ? cudaErrorInvalidResourceHandle : cudaSuccess;
	}
	const cudaError_t error = ask(&since, arrival.event, static_cast<cudaEvent_t>(s.made.load()));
	*ms = arrival.at_ms + static_cast<double>(since);
	return error;
}

cudaError_t elapsed_time(ElapsedTime ask, float *ms, cudaEvent_t from, cudaEvent_t to)
{
	const Slot *const a = slot_of(from), *const b = slot_of(to);
	const auto before_move = [](const Slot *s) { return s->recorded != 0 && s->recorded != device_epoch(); };
	double began = 0, ended = 0;

	if (a == nullptr || b == nullptr || !(before_move(a) || before_move(b)) || a->recorded == 0 || b->recorded == 0)
		return ask(ms, real(from), real(to));
	Locked locked;
	cudaError_t error = time_of(ask, *a, &began);
	if (error == cudaSuccess)
		error = time_of(ask, *b, &ended);
	if (error == cudaSuccess)
		*ms = static_cast<float>(ended - began);
	return error;
}

} // namespace lazy
