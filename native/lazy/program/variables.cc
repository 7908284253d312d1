// variables.cc: the program's variables on the device. The CUDA runtime is told of them while the
// program, or a part of the program, is loaded (crt/host_runtime.h).
#include <atomic>
#include <map>

#include "abi/lock.h"
#include "variables.h"

namespace lazy {

static std::map<const void *, size_t> &variables() // bytes, by the host's variable
{
	static auto *const all = new std::map<const void *, size_t>;
	return *all;
}

bool inside_variable(const void *symbol, size_t offset, size_t bytes)
{
	Locked locked(registering);
	auto known = variables().find(symbol);

	return known != variables().end() && bytes <= known->second && offset <= known->second - bytes;
}

static std::atomic<uint64_t> total{0};

uint64_t variable_bytes() { return total.load(std::memory_order_relaxed); }

std::vector<Variable> known_variables()
{
	Locked locked(registering);
	std::vector<Variable> all;

	for (const auto &[symbol, bytes] : variables())
		all.push_back({symbol, bytes});
	return all;
}

size_t know_variable(const void *symbol, size_t bytes)
{
	Locked locked(registering);
	size_t &known = variables()[symbol]; // again where its part of the program is loaded again
	const size_t more = bytes - known;
	total.fetch_add(more);
	known = bytes;
	return more;
}

} // namespace lazy
