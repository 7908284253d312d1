// memory.h: device memory, addresses first (memory.cc), and page-locked host memory.
#ifndef CASE_LAZY_MEMORY_H
#define CASE_LAZY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "abi/abi.h"
#include "probe/client.h"

namespace lazy {

struct Range; // consecutive addresses that have memory together, with a margin on either side

struct Allocation {
	uintptr_t base;
	size_t bytes;      // as the program asked
	Range *range;      // nullptr: the CUDA runtime's own
	int charged_to;    // the device to whose task it is charged, as the program counts devices, if it is the runtime's
	unsigned recorded; // operations in the record that touch it
	bool freed;        // by the program, while still recorded
	cudaMemPool_t pool;   // that is charged for it, or nullptr
	CUcontext ends_with; // the program's own context that it is in; nullptr: the device's, or it is not the runtime's
};

Allocation *find(const void *address); // the allocation it points into, or nullptr
// pending: [address, address + bytes) is inside one allocation without memory.
Allocation *pending(const void *address, size_t bytes);

// out_of_bounds: [address, address + bytes) begins in addresses that reserve has handed out, or
// beside them, and is not inside one allocation. CUDA refuses to copy and set such a range
// (cudaErrorInvalidValue), but knows only of whole ranges and margins here.
bool out_of_bounds(const void *address, size_t bytes);
// The same of a box of bytes in pitched memory, where CUDA has nothing else to refuse.
bool out_of_bounds(const cudaPitchedPtr &memory, const cudaPos &at, const cudaExtent &box);

inline const uint64_t granule = 2 << 20; // bytes; small allocations share it, as in cudaMalloc
inline uint64_t whole_granules(uint64_t bytes) { return (bytes + granule - 1) / granule * granule; }
bool small(size_t bytes);                // an allocation that shares a granule with others

// reserve makes an allocation without memory. false: the driver cannot, or no device has that
// much: bind, and let the CUDA runtime answer.
bool reserve(size_t bytes, void **address);
// allocate_beside makes a small allocation in memory that others have brought. allocate_backed brings
// memory of the bound device; the caller has charged the task for an object of backing_of(bytes).
bool allocate_beside(size_t bytes, void **address);
CUresult allocate_backed(size_t bytes, int device, void **address);
size_t backing_of(size_t bytes); // bytes of memory that an allocation takes
size_t row_of(size_t width);     // bytes between the rows of pitched memory, as cudaMallocPitch has them

// Sizes that 64 bits cannot hold become the largest, which nobody grants and no allocation has.
inline size_t product(size_t a, size_t b)
{
	size_t result = 0;
	return __builtin_mul_overflow(a, b, &result) ? SIZE_MAX : result;
}

inline size_t sum(size_t a, size_t b)
{
	size_t result = 0;
	return __builtin_add_overflow(a, b, &result) ? SIZE_MAX : result;
}

// allocation_at finds the allocation of this library, with memory, that the address is in.
bool allocation_at(const void *address, uintptr_t *base, size_t *bytes);
// adopt notes an allocation that the CUDA runtime or the driver has made, in the thread's context.
void adopt(void *address, size_t bytes, int charged_to, cudaMemPool_t pool = nullptr);

// Who holds the allocation that begins at address.
enum class Holder { unknown, runtime, reserved, mapped };
Holder holder_of(const void *address);
// drop forgets the allocation of reserve that begins at address, and gives back its bytes and its memory. The
// caller counts the object (task/record.h). false: there is none. *recorded is the allocation if operations in the
// record still touch it and nothing else shares its memory. `lock` is held.
bool drop(const void *address, const Allocation **recorded);
// retire says that the program has freed an allocation of reserve, which keeps its bytes and its memory until
// drop_retired. false: an operation in the record still touches it.
bool retire(const void *address);
void drop_retired(uintptr_t base); // `lock` is held, and the caller counts the object
// can_renew: an allocation of so many bytes can have the memory of this retired one, and uses at least half of it. renew
// makes it.
bool can_renew(uintptr_t base, size_t bytes);
void *renew(uintptr_t base, size_t bytes);
// withdraw forgets an allocation that adopt noted, before it is freed; it stays charged.
bool withdraw(const void *address, Allocation *was);
void readopt(const Allocation &was); // it was not freed
cudaMemPool_t pool_behind(const void *address); // that is charged for what withdraw would forget
// withdraw_all is withdraw of all that ends with a context: the program's own, or (nullptr) that of the device to whose
// task it is charged. outlasting are the bytes of what ends with another than the device's.
std::vector<Allocation> withdraw_all(CUcontext ends_with, int charged_to);
std::vector<uint64_t> outlasting(int charged_to);
Allocation *recorded_at(uintptr_t base);
void release_recorded(Allocation *a); // an operation that touched it is gone
// map_all puts memory behind everything reserved. *refused is how many bytes the driver refused.
CUresult map_all(int device, size_t *refused);
void drop_spares();                   // the task is about to end
void unmap_all();                     // takes it away again; contents are lost
void forget_memory();                 // cudaDeviceReset: of reserve

// ---- memory that moves. `lock` is held, but for what only counts.
//
// A launch references the memory that its parameters point into (launch/references.h). Pointers inside memory are not
// seen. So references order what moves and estimate what is needed, and decide nothing else. Memory counts as
// referenced by the launch before which it was made, too.
//
// `room` is how much may come to the device without anything leaving it (room_on_device).

// Wanted is what the latest launches reference, as far as a device has room for all of it: the most recently
// referenced memory first.
struct Wanted {
	uint64_t bytes, on_host;
};
Wanted wanted();
// referenced_bytes are wanted().bytes, for who asks at each change. From 32 ranges on only every so many answers look
// at all ranges, so that an allocation does not take the longer the more a program has. What has come since
// the last look counts as referenced.
uint64_t referenced_bytes();
uint64_t could_leave(); // bytes of reserved memory that need not begin on the device
// want names what a launch needs, by addresses. can_fetch: some of it is on the host, and could come. lacks_room:
// a device has room for all that it needs, and the process has less there, whatever leaves for it.
void want(const std::vector<uintptr_t> &addresses);
bool can_fetch(uint64_t room);
bool lacks_room(uint64_t room);

// await_host_layout gives memory of the host to chunks of reserved memory, of at least so many bytes, before it is
// mapped. The least recently referenced memory gets it. It returns how many bytes the host has no memory for.
uint64_t await_host_layout(uint64_t bytes, int device);

// What follows needs calls to be kept from the device, and the device to have no work.
//
// await_evicted moves at least `bytes` from the device to the host, if so many can move and the host has room. The
// least recently referenced memory goes first. It is then mapped from the host at its addresses, or left bare until
// fetch. fetch brings back what the latest launches reference, the most recently referenced memory first, and maps the
// rest from the host. bring brings what want has named, and moves other memory out for it. What moves is added to in and out.
void await_evicted(uint64_t bytes, int device, bool bare, client_move *out);
void fetch(uint64_t room, int device, client_move *in);
void fetch_wanted(uint64_t room, int device, client_move *in, client_move *out);

// Launches that take turns with more memory than fits have fetch_wanted move it each time. lacked is how much more of the device
// they need so that nothing has to leave, once as much has left for them since the last such answer; else 0. remember_turns
// has wanted and fetch count all of that memory from then on.
uint64_t lacked(uint64_t room);
void remember_turns();

// bare: memory may be without a mapping at its addresses. await_mapped maps it.
bool bare();
void await_mapped(int device);

uint64_t range_bytes();    // of the library's memory, with what is only reserved
uint64_t resident_bytes(); // of these, on the device
uint64_t movable_bytes();  // of these, can leave it
uint64_t away_bytes();     // on the host
bool has_fixed_memory();   // the CUDA runtime or the driver has made some of the program's memory. `lock` is held

// page_locked: the program asked for this host memory to be page-locked before there was a
// context (runtime/host.cc).
bool page_locked(const void *memory, size_t bytes);
void forget_registrations(); // cudaDeviceReset: they were the context's

} // namespace lazy
#endif
