// last_use.cc: see last_use.h.
//
// Launches read a table of addresses without writing anything that other launches read. Who changes the table, with
// `lock` held, makes its version odd for as long. A launch that sees an odd version, or another one after it has read,
// reads again (H. Boehm, "Can Seqlocks Get Along With Programming Language Memory Models?", MSPC 2012: the fields are
// atomic, a launch's loads of them acquire, and the stores to them release).
//
// Nothing that a launch may still read is freed: a table that has become too small stays, and a LastUse that is gone is
// handed out again. A launch that has read it just before then notes a use of other memory, which decides nothing.
#include <algorithm>
#include <memory>
#include <vector>

#include "probe/activity.h"
#include "last_use.h"

namespace lazy {
namespace {

struct Place {
	std::atomic<uintptr_t> base, end;
	std::atomic<LastUse *> use;

	void operator=(const Place &other)
	{
		base.store(other.base, std::memory_order_release);
		end.store(other.end, std::memory_order_release);
		use.store(other.use, std::memory_order_release);
	}
};

struct Table {
	const size_t room;
	std::atomic<size_t> count{0};
	std::unique_ptr<Place[]> places; // by address

	explicit Table(size_t places_in_all) : room(places_in_all), places(new Place[places_in_all]()) {}
	Place *begin() const { return places.get(); }
	Place *end() const { return begin() + count.load(std::memory_order_acquire); }
	Place *after(uintptr_t address) const
	{
		return std::upper_bound(begin(), end(), address,
		                        [](uintptr_t at, const Place &p) { return at < p.base.load(std::memory_order_acquire); });
	}
};

std::atomic<uint64_t> remembered{256}; // submissions
std::atomic<uint64_t> last_unknown{0}; // the latest launch that may have been given anything
std::atomic<uint64_t> version{0};      // of the table; odd: it changes
std::atomic<Table *> current{nullptr};

// What launches may still read. It outlives static destructors.
struct Kept {
	std::vector<std::unique_ptr<Table>> tables; // the last one is the present one
	std::vector<std::unique_ptr<LastUse>> free;
};

Kept &kept()
{
	static auto *const all = new Kept;
	return *all;
}

class Change {
public:
	Change() { version.store(version + 1, std::memory_order_relaxed); }
	~Change() { version.store(version + 1, std::memory_order_release); }
	Change(const Change &) = delete;
	Change &operator=(const Change &) = delete;
};

// table_with_room is the present one, or a larger copy that is to take its place.
Table *table_with_room()
{
	Table *const now = current;

	if (now != nullptr && now->count < now->room)
		return now;
	Table *const next = new Table(now == nullptr ? 64 : 2 * now->room);
	if (now != nullptr)
		std::copy(now->begin(), now->end(), next->begin());
	next->count = now == nullptr ? 0 : now->count.load();
	kept().tables.emplace_back(next);
	return next;
}

LastUse *new_use()
{
	auto &free = kept().free;

	if (free.empty())
		return new LastUse;
	LastUse *const use = free.back().release();
	free.pop_back();
	use->count = 0;
	use->on_host = false;
	return use;
}

// look_up finds the LastUse of an address; nullptr: it is not watched. false: the table changed meanwhile.
bool look_up(uintptr_t address, LastUse **use)
{
	const uint64_t before = version.load(std::memory_order_acquire);
	const Table *const table = current.load(std::memory_order_acquire);

	*use = nullptr;
	if (before % 2 == 1)
		return false;
	if (table != nullptr)
		if (const Place *const after = table->after(address); after != table->begin())
			if (address < (after - 1)->end.load(std::memory_order_acquire))
				*use = (after - 1)->use.load(std::memory_order_acquire);
	return version.load(std::memory_order_relaxed) == before;
}

} // namespace

LastUse *watch(uintptr_t base, size_t bytes)
{
	LastUse *const use = new_use();
	Table *const table = table_with_room();
	const Change change;
	Place *const at = table->after(base), *const end = table->end();

	use->launch = activity_mark();
	use->before = use->launch.load();
	std::copy_backward(at, end, end + 1);
	at->base.store(base, std::memory_order_release);
	at->end.store(base + bytes, std::memory_order_release);
	at->use.store(use, std::memory_order_release);
	table->count.fetch_add(1, std::memory_order_release);
	current.store(table, std::memory_order_release);
	return use;
}

void unwatch(uintptr_t base)
{
	const Change change;
	Table *const table = current;
	Place *const after = table->after(base);

	kept().free.emplace_back((after - 1)->use);
	std::copy(after, table->end(), after - 1);
	table->count.fetch_sub(1, std::memory_order_release);
}

bool watching()
{
	const Table *const table = current.load(std::memory_order_acquire);
	return table != nullptr && table->count.load(std::memory_order_relaxed) > 0;
}

Noting::Noting() : launch_(activity_mark() + 1) {}

bool Noting::reference(uintptr_t address)
{
	LastUse *use = nullptr;

	for (unsigned tries = 0; !look_up(address, &use); tries++)
		if (tries == 1000) { // who changes the table does not run now
			reference_all();
			return false;
		}
	if (use == nullptr)
		return false;
	const bool away = use->on_host.load(std::memory_order_relaxed);
	const uint64_t before = use->launch.load(std::memory_order_relaxed);
	if (away && before < launch_)
		use->before.store(before, std::memory_order_relaxed);
	if (before < launch_)
		use->count.store(use->count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	use->launch.store(launch_, std::memory_order_relaxed);
	return away;
}

void Noting::reference_all() { last_unknown.store(launch_, std::memory_order_relaxed); }

uint64_t recent_submissions() { return remembered.load(std::memory_order_relaxed); }

void remember(uint64_t submissions)
{
	if (submissions > recent_submissions())
		remembered.store(submissions, std::memory_order_relaxed);
}

bool recent(const LastUse &use, uint64_t submissions)
{
	const uint64_t last = std::max(use.launch.load(), last_unknown.load()), now = activity_mark();
	return now < last || now - last < submissions;
}

} // namespace lazy
