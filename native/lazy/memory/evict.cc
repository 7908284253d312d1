// evict.cc: memory moves between the device and the host (memory.h).
//
// What moves is copied by a stream of the library's own, in batches. While the copies of later batches run,
// other memory is put behind the addresses of an earlier one.
//
// To map memory of the host takes longer than to copy it, because the driver sets up access page by page, and it slows
// the copies. A process without permission to give work does not need it. So its memory stays bare until it has
// permission again, and what has come back by then is never mapped from the host.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "abi/clock.h"
#include "abi/symbols.h"
#include "device/driver.h"
#include "probe/case.h"
#include "program/mode.h"
#include "account.h"
#include "copies.h"
#include "last_use.h"
#include "memory.h"
#include "ranges.h"
#include "swap.h"

namespace lazy {

// Step is a chunk that moves.
struct Step {
	Range *range;
	size_t chunk;
	HostChunk *host;

	Chunk &memory() const { return range->chunks[chunk]; }
	uintptr_t address() const { return address_of(*range, chunk); }
	size_t bytes() const { return bytes_of(*range, chunk); }
};
using Steps = std::vector<Step>;

// Turns are what fetch_wanted has moved.
static struct {
	uint64_t out;         // bytes, since lacked has told
	uint64_t submissions; // the most from one use of memory to the next, for which it had to come back
	bool more;            // has moved since lacked looked
} turns;

static bool full = false;                  // the device has refused what the scheduler counts
static std::atomic<bool> some_bare{false}; // some chunks may be bare

static const size_t batch = 8; // chunks; on an H200 one or 32 take longer
static const size_t ahead = 4; // batches whose copies may be under way

static uint64_t sum(const Steps &steps)
{
	uint64_t bytes = 0;

	for (const Step &s : steps)
		bytes += s.bytes();
	return bytes;
}

// put_behind puts memory behind the addresses of a chunk that have none.
static bool put_behind(const Step &s, bool of_host)
{
	const bool put = driver()->map(s.address(), of_host ? s.range->unit : s.bytes(), 0, of_host ? s.host->memory : s.memory().memory, 0) == CUDA_SUCCESS;

	s.memory().bare = !put;
	return put;
}

static bool take_from_behind(const Step &s, bool of_host)
{
	bool &bare = s.memory().bare;

	bare = bare || driver()->unmap(s.address(), of_host ? s.range->unit : s.bytes()) == CUDA_SUCCESS;
	return bare;
}

static CUresult access_to(uintptr_t at, size_t bytes, int device)
{
	const CUmemAccessDesc access = {memory_on(device).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return driver()->set_access(at, bytes, &access, 1);
}

// reach lets the device reach the memory of the steps from first to last, which is all of one kind. A call for
// chunks that lie side by side costs less than one for each.
static bool reach(const Step *first, const Step *last, bool of_host, int device)
{
	while (first != last) {
		const uintptr_t from = first->address();
		uintptr_t to = from;
		for (; first != last && first->address() == to; ++first)
			to += of_host ? first->range->unit : first->bytes();
		if (access_to(from, to - from, device) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

// restore puts memory behind addresses of which it was taken. Those that the driver refuses stay bare (await_mapped).
static bool restore(const Step *first, const Step *last, bool of_host, int device)
{
	const Step *done = first;

	while (done != last && put_behind(*done, of_host))
		++done;
	if (done == last && reach(first, last, of_host, device))
		return true;
	std::for_each(first, done, [=](const Step &s) { take_from_behind(s, of_host); });
	some_bare.store(true);
	return false;
}

enum class Behind { device, host, nothing };

// change puts memory of the host, or of the device, in the place of the other, or leaves what is to be on the host bare. If
// the driver refuses, memory is behind the addresses as before, or they are bare.
static bool change(const Step *first, const Step *last, Behind to, int device)
{
	const bool to_host = to != Behind::device;
	const Step *done = first;

	for (; done != last; ++done) {
		if (to_host && done->bytes() < done->range->unit)
			strip_above(*done->range);
		if (!take_from_behind(*done, !to_host))
			break;
		if (to != Behind::nothing && !put_behind(*done, to_host)) {
			restore(done, done + 1, !to_host, device);
			break;
		}
	}
	if (done == last && (to == Behind::nothing || reach(first, last, to_host, device)))
		return true;
	for (const Step *s = first; s != done; ++s)
		if (take_from_behind(*s, to_host))
			restore(s, s + 1, !to_host, device);
	return false;
}

// by_use are the ranges, the least recently referenced first. Of what one launch has referenced, what fewer launches have
// stands first: a kernel often reads an input many times that others have used before, and writes its output once.
static std::vector<Range *> by_use()
{
	using Use = std::pair<uint64_t, uint64_t>; // the latest launch, and how many
	std::vector<std::pair<Use, Range *>> uses;  // launches go on and note uses, and the order must not change meanwhile
	std::vector<Range *> all;

	for (auto &entry : ranges())
		if (const LastUse *use = entry.second->use; use != nullptr)
			uses.emplace_back(Use(use->launch, use->count), entry.second.get());
	std::stable_sort(uses.begin(), uses.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
	for (const auto &entry : uses)
		all.push_back(entry.second);
	return all;
}

// by_latest_use are the ranges in the opposite order.
static std::vector<Range *> by_latest_use()
{
	std::vector<Range *> all = by_use();
	std::reverse(all.begin(), all.end());
	return all;
}

// each_step shows the chunks of ranges that are to move to the host, or else to the device, until `show` says false.
template <typename Show> static void each_step(const std::vector<Range *> &all, bool to_host, Show show)
{
	for (Range *r : all)
		for (size_t i = 0; i < r->chunks.size(); i++) {
			HostChunk *const host = r->chunks[i].host;
			if ((to_host ? host == nullptr && moves(*r, i) : host != nullptr) && !show(Step{r, i, host}))
				return;
		}
}

// map_bare puts memory behind bare addresses of chunks that are on the host, or else on the device. false: the driver refuses.
static bool map_bare(bool on_host, int device)
{
	Steps steps;

	each_step(by_use(), !on_host, [&](const Step &s) {
		if (s.memory().bare)
			steps.push_back(s);
		return true;
	});
	return restore(steps.data(), steps.data() + steps.size(), on_host, device);
}

// await_mapped maps what is bare, or only what is on the device. The driver refuses if the device has no memory for the page
// tables. Another process may give some back. If none does, the process ends: a kernel that finds no memory at an address
// would fault, and end the neighbours under MPS too.
static void await_mapped(int device, bool also_on_host)
{
	const uint64_t patience_ns = 2000000000u;

	if (!some_bare)
		return;
	if (await_until(now_ns() + patience_ns, [=] { return map_bare(false, device) && (!also_on_host || map_bare(true, device)); })) {
		some_bare.store(!also_on_host);
		return;
	}
	case_report_oom(away_bytes(), "mapping memory of the host");
	fputs("caserun: memory of this program cannot be mapped from the host, so the program ends: the device has no memory left for page tables\n", stderr);
	abort();
}

// Batches are steps, and the copies of them, which begin batch by batch and end in the same order.
class Batches {
public:
	Batches(const Steps &steps, bool out) : steps_(steps), out_(out), copies_(count()) {}

	size_t count() const { return (steps_.size() + batch - 1) / batch; } // fewer, if steps are left out at the end
	const Step *first(size_t n) const { return steps_.data() + n * batch; }
	const Step *last(size_t n) const { return steps_.data() + std::min(steps_.size(), (n + 1) * batch); }
	size_t begun() const { return begun_; }

	// begin begins the copies of the next batch.
	bool begin()
	{
		Copies &c = copies_[begun_];
		bool fine = stream_.ready() && c.begin(stream_);
		for (const Step *s = first(begun_); fine && s != last(begun_); ++s)
			fine = out_ ? c.copy(stream_, s->host->window, s->address(), s->bytes()) : c.copy(stream_, s->address(), s->host->window, s->bytes());
		begun_++;
		return c.end(stream_) && fine;
	}

	// await_over adds how long the copies of a batch took.
	bool await_over(size_t n, uint64_t *copy_ns) { return copies_[n].await_over(copy_ns); }

	// await_all: no copy is under way any more.
	void await_all() { stream_.await_idle(); }

private:
	const Steps &steps_;
	const bool out_;
	CopyStream stream_;
	std::vector<Copies> copies_;
	size_t begun_ = 0;
};

static void now_on_host(const Step &s)
{
	driver()->release(s.memory().memory);
	s.memory().host = s.host;
	on_device(*s.range, s.chunk, -static_cast<int64_t>(s.bytes()));
	on_host(*s.range, 1, static_cast<int64_t>(s.bytes()));
}

// await_out moves chunks to host memory, and returns how many bytes: fewer than all if host memory runs out, or if the driver
// refuses. take(n) finds host memory for the first of n chunks that have none. A batch gets it right before its copies,
// because it takes time until the device reaches new host memory, and earlier batches are copied meanwhile.
template <typename Take> static uint64_t await_out(Steps steps, int device, Behind then, uint64_t *copy_ns, Take take)
{
	Batches batches(steps, true);
	size_t moved = 0; // batches
	const auto has_next = [&] {
		for (size_t i = batches.begun() * batch; i < std::min(steps.size(), (batches.begun() + 1) * batch); i++)
			if ((steps[i].host = take(steps.size() - i)) == nullptr)
				steps.resize(i);
		return batches.begun() < batches.count();
	};

	if (then == Behind::nothing)
		some_bare.store(true);
	for (bool fine = true; fine; moved += fine) {
		while (fine && batches.begun() < moved + ahead && has_next())
			fine = batches.begin();
		fine = fine && moved < batches.begun() && batches.await_over(moved, copy_ns) &&
			change(batches.first(moved), batches.last(moved), then, device);
		if (fine)
			std::for_each(batches.first(moved), batches.last(moved), now_on_host);
	}
	batches.await_all();
	const Steps::const_iterator rest = steps.begin() + static_cast<ptrdiff_t>(std::min(steps.size(), moved * batch));
	std::for_each(rest, steps.cend(), [](const Step &s) {
		if (s.host != nullptr)
			give_host_chunk(s.host);
	});
	await_mapped(device, false); // if the driver has refused
	back_margins(device);
	return sum({steps.cbegin(), rest});
}

static void now_on_device(const Step &s)
{
	give_host_chunk(s.host);
	s.memory().host = nullptr;
	on_device(*s.range, s.chunk, static_cast<int64_t>(s.bytes()));
	on_host(*s.range, -1, -static_cast<int64_t>(s.bytes()));
}

// make_memory makes memory of the device for steps, and returns the first that has got none.
static const Step *make_memory(const Step *first, const Step *last, int device, CUresult *result)
{
	const CUmemAllocationProp prop = memory_on(device);

	for (; first != last && *result == CUDA_SUCCESS; ++first)
		*result = driver()->create(&first->memory().memory, first->bytes(), &prop, 0);
	return *result == CUDA_SUCCESS ? first : first - 1;
}

static void drop_memory(const Step &s) { driver()->release(s.memory().memory); }

// await_in moves chunks to the device, and returns how many bytes. Those that come stand at the beginning.
// result is what the driver says of memory of the device.
static uint64_t await_in(Steps steps, int device, uint64_t *copy_ns, CUresult *result)
{
	*result = CUDA_SUCCESS;
	if (steps.empty())
		return 0;
	const Step *const made = make_memory(steps.data(), steps.data() + steps.size(), device, result);
	steps.resize(static_cast<size_t>(made - steps.data()));
	Batches batches(steps, false);
	size_t changed = 0, moved = 0; // batches

	for (bool fine = true; fine && moved < batches.count();) {
		while (fine && changed < std::min(moved + ahead, batches.count())) {
			fine = change(batches.first(changed), batches.last(changed), Behind::device, device);
			changed += fine;
			fine = fine && batches.begin();
		}
		fine = fine && batches.await_over(moved, copy_ns);
		if (fine) {
			std::for_each(batches.first(moved), batches.last(moved), now_on_device);
			moved++;
		}
	}
	batches.await_all();
	for (size_t n = moved; n < batches.count(); n++)
		if (n >= changed || change(batches.first(n), batches.last(n), Behind::nothing, device))
			std::for_each(batches.first(n), batches.last(n), drop_memory);
	if (moved < batches.count())
		some_bare.store(true);
	await_mapped(device, true);
	back_margins(device);
	steps.resize(std::min(steps.size(), moved * batch));
	return sum(steps);
}

// can_leave are the chunks that have to leave the device for at least `bytes`, or all.
static Steps can_leave(uint64_t bytes)
{
	Steps steps;
	uint64_t found = 0;

	each_step(by_use(), true, [&](const Step &s) {
		if (found < bytes)
			steps.push_back(s);
		found += s.bytes();
		return found < bytes;
	});
	return steps;
}

// note adds a move that began then. Copies are timed by the device's clock.
static void note(client_move *all, uint64_t began, uint64_t bytes, uint64_t copy_ns)
{
	const uint64_t took = now_ns() - began;
	*all = {all->bytes + bytes, all->copy_ns + copy_ns, all->bookkeeping_ns + took - std::min(took, copy_ns)};
}

void await_back(int device)
{
	some_bare.store(true);
	await_mapped(device, false);
}

bool bare() { return some_bare; }
void await_mapped(int device) { await_mapped(device, true); }

void await_evicted(uint64_t bytes, int device, bool bare, client_move *out)
{
	const uint64_t began = now_ns();
	uint64_t copy_ns = 0;
	const uint64_t moved = await_out(can_leave(bytes), device, bare ? Behind::nothing : Behind::host, &copy_ns,
		[=](size_t chunks) { return await_host_chunk(device, chunks); });
	note(out, began, moved, copy_ns);
}

void fetch(uint64_t room, int device, client_move *in)
{
	const uint64_t began = now_ns();
	uint64_t copy_ns = 0;
	Steps steps;
	CUresult result;

	each_step(by_latest_use(), false, [&](const Step &s) {
		if (!recent(*s.range->use))
			return false;
		if (s.bytes() <= room) {
			steps.push_back(s);
			room -= s.bytes();
		}
		return true;
	});
	const uint64_t moved = await_in(std::move(steps), device, &copy_ns, &result);
	full = result == CUDA_ERROR_OUT_OF_MEMORY;
	await_mapped(device, true);
	note(in, began, moved, copy_ns);
}

// make_room moves chunks out that nobody waits for, and returns how many bytes.
static uint64_t make_room(uint64_t bytes, int device, client_move *out)
{
	const uint64_t began = now_ns();
	Steps steps;
	uint64_t found = 0, copy_ns = 0;

	each_step(by_use(), true, [&](const Step &s) {
		if (s.range->wanted)
			return true;
		steps.push_back(s);
		found += s.bytes();
		return found < bytes;
	});
	const uint64_t moved = await_out(std::move(steps), device, Behind::host, &copy_ns, [=](size_t) { return unused_host_chunk(device); });
	note(out, began, moved, copy_ns);
	turns.out += moved;
	turns.more = turns.more || moved > 0;
	return moved;
}

static void note_turns()
{
	for (auto &entry : ranges())
		if (const Range &r = *entry.second; r.wanted && r.use != nullptr && r.use->on_host)
			turns.submissions = std::max(turns.submissions, r.use->launch - std::min(r.use->launch.load(), r.use->before.load()) + 1);
}

// A launch may reference more than can be on the device together. Then a part of it comes, and the rest of it
// stays mapped from the host. The next launch of the same memory finds nothing to bring (can_fetch), so it moves
// nothing and does not wait. Launches that reference other memory in turn do move it each time, because each of
// them would be slow without.
void fetch_wanted(uint64_t room, int device, client_move *in, client_move *out)
{
	note_turns();
	for (;;) {
		const uint64_t began = now_ns();
		Steps fit;
		uint64_t copy_ns = 0, missing = 0;
		CUresult result;
		each_step(by_latest_use(), false, [&](const Step &s) {
			if (s.range->wanted && missing == 0 && sum(fit) + s.bytes() <= room)
				fit.push_back(s);
			else if (s.range->wanted)
				missing += s.bytes();
			return true;
		});
		const uint64_t wanted = sum(fit), came = await_in(std::move(fit), device, &copy_ns, &result);
		note(in, began, came, copy_ns);
		room -= came;
		missing += wanted - came;
		if (missing == 0)
			return;
		const uint64_t more = came == wanted || result == CUDA_ERROR_OUT_OF_MEMORY ? make_room(missing - std::min(missing - 1, room), device, out) : 0;
		if (more == 0) {
			full = came < wanted; // later launches need not try
			return;
		}
		room += more;
	}
}

void want(const std::vector<uintptr_t> &addresses)
{
	for (auto &entry : ranges())
		entry.second->wanted = false;
	for (const uintptr_t address : addresses)
		if (const Allocation *a = find(reinterpret_cast<const void *>(address)); a != nullptr && a->range != nullptr)
			a->range->wanted = true;
}

bool can_fetch(uint64_t room)
{
	size_t least = SIZE_MAX; // bytes of a chunk that is to come
	bool others = false;     // that could go

	for (auto &entry : ranges()) {
		const Range &r = *entry.second;
		for (size_t i = 0; i < r.chunks.size(); i++)
			if (r.wanted && r.chunks[i].host != nullptr)
				least = std::min(least, bytes_of(r, i));
			else if (!r.wanted && moves(r, i) && r.chunks[i].host == nullptr)
				others = true;
	}
	return least != SIZE_MAX && ((least <= room && !full) || (others && has_unused_host_chunk()));
}

// room_for_movable is how many bytes that can move a device has room for beside what cannot.
static uint64_t room_for_movable()
{
	const uint64_t all = account::charged(), movable = movable_bytes() + away_bytes(), fixed = all - std::min(all, movable);

	return room().device == 0 ? UINT64_MAX : room().device - std::min(room().device, fixed);
}

bool lacks_room(uint64_t room)
{
	uint64_t all = 0, comes = 0, leaves = 0; // bytes of the launch's memory, of it on the host, and of other memory

	for (auto &entry : ranges()) {
		const Range &r = *entry.second;
		for (size_t i = 0; i < r.chunks.size(); i++) {
			all += r.wanted && moves(r, i) ? bytes_of(r, i) : 0;
			if (r.wanted && r.chunks[i].host != nullptr)
				comes += bytes_of(r, i);
			else if (!r.wanted && r.chunks[i].host == nullptr && moves(r, i))
				leaves += bytes_of(r, i);
		}
	}
	return !full && all <= room_for_movable() && comes > room + (has_unused_host_chunk() ? leaves : 0);
}

static Wanted wanted(uint64_t submissions)
{
	uint64_t left = room_for_movable();
	Wanted w = {0, 0};

	for (const Range *r : by_latest_use())
		for (size_t i = 0; recent(*r->use, submissions) && i < r->chunks.size(); i++) {
			const bool movable = moves(*r, i);
			if (movable && bytes_of(*r, i) > left)
				return w;
			left -= movable ? bytes_of(*r, i) : 0;
			w.bytes += bytes_of(*r, i);
			w.on_host += r->chunks[i].host != nullptr ? bytes_of(*r, i) : 0;
		}
	return w;
}

Wanted wanted() { return wanted(recent_submissions()); }

uint64_t lacked(uint64_t room)
{
	if (!turns.more)
		return 0;
	turns.more = false;
	const uint64_t on_host = wanted(std::max(turns.submissions, recent_submissions())).on_host, lacks = on_host - std::min(on_host, room);
	if (turns.out < lacks)
		return 0;
	turns.out = 0;
	return lacks;
}

void remember_turns() { remember(turns.submissions); }

uint64_t referenced_bytes()
{
	static uint64_t sum = 0, had = 0; // bytes when the ranges were looked at
	static size_t asked = 0;          // since then
	const uint64_t has = resident_bytes() + away_bytes();

	if (++asked >= ranges().size() / 16) {
		sum = wanted().bytes;
		had = has;
		asked = 0;
	}
	return std::min(sum + (has > had ? has - had : 0), has);
}

uint64_t could_leave()
{
	uint64_t sum = 0;

	for (const Range *r : by_use())
		if (const size_t rest = r->size % movable_chunk(); !r->mapped && !r->shared)
			sum += r->size - (rest < movable_chunk() / 4 ? rest : 0);
	return sum;
}

uint64_t await_host_layout(uint64_t bytes, int device)
{
	for (Range *r : by_use()) {
		if (r->mapped)
			continue;
		lay_out(*r);
		for (size_t i = 0; bytes > 0 && i < r->chunks.size(); i++) {
			if (!moves(*r, i))
				continue;
			r->chunks[i].host = await_host_chunk(device, bytes / movable_chunk() + 1);
			if (r->chunks[i].host == nullptr)
				return bytes;
			bytes -= std::min<uint64_t>(bytes, bytes_of(*r, i));
		}
	}
	return 0;
}

} // namespace lazy
