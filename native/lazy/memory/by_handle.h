// by_handle.h: memory that the program makes with cuMemCreate, and how long it lasts (by_handle.cc).
//
// Such memory does not belong to a context. It lasts until each handle of it is released and each mapping is gone.
#ifndef CASE_LAZY_BY_HANDLE_H
#define CASE_LAZY_BY_HANDLE_H

#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <vector>

#include "abi/abi.h"

namespace lazy {

// Charge is what a task is charged with for memory of the driver.
struct Charge {
	int charged_to; // the device of the task, as the program counts devices
	uint64_t bytes;
};

void created(CUmemGenericAllocationHandle handle, const Charge &charge);

// These do a call of the driver, and note what it does to memory of `created`. *gone is what has no handle and no
// mapping any more.
using Call = std::function<CUresult()>;
CUresult release_handle(CUmemGenericAllocationHandle handle, const Call &run, std::vector<Charge> *gone);
CUresult map_handle(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle, const Call &run);
CUresult unmap_handles(CUdeviceptr address, size_t bytes, const Call &run, std::vector<Charge> *gone);
CUresult retain_handle(const CUmemGenericAllocationHandle *handle, CUdeviceptr address, const Call &run);

std::vector<Charge> charged_by_handle(); // what is there
void renew_by_handle();                  // in a child of fork

} // namespace lazy
#endif
