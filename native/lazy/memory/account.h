// account.h: to what the memory of the process is charged. Memory tells the account what it takes and gives back;
// the process's task is the account (task/task.cc).
#ifndef CASE_LAZY_ACCOUNT_H
#define CASE_LAZY_ACCOUNT_H

#include <stdint.h>

namespace lazy::account {

void count(int objects, int64_t bytes); // come into use, or go out of use
void made(uint64_t bytes);              // are there now, or will never be (Task::await_range)
void release_evicted(uint64_t bytes);   // that were on the host when they were freed
uint64_t in_use();                      // bytes
uint64_t charged();                     // the same with the device heap
void moved();                           // between the device and the host, or memory of the device was made or dropped

} // namespace lazy::account
#endif
