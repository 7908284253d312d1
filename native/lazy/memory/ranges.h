// ranges.h: the memory behind reserved addresses, as memory.cc makes it and evict.cc moves it. `lock` is held.
#ifndef CASE_LAZY_RANGES_H
#define CASE_LAZY_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "abi/abi.h"
#include "last_use.h"
#include "swap.h"

namespace lazy {

// Chunk is the memory of some addresses: the device's or, where it has moved, the host's.
struct Chunk {
	CUmemGenericAllocationHandle memory; // of the device
	HostChunk *host;                     // nullptr: it is on the device
	bool bare;                           // it is not mapped at its addresses, though its range is mapped (evict.cc)
};

struct Range {
	uintptr_t base;
	size_t size;
	size_t reserved;           // bytes of addresses, with what memory of the host behind the last chunk may take
	size_t unit;               // of its chunks; the last may be smaller
	std::vector<Chunk> chunks; // in the order of addresses; empty until the range is laid out
	bool mapped, shared;
	bool below, above;             // the margins that have memory
	std::map<size_t, size_t> gaps; // of a shared range: bytes without an allocation, by offset
	size_t largest_gap;            // bytes
	size_t live;                   // allocations in it
	LastUse *use;                      // nullptr: nothing moves
	size_t on_host;                // chunks
	bool wanted;                   // by a launch that waits for it
};

// all ranges, by address
std::map<uintptr_t, std::unique_ptr<Range>> &ranges();

inline uintptr_t address_of(const Range &r, size_t chunk) { return r.base + chunk * r.unit; }
inline size_t bytes_of(const Range &r, size_t chunk) { return std::min(r.unit, r.size - chunk * r.unit); }

// mapped_bytes is how many addresses the memory behind a chunk takes. Memory of the host comes in whole
// chunks, and can only be mapped whole.
inline size_t mapped_bytes(const Range &r, size_t chunk) { return r.chunks[chunk].host != nullptr ? r.unit : bytes_of(r, chunk); }

// moves: this chunk can move. A smaller one at the end takes a whole one of the host, so it moves only if it is not
// much smaller. Where programs must not reach beyond their memory, it stays.
bool moves(const Range &r, size_t chunk);

void lay_out(Range &r); // into chunks, unless it is

// on_device notes that the device has so many more bytes of a chunk. on_host notes that so many more chunks
// and bytes of a range are on the host.
void on_device(const Range &r, size_t chunk, int64_t bytes);
void on_host(Range &r, int64_t chunks, int64_t bytes);

CUmemAllocationProp memory_on(int device);

// back_margins puts memory behind all margins that have none. added: if only this range has come since the last time,
// the others are not looked at again. strip_above takes the memory from behind the upper margin.
void back_margins(int device, Range *added = nullptr);
void strip_above(Range &r);
// margin_memory is the granule behind all margins, and where it is mapped. false: none is. change_margins puts another granule behind
// them. What the driver refuses is left out.
bool margin_memory(CUmemGenericAllocationHandle *memory, CUdeviceptr *at, size_t *bytes);
void change_margins(CUmemGenericAllocationHandle memory, int device);

// await_back maps chunks of the device that are bare (evict.cc).
void await_back(int device);

} // namespace lazy
#endif
