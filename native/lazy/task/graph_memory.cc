// graph_memory.cc: memory that graphs allocate when they are launched.
//
// CUDA gives such memory from a pool of the device that all graphs share and that keeps it (CUDA
// Programming Guide, "Graph Memory Nodes", "Physical Memory Footprint"). The charge is the most
// that nodes have allocated and not freed at one time, in the order in which the graphs were made.
// It stays charged until the process ends.
#include <map>

#include "abi/lock.h"
#include "graph_memory.h"
#include "task.h"

namespace lazy {

static std::map<const void *, uint64_t> &nodes() // bytes, by address
{
	static auto *const all = new std::map<const void *, uint64_t>;
	return *all;
}

static uint64_t live, most; // bytes: not freed yet, or about to be allocated; charged

cudaError_t await_graph_charge(const char *call, uint64_t bytes, Task &task)
{
	uint64_t more = 0;
	{
		Locked locked;
		live += bytes; // more than 64 bits hold are CUDA's to refuse
		more = live > most ? live - most : 0;
		most += more;
	}
	cudaError_t error = more > 0 ? task.await_charge(call, more) : cudaSuccess;
	if (error != cudaSuccess) {
		Locked locked;
		live -= bytes;
		most -= more;
	}
	return error;
}

void graph_lacks(uint64_t bytes)
{
	Locked locked;
	live -= bytes;
}

void graph_has(const void *memory, uint64_t bytes)
{
	Locked locked;

	graph_frees(memory);
	nodes()[memory] = bytes;
}

void graph_frees(const void *memory)
{
	Locked locked;
	auto at = nodes().find(memory);

	if (at == nodes().end())
		return;
	live -= at->second;
	nodes().erase(at);
}

void forget_graphs()
{
	Locked locked;

	nodes().clear();
	live = most = 0;
}

} // namespace lazy
