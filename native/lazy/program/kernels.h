// kernels.h: the program's kernels, as the CUDA runtime is told of them (kernels.cc).
#ifndef CASE_LAZY_KERNELS_H
#define CASE_LAZY_KERNELS_H

#include <stdint.h>

#include <string>

#include "cubin.h"

namespace lazy {

struct Kernel {
	const unsigned char *fat; // the fat binary with its machine code (cubin.h)
	const void *host;         // the function that stands for it in the program
	std::string name;         // in the machine code
};

// kernel_at finds a kernel by its host function, or by a handle that the runtime has given for it.
bool kernel_at(const void *function, Kernel *found);
// kernels_version changes when what kernel_at has found, or what is known of a function of the driver, may have changed.
uint64_t kernels_version();
// heap_use is heap_in of all machine code that the CUDA runtime was told of.
Heap heap_use();
void forget_functions(); // a module of the driver's goes

// What the CUDA runtime is told (runtime/registration.cc): a fat binary, by the handle that the runtime gives for
// it, a kernel in it, and a handle that the runtime has given for a kernel.
void know_binary(void **handle, const unsigned char *fat);
void forget_binary(void **handle); // its library goes, and its code with it
void know_kernel(void **binary, const void *host, const char *name);
void know_handle(const void *handle, const void *host);

} // namespace lazy
#endif
