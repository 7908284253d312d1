// bypass.h: parts of the program that may give the device work which does not pass the gate
// (bypass.cc).
#ifndef CASE_LAZY_BYPASS_H
#define CASE_LAZY_BYPASS_H

#include <string>

namespace lazy {

// handed_out notes that the caller has got a function of the driver, or nullptr, by that name.
void handed_out(const char *name, const void *function, const void *caller);

// bypass says why work may not pass the gate. "": all work does, also what is given after a gate
// that is closed now has opened.
std::string bypass();

} // namespace lazy
#endif
