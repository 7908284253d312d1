// bypass.h: parts of the program that may give the device work which does not pass the gate
// (bypass.cc).
#ifndef CASE_LAZY_BYPASS_H
#define CASE_LAZY_BYPASS_H

#include <string>

namespace lazy {

// hand_out is what the caller gets for a function of the driver, or nullptr, that it has looked up by that name.
void *hand_out(const char *name, void *function, const void *caller);
// handed_out notes that the caller has got the function itself.
void handed_out(const char *name, const void *function, const void *caller);
// hand_out_table is what the caller gets for a table of functions that cuGetExportTable has found by its id, of 16 bytes.
const void *hand_out_table(const unsigned char *id, const void *table, const void *caller);

// passes_by: the caller calls a function of that name, from which on it may give work past the gate.
void passes_by(const char *name, const void *caller);

// bypass says why work may not pass the gate. "": all work does, also what is given after a gate
// that is closed now has opened.
std::string bypass();

void renew_hand_out(); // in a child of fork

} // namespace lazy
#endif
