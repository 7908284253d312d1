// variables.cc: the program's variables on the device. The CUDA runtime is told of them while the
// program, or a part of the program, is loaded (crt/host_runtime.h).
#include <atomic>
#include <map>

#include "api.h"
#include "lock.h"
#include "real.h"
#include "task.h"
#include "variables.h"

CASE_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                                int constant, int global);

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

uint64_t variable_bytes()
{
	const uint64_t bytes = total.load(std::memory_order_relaxed);
	return small(bytes) ? 0 : bytes;
}

} // namespace lazy

using namespace lazy;

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
	tie(Tie::variable); // its value cannot move
	REAL(__cudaRegisterVar)(handle, host, device, name, external, bytes, constant, global);
	Locked locked(registering);
	size_t &known = variables()[host]; // again where its part of the program is loaded again
	total.fetch_add(bytes - known);
	known = bytes;
}
