// explicit.h: tasks that the program asks for itself (explicit.cc).
#ifndef CASE_LAZY_EXPLICIT_H
#define CASE_LAZY_EXPLICIT_H

#include <stdint.h>

#include "device/device.h"
#include "probe/case.h"

namespace lazy {

// Cover is the sum of the open explicit tasks on a device.
struct Cover {
	unsigned tasks;
	uint64_t bytes, heap; // bytes
};
Cover cover_of(int device); // as the program counts devices
bool has_explicit();        // the process has asked for a task
bool is_explicit(uint64_t id); // an open task that the program has asked for
bool asks_here();           // a request waits for the device that the process has
// note_explicit notes a task that is granted. Under task binding the program knows its device as 0.
void note_explicit(const case_need &need, case_task *task);
void renew_explicit();      // in a child of fork, which holds none of its parent's tasks

} // namespace lazy
#endif
