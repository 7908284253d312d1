// settings.h: what the program has set of its context and of its kernels (settings.cc). The context of another device does not have it.
#ifndef CASE_LAZY_SETTINGS_H
#define CASE_LAZY_SETTINGS_H

#include <functional>
#include <tuple>

#include "abi/abi.h"

namespace lazy {

struct Setting {
	enum Of { limit, cache, banks, kernel_attribute, kernel_cache, kernel_banks } of;
	const void *kernel; // nullptr: it is the context's
	int number;         // of the limit or attribute
	bool operator<(const Setting &other) const { return std::tie(of, kernel, number) < std::tie(other.of, other.kernel, other.number); }
};

// make_setting calls CUDA, and keeps what it has set. If the process moves meanwhile, it sets it there too.
cudaError_t make_setting(const Setting &what, const std::function<cudaError_t()> &set);

// make_settings_again sets all that is kept in the thread's context. false: CUDA refuses. `lock` is held.
bool make_settings_again();
void forget_settings(); // the context is gone. `lock` is held

} // namespace lazy
#endif
