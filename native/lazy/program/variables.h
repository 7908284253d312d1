// variables.h: the program's variables on the device (variables.cc).
#ifndef CASE_LAZY_VARIABLES_H
#define CASE_LAZY_VARIABLES_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace lazy {

// inside_variable: [offset, offset + bytes) is within the device variable that CUDA calls by
// this host address.
bool inside_variable(const void *symbol, size_t offset, size_t bytes);

// variable_bytes is how much the program's variables take on each device that it uses.
uint64_t variable_bytes();

// know_variable: the CUDA runtime is told of the variable (runtime/registration.cc). It returns by how many bytes
// variable_bytes has grown.
size_t know_variable(const void *symbol, size_t bytes);

// Variable is one that CUDA calls by a host address. known_variables are all that the runtime was ever told of.
struct Variable {
	const void *symbol;
	size_t bytes;
};
std::vector<Variable> known_variables();

} // namespace lazy
#endif
