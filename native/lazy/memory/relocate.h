// relocate.h: all memory of the process goes to another device (relocate.cc).
#ifndef CASE_LAZY_RELOCATE_H
#define CASE_LAZY_RELOCATE_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "abi/abi.h"

namespace lazy {

struct Range;

// Relocation is what is on the device `from`, on its way to the device `to`. What is on the host stays there. `lock` is held, no call is
// under way, and the device has no work. Until put has succeeded nothing has changed, and the end of the Relocation drops what it has made.
class Relocation {
public:
	Relocation(int from, int to) : from_(from), to_(to) {}
	~Relocation();
	Relocation(const Relocation &) = delete;
	Relocation &operator=(const Relocation &) = delete;

	bool make(); // memory on the other device, for all of it, and access to what is on the host
	// copy copies the contents, in these contexts of the two devices. The first is the thread's, and is again in the end.
	bool copy(CUcontext here, CUcontext there, uint64_t *copy_ns);
	bool put(); // puts the memory behind the addresses
	uint64_t bytes() const { return bytes_; }

private:
	// Part is a chunk, or (range is nullptr) the granule behind all margins.
	struct Part {
		Range *range;
		size_t chunk;
		CUdeviceptr at;
		size_t bytes;
		CUmemGenericAllocationHandle old, made;
		CUdeviceptr window; // at which the new memory is mapped until it is put
	};

	bool make(Part *part);
	bool open_windows();
	bool open_host() const;
	bool copy_between(CUcontext here, CUcontext there, uint64_t *copy_ns) const;
	bool exchange(const Part &part, CUmemGenericAllocationHandle from, CUmemGenericAllocationHandle to) const;

	const int from_, to_;
	std::vector<Part> parts_;
	size_t made_ = 0; // parts that have new memory
	CUdeviceptr windows_ = 0;
	uint64_t bytes_ = 0;
	bool direct_ = false; // each device reaches the windows
	bool put_ = false;
};

} // namespace lazy
#endif
