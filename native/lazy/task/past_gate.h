// past_gate.h: parts of the program that may give the device work which does not pass the gate
// (past_gate.cc).
#ifndef CASE_LAZY_PAST_GATE_H
#define CASE_LAZY_PAST_GATE_H

#include <string>

namespace lazy {

// handed_out notes that the caller has got a function of the driver, or nullptr, by that name.
void handed_out(const char *name, const void *function, const void *caller);

// past_gate says why work may not pass the gate. "": all work does, also what is given after a gate
// that is closed now has opened.
std::string past_gate();

} // namespace lazy
#endif
