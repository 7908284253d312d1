// references.h: what kernels are given (references.cc).
#ifndef CASE_LAZY_REFERENCES_H
#define CASE_LAZY_REFERENCES_H

#include <vector>

#include "abi/abi.h"
#include "program/cubin.h"

struct CUlaunchConfig;

namespace lazy {

// await_references comes before a launch, and before it passes the gate (task/submit_gate.h). It counts the launch, and notes
// what memory the arguments point into. Where such memory is on the host, it brings the memory to the device.
void await_references(const void *kernel, void **arguments);

// DriverLaunch is a launch as the driver is given it. What its parameters are may be unknown.
struct DriverLaunch {
	DriverLaunch(void *what, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t, void **given, void ** = nullptr)
	    : kernel(what), arguments(given) {}
	DriverLaunch(const CUlaunchConfig *, void *what, void **given, void **) : kernel(what), arguments(given) {}
	DriverLaunch(void *, cudaStream_t) {} // a graph

	void *const kernel = nullptr;
	void **const arguments = nullptr;
};
// await_driver_references is await_references for such a launch.
void await_driver_references(const DriverLaunch &launch);

// references_unknown is the same for a launch of which nothing is known, such as a graph's.
void references_unknown();

// parameters_of_function asks the driver for the parameters of a function. false: it does not tell them.
bool parameters_of_function(void *function, std::vector<Parameter> *found);

} // namespace lazy
#endif
