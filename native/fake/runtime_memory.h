// runtime_memory.h: arrays and copies, between the files that make them.
#ifndef FAKE_RUNTIME_MEMORY_H
#define FAKE_RUNTIME_MEMORY_H

#include "runtime.h"

namespace fake {

struct Array {
	void *memory;
	size_t element;              // bytes
	size_t width, height, depth; // bytes, rows, slices
};

struct cudaArrayMemoryRequirements {
	size_t size, alignment;
	unsigned int reserved[4];
};

Array *array_of(cudaArray_t handle); // nullptr: no array

int transfer(Copy c, int kind, cudaStream_t handle, bool async, bool peer = false); // runtime_copy.cc

// is_place checks a location: a device has to exist (runtime_range.cc).
int is_place(CUmemLocation at);

} // namespace fake
#endif
