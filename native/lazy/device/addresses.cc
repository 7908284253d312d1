// addresses.cc: see addresses.h.
//
// The driver looks at what is mapped when it is initialized, and reserves such addresses for nobody, even if they are unmapped
// later. It takes addresses from the system in multiples of 32 MiB. In a process without a context it gives the address
// that the caller names, if it begins such a block and nothing is there (seen on an H200 with driver 580, docs/design/lazy-runtime.md).
//
// So what is handed out before the driver starts is whole blocks, in a part of the address space where neither the system nor
// the driver puts anything by itself. They are mapped without access, so that nobody else gets them, until the driver starts.
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <map>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "addresses.h"
#include "confine.h"
#include "driver.h"

extern "C" CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags);

namespace lazy {
namespace {

#ifdef __SANITIZE_THREAD__ // which uses the other part itself
const uintptr_t first = uintptr_t{0x7e9} << 36, beyond = uintptr_t{0x7ea} << 36;
#else
const uintptr_t first = uintptr_t{0x40} << 40, beyond = uintptr_t{0x50} << 40; // addresses
#endif
const size_t block = 32 << 20; // bytes

pthread_mutex_t keeping = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
uintptr_t next = first;
std::atomic<bool> lost{false};

// What is kept, with its bytes, until it is freed.
std::map<uintptr_t, size_t> &kept()
{
	static auto *const all = new std::map<uintptr_t, size_t>; // outlives static destructors
	return *all;
}

bool map_nothing(uintptr_t at, size_t bytes)
{
	void *const wanted = reinterpret_cast<void *>(at);
	void *const found = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (found != MAP_FAILED && found != wanted) // a kernel before 4.17
		munmap(found, bytes);
	return found == wanted;
}

// keep finds addresses that nobody has.
bool keep(size_t bytes, CUdeviceptr *start)
{
	const size_t whole = (bytes + block - 1) / block * block;

	if (bytes > beyond - first)
		return false;
	for (; whole <= beyond - next; next += block)
		if (map_nothing(next, whole)) {
			*start = next;
			kept()[next] = whole;
			next += whole;
			return true;
		}
	return false;
}

} // namespace

bool reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr *start)
{
	{
		Locked locked(keeping);
		if (awaits_device())
			return keep(bytes, start);
	}
	return driver() != nullptr && driver()->reserve(start, bytes, alignment, 0, 0) == CUDA_SUCCESS;
}

void free_addresses(CUdeviceptr start, size_t bytes)
{
	Locked locked(keeping);
	const auto at = kept().find(start);

	if (at != kept().end()) {
		bytes = at->second;
		kept().erase(at);
		if (start + bytes == next) // and the next allocation takes them
			next = start;
	}
	if (awaits_device())
		munmap(reinterpret_cast<void *>(start), bytes);
	else if (driver() != nullptr)
		driver()->unreserve(start, bytes);
}

void let_go_of_addresses()
{
	Locked locked(keeping);

	for (const auto &[start, bytes] : kept())
		munmap(reinterpret_cast<void *>(start), bytes);
}

// driver() may be about to return, so it is not called here.
void take_addresses_again()
{
	Locked locked(keeping);
	const auto reserve = REAL_DRIVER(cuMemAddressReserve);

	for (const auto &[start, bytes] : kept()) {
		CUdeviceptr found = 0;
		if (reserve == nullptr || reserve(&found, bytes, 0, start, 0) != CUDA_SUCCESS || found != start)
			lost.store(true);
	}
}

bool addresses_are_lost() { return lost; }

void renew_addresses() { keeping = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

} // namespace lazy
