// objects.h: the files that the program is made of (objects.cc).
#ifndef CASE_LAZY_OBJECTS_H
#define CASE_LAZY_OBJECTS_H

#include <string>

namespace lazy {

// self_contained: all device code of the program goes through the shared CUDA runtime. A
// program that is not self-contained binds at its first call that needs a device.
bool self_contained();
void meet_driver(); // it is not: somebody uses the driver past the runtime
bool loads_parts(); // the program may load parts that are not self-contained, and pass handles to them

// looks_up: the caller is a part of the program, and not the CUDA runtime or the like.
bool looks_up(const void *caller);
// unserved_part says which part of the program may call the driver past this library: opened so that it binds to other
// libraries first (driver/dlopen.S), or linked with a function that does not pass. "": none.
std::string unserved_part(bool (*passes)(const std::string &function));

// exporting_part says which part of the program can export device memory to other processes. "": none.
std::string exporting_part();
bool asks_for_tasks(); // a part of the program uses the task API of probe/case.h
// known: the object needs no reading. It is part of CUDA, of a tool that only watches CUDA, or
// of the system.
bool known(const char *path);

void renew_looking(); // the lock, in a child of fork

} // namespace lazy
#endif
