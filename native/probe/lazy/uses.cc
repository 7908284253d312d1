// uses.cc: see uses.h.
//
// A launch reads a table of addresses. Who changes it makes a new table, and frees the old ones when no launch is
// reading. A launch counts itself and then takes the table. Others put a table in its place and then look at the
// count. All of this is sequentially consistent, so an old table that a launch has taken is not freed.
#include <algorithm>
#include <memory>
#include <vector>

#include "uses.h"

namespace lazy {
namespace {

struct Place {
	uintptr_t base, end;
	Use *use;
};
using Places = std::vector<Place>; // by address

std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> last_unknown{0}; // the latest launch that may have been given anything
std::atomic<unsigned> reading{0};
std::atomic<const Places *> current{nullptr};

// What launches may still read.
struct Old {
	std::vector<std::unique_ptr<const Places>> tables;
	std::vector<std::unique_ptr<Use>> uses;
};

Old &old()
{
	static auto *const all = new Old; // outlives static destructors
	return *all;
}

Places copy_of_current()
{
	const Places *const now = current;
	return now == nullptr ? Places() : *now;
}

std::atomic<bool> some{false}; // are watched

void replace(Places places)
{
	some = !places.empty();
	old().tables.emplace_back(current.exchange(new Places(std::move(places))));
	if (reading != 0)
		return;
	old().tables.clear();
	old().uses.clear();
}

Places::iterator place_after(Places &places, uintptr_t address)
{
	return std::upper_bound(places.begin(), places.end(), address, [](uintptr_t at, const Place &p) { return at < p.base; });
}

} // namespace

Use *watch(uintptr_t base, size_t bytes)
{
	Places places = copy_of_current();
	Use *const use = new Use;

	use->launch = launches.load();
	places.insert(place_after(places, base), {base, base + bytes, use});
	replace(std::move(places));
	return use;
}

void unwatch(uintptr_t base)
{
	Places places = copy_of_current();
	const auto gone = std::prev(place_after(places, base));

	old().uses.emplace_back(gone->use);
	places.erase(gone);
	replace(std::move(places));
}

bool watching() { return some.load(std::memory_order_relaxed); }

Noting::Noting() : launch_(launches.fetch_add(1, std::memory_order_relaxed) + 1), places_((reading.fetch_add(1), current.load())) {}
Noting::~Noting() { reading.fetch_sub(1); }

bool Noting::reference(uintptr_t address)
{
	const Places *const places = static_cast<const Places *>(places_);

	if (places == nullptr || places->empty() || address < places->front().base || address >= places->back().end)
		return false;
	const auto after = std::upper_bound(places->begin(), places->end(), address, [](uintptr_t at, const Place &p) { return at < p.base; });
	const Place &place = *std::prev(after);
	if (address >= place.end)
		return false;
	place.use->launch.store(launch_, std::memory_order_relaxed);
	return place.use->on_host.load(std::memory_order_relaxed);
}

void Noting::reference_all() { last_unknown.store(launch_, std::memory_order_relaxed); }

bool recent(const Use &use)
{
	const uint64_t latest = 256; // launches: the loops of most programs have fewer
	const uint64_t last = std::max(use.launch.load(), last_unknown.load()), now = launches;
	return now < last || now - last < latest;
}

} // namespace lazy
