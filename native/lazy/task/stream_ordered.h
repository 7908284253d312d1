// stream_ordered.h: memory that the program has freed in the order of a stream (stream_ordered.cc).
#ifndef CASE_LAZY_STREAM_ORDERED_H
#define CASE_LAZY_STREAM_ORDERED_H

#include <stddef.h>
#include <stdint.h>

#include <functional>

#include "abi/abi.h"

namespace lazy {

// Order is the place of an allocation or a free in a stream, as the program knows it.
struct Order {
	cudaStream_t stream;
	bool own; // no stream is the thread's own one
};

// free_in_order frees memory of this library once the stream has done what it has been given so far. It does not wait.
// false: the driver cannot tell when, so the caller has to wait.
bool free_in_order(void *memory, const Order &order);

// reuse_freed makes an allocation in memory that has been freed in the same stream, if there is some of about the size.
// It does not wait either. nullptr: there is none.
void *reuse_freed(size_t bytes, const Order &order);

// drop_reached gives back what streams are done with. frees_ahead: there are frees that no stream has reached, as far as is known.
void drop_reached();
bool frees_ahead();

// await_freed gives back what streams are done with until `enough`. false: not within a short time, or never.
bool await_freed(const std::function<bool()> &enough);

// await_end ends the task if the program has freed all of its memory and the device has no work, or soon has none.
void await_end(const char *call);

void forget_freed(); // cudaDeviceReset
void renew_freed();  // in a child of fork

} // namespace lazy
#endif
