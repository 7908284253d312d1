// cubin.h: what a program's machine code says of its kernels (cubin.cc).
#ifndef CASE_LAZY_CUBIN_H
#define CASE_LAZY_CUBIN_H

#include <stdint.h>

#include <string>
#include <vector>

namespace lazy {

inline const uint64_t unknown_local = UINT64_MAX;

// Resources are what one block of a kernel takes, besides its dynamic shared memory.
struct Resources {
	uint32_t registers; // of a thread; 0: unknown
	uint64_t shared;    // bytes
	uint64_t local;     // bytes of a thread's local memory, or unknown_local
};

// Parameter is one of a kernel's, in the buffer of its parameters.
struct Parameter {
	uint32_t offset, bytes;
};

// A fat binary is what nvcc's start-up code passes to the CUDA runtime. Its header is trusted, because it
// alone says how long all is. What the cubins in it say is checked.
//
// resources_in looks in the cubin that the driver would choose on a device of the compute capability
// (90: 9.0).
Resources resources_in(const unsigned char *fat, const std::string &kernel, uint32_t capability);

// parameters_in finds a kernel's parameters, in order. They are the same on all devices. false: no
// cubin tells them, because it is compressed, of a newer format or damaged.
bool parameters_in(const unsigned char *fat, const std::string &kernel, std::vector<Parameter> *found);

// heap_in: kernels may allocate memory from the device's heap (malloc in device code). unknown: machine code is compressed, or there is only PTX.
enum class Heap { unused, used, unknown };
Heap heap_in(const unsigned char *fat);

} // namespace lazy
#endif
