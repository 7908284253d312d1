// seems.h: how much memory a device seems to have (seems.cc).
#ifndef CASE_LAZY_SEEMS_H
#define CASE_LAZY_SEEMS_H

#include <stddef.h>

namespace lazy {

class Task;

// seems is how many bytes a device of so many seems to have.
size_t seems(size_t total);

// await_seems makes what the driver says of the task's device what a program can have there: *total as seems, and no
// more of *free than the run limits the task to, or than the scheduler would give it now.
void await_seems(const Task &task, size_t *free, size_t *total);

} // namespace lazy
#endif
