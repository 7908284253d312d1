// addresses.h: addresses of device memory, also before the driver is initialized (addresses.cc).
#ifndef CASE_LAZY_ADDRESSES_H
#define CASE_LAZY_ADDRESSES_H

#include <stddef.h>

#include "abi/abi.h"

namespace lazy {

// reserve_addresses is cuMemAddressReserve. If the process awaits its device (confine.h), it keeps the addresses itself
// until the driver starts. false: there are none. free_addresses gives back what reserve_addresses has given. `lock` is held.
bool reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr *start);
void free_addresses(CUdeviceptr start, size_t bytes);

// let_go_of_addresses comes right before the driver is initialized, and take_addresses_again right after.
// addresses_are_lost: the driver has not given what was kept.
void let_go_of_addresses();
void take_addresses_again();
bool addresses_are_lost();

void renew_addresses(); // the lock, in a child of fork

} // namespace lazy
#endif
