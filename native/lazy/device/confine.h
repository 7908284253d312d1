// confine.h: programs that see one device only (confine.cc).
#ifndef CASE_LAZY_CONFINE_H
#define CASE_LAZY_CONFINE_H

#include <string>

#include "abi/abi.h"

namespace lazy {

// to_confine: the process is to see one device. That holds for programs that are not self-contained, and for all programs of a
// run with instances of MIG. awaits_device: it holds for a self-contained program, whose driver must not start before the grant.
bool to_confine();
bool awaits_device();

// confine leaves the process the one device of that UUID, which is then the driver's device 0.
// false: the process sees all devices, because it is not to be confined or somebody has
// initialized the driver. `lock` must be held.
bool confine(const unsigned char uuid[16]);
bool confined();

// ordinal_of is the driver's ordinal of the device of that UUID, -1 where the process does not
// see the device, and `otherwise` where nobody can tell.
int ordinal_of(const unsigned char uuid[16], int otherwise);

// init_driver is the driver's cuInit, and notes that it was called. driver_started: somebody has
// called it.
CUresult init_driver(unsigned flags);
bool driver_started();

// visible_at_start is CUDA_VISIBLE_DEVICES as the program found it.
std::string visible_at_start();

void renew_choosing(); // the lock, in a child of fork

} // namespace lazy
#endif
