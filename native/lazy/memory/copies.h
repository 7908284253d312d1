// copies.h: copies between the device and the host in a stream of the library's own (copies.cc). The task's context is
// current.
#ifndef CASE_LAZY_COPIES_H
#define CASE_LAZY_COPIES_H

#include <stdint.h>

#include "abi/abi.h"

typedef struct CUevent_st *CUevent;

namespace lazy {

// CopyStream waits for no other stream, and no other waits for it.
class CopyStream {
public:
	CopyStream();
	~CopyStream();
	CopyStream(const CopyStream &) = delete;
	CopyStream &operator=(const CopyStream &) = delete;

	bool ready() const { return stream_ != nullptr; } // false: the driver refuses
	void await_idle();

private:
	friend class Copies;
	cudaStream_t stream_ = nullptr;
};

// Copies are some copies in a stream, after those that were begun before. All functions report whether the driver
// does not refuse.
class Copies {
public:
	Copies() = default;
	~Copies();
	Copies(const Copies &) = delete;
	Copies &operator=(const Copies &) = delete;

	bool begin(const CopyStream &in);
	bool copy(const CopyStream &in, CUdeviceptr to, CUdeviceptr from, size_t bytes);
	bool end(const CopyStream &in);
	bool await_over(uint64_t *took_ns); // adds how long they took

private:
	CUevent from_ = nullptr, to_ = nullptr;
};

} // namespace lazy
#endif
