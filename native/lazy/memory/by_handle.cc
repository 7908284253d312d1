// by_handle.cc: see by_handle.h.
//
// Memory that another process has made, and that this process imports, is charged there.
#include "by_handle.h"

#include <pthread.h>

#include <iterator>
#include <list>
#include <map>

#include "abi/lock.h"

namespace lazy {
namespace {

struct Memory {
	Charge charge;
	unsigned references; // handles and mappings
};
using Place = std::list<Memory>::iterator;

struct Handle {
	Place memory;
	unsigned held; // cuMemRetainAllocationHandle counts the same handle again
};

struct Mapping {
	Place memory;
	size_t bytes;
};

struct Tables {
	std::list<Memory> all;
	std::map<CUmemGenericAllocationHandle, Handle> handles;
	std::map<CUdeviceptr, Mapping> mappings;
};

Tables *tables_here; // outlive static destructors

Tables &tables()
{
	if (tables_here == nullptr)
		tables_here = new Tables;
	return *tables_here;
}

// While the driver releases a handle, another thread may be given the same one. So the lock is held
// during the driver's call. It is not `lock`, whose holder may wait for the scheduler.
pthread_mutex_t counting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void let_go(Place memory, std::vector<Charge> *gone)
{
	if (--memory->references > 0)
		return;
	gone->push_back(memory->charge);
	tables().all.erase(memory);
}

void hold(CUmemGenericAllocationHandle handle, Place memory)
{
	tables().handles.try_emplace(handle, Handle{memory, 0}).first->second.held++;
	memory->references++;
}

} // namespace

// The child has none of the memory, and another thread may have been about to change the tables.
void renew_by_handle()
{
	counting = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	tables_here = nullptr;
}

void created(CUmemGenericAllocationHandle handle, const Charge &charge)
{
	Locked locked(counting);

	tables().all.push_front({charge, 0});
	hold(handle, tables().all.begin());
}

CUresult release_handle(CUmemGenericAllocationHandle handle, const Call &run, std::vector<Charge> *gone)
{
	Locked locked(counting);
	const CUresult result = run();
	const auto at = tables().handles.find(handle);

	if (result != CUDA_SUCCESS || at == tables().handles.end())
		return result;
	const Place memory = at->second.memory;
	if (--at->second.held == 0)
		tables().handles.erase(at);
	let_go(memory, gone);
	return result;
}

CUresult map_handle(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle, const Call &run)
{
	Locked locked(counting);
	const CUresult result = run();
	const auto at = tables().handles.find(handle);

	if (result != CUDA_SUCCESS || at == tables().handles.end())
		return result;
	tables().mappings[address] = {at->second.memory, bytes};
	at->second.memory->references++;
	return result;
}

// cuMemUnmap takes whole mappings only.
CUresult unmap_handles(CUdeviceptr address, size_t bytes, const Call &run, std::vector<Charge> *gone)
{
	Locked locked(counting);
	const CUresult result = run();

	if (result != CUDA_SUCCESS)
		return result;
	for (auto at = tables().mappings.lower_bound(address); at != tables().mappings.end() && at->first - address < bytes;) {
		let_go(at->second.memory, gone);
		at = tables().mappings.erase(at);
	}
	return result;
}

CUresult retain_handle(const CUmemGenericAllocationHandle *handle, CUdeviceptr address, const Call &run)
{
	Locked locked(counting);
	const CUresult result = run();
	const auto after = tables().mappings.upper_bound(address);

	if (result != CUDA_SUCCESS || after == tables().mappings.begin())
		return result;
	if (const auto at = std::prev(after); address - at->first < at->second.bytes)
		hold(*handle, at->second.memory);
	return result;
}

std::vector<Charge> charged_by_handle()
{
	Locked locked(counting);
	std::vector<Charge> there;

	for (const Memory &memory : tables().all)
		there.push_back(memory.charge);
	return there;
}

} // namespace lazy
