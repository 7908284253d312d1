// references.h: what kernels are given (references.cc).
#ifndef CASE_LAZY_REFERENCES_H
#define CASE_LAZY_REFERENCES_H

namespace lazy {

// await_references comes before a launch, and before it passes the gate (task/submit_gate.h). It counts the launch, and notes
// what memory the arguments point into. Where such memory is on the host, it brings the memory to the device.
void await_references(const void *kernel, void **arguments);

// references_unknown is the same for a launch of which nothing is known, such as a graph's.
void references_unknown();

} // namespace lazy
#endif
