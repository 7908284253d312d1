// driver_memory.h: memory of this library in the driver's calls (driver_memory.cc).
#ifndef CASE_LAZY_DRIVER_MEMORY_H
#define CASE_LAZY_DRIVER_MEMORY_H

#include "abi/abi.h"
#include "abi/symbols.h"

namespace lazy {

// DriverAllocation and DriverFree are what the driver's calls are given.
struct DriverAllocation {
	DriverAllocation(CUdeviceptr *to, size_t) : memory(to) {}
	DriverAllocation(CUdeviceptr *to, size_t *, size_t, size_t, unsigned) : memory(to) {}
	DriverAllocation(CUdeviceptr *to, size_t, unsigned) : memory(to), managed(true) {}
	DriverAllocation(CUdeviceptr *to, size_t, cudaStream_t in) : memory(to), ordered(true), stream(in) {}
	DriverAllocation(CUdeviceptr *to, size_t, cudaMemPool_t from, cudaStream_t in)
	    : memory(to), ordered(true), stream(in), pool(from)
	{
	}
	DriverAllocation(CUmemGenericAllocationHandle *to, size_t, const CUmemAllocationProp *what, unsigned long long)
	    : memory(to), prop(what)
	{
	}
	DriverAllocation(void **array, const void *, unsigned = 0) : memory(reinterpret_cast<CUdeviceptr *>(array)) {}
	bool in_capture(bool own) const; // it becomes a node of a graph. own: no stream is the thread's own one

	CUdeviceptr *const memory;
	const bool managed = false;
	const bool ordered = false; // in a stream
	const cudaStream_t stream = nullptr;
	const cudaMemPool_t pool = nullptr;              // nullptr: the device's
	const CUmemAllocationProp *const prop = nullptr; // of memory that is known by a handle
};

struct DriverFree {
	explicit DriverFree(CUdeviceptr what) : memory(what) {}
	DriverFree(CUdeviceptr what, cudaStream_t in) : memory(what), ordered(true), stream(in) {}
	bool in_capture(bool own) const;

	const CUdeviceptr memory;
	const bool ordered = false; // in a stream
	const cudaStream_t stream = nullptr;
};

// driver_allocates makes an allocation of this library where the program calls the driver, if memory
// can move. false: the driver is to make it. driver_frees is the opposite. own: no stream is the thread's own one.
bool driver_allocates(const char *call, const DriverAllocation &wanted, size_t bytes, bool own, CUresult *result);
bool driver_frees(const DriverFree &free, bool own, CUresult *result);
// driver_pitch is the length of a row that driver_allocates gives pitched memory.
size_t driver_pitch(size_t *pitch, size_t width);

} // namespace lazy
#endif
