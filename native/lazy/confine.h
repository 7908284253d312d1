// confine.h: programs that are not self-contained see one device only (confine.cc).
#ifndef CASE_LAZY_CONFINE_H
#define CASE_LAZY_CONFINE_H

#include "abi.h"

namespace lazy {

// confine leaves the process the one device of that UUID, which is then the driver's device 0.
// false: the process sees all devices, because it is self-contained or somebody has
// initialized the driver. `lock` must be held.
bool confine(const unsigned char uuid[16]);
bool confined();

// ordinal_of is the driver's ordinal of the device of that UUID, -1 where the process does not
// see the device, and `otherwise` where nobody can tell.
int ordinal_of(const unsigned char uuid[16], int otherwise);

// await_confined asks for the device of a program that is to be confined, which must happen
// before the driver is initialized.
cudaError_t await_confined();

void renew_choosing(); // the lock, in a child of fork

} // namespace lazy
#endif
