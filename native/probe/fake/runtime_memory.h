// runtime_memory.h: arrays, between their allocation and the copies.
#ifndef FAKE_RUNTIME_MEMORY_H
#define FAKE_RUNTIME_MEMORY_H

#include "runtime.h"

namespace fake {

struct Array {
	void *memory;
	size_t element;              // bytes
	size_t width, height, depth; // bytes, rows, slices
};

Array *array_of(cudaArray_t handle); // nullptr: no array

} // namespace fake
#endif
