// record.h: what is replayed when the task binds (record.cc).
#ifndef CASE_LAZY_RECORD_H
#define CASE_LAZY_RECORD_H

#include <functional>
#include <initializer_list>
#include <memory>

#include "memory/memory.h"

namespace lazy {

using Operation = std::function<cudaError_t()>;

// record appends an operation that only touches memory, the first of which it fills: it
// disappears with the memory. record_kept appends an operation that is replayed in any case.
void record(const char *call, Operation run, std::initializer_list<Allocation *> touches);
void record_kept(const char *call, Operation run);
// record_wait: the program is told that what is recorded so far is over. What it does next, in
// any stream, comes after it.
void record_wait();
bool recorded(); // something is
// drop_allocation drops an allocation of reserve that the program frees (memory/memory.h). What fills it in the record
// goes with it, unless another operation reads it first. drop_retired_allocation drops an allocation that was retired.
void drop_allocation(const void *address);
void drop_retired_allocation(uintptr_t base);
// await_replay runs the record. An operation that fails is reported. The first failure that
// stays, or is of missing memory, keeps the task from being bound.
cudaError_t await_replay();
void forget_record(); // of memory, once nothing is allocated
void clear_record();

// snapshot copies rows of host memory, or returns nullptr when that would exceed the limit.
std::shared_ptr<void> snapshot(const void *from, size_t width, size_t pitch, size_t rows);

// promise notes that a host buffer is recorded by reference: the next synchronization must
// bind.
void promise();
bool promised();

} // namespace lazy
#endif
