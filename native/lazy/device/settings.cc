// settings.cc: see settings.h.
#include "settings.h"

#include <map>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "program/mode.h"

namespace lazy {

static std::map<Setting, std::function<cudaError_t()>> &kept()
{
	static auto *const all = new std::map<Setting, std::function<cudaError_t()>>;
	return *all;
}

cudaError_t make_setting(const Setting &what, const std::function<cudaError_t()> &set)
{
	for (;;) {
		const unsigned epoch = device_epoch();
		use_device();
		const cudaError_t error = set();
		if (error != cudaSuccess || !one_device())
			return error;
		Locked locked;
		if (epoch == device_epoch()) {
			kept()[what] = set;
			return error;
		}
	}
}

bool make_settings_again()
{
	for (const auto &setting : kept()) {
		const cudaError_t error = setting.second();
		if (error == cudaErrorInvalidDeviceFunction) // its part of the program is gone
			REAL(cudaGetLastError)();
		else if (error != cudaSuccess)
			return false;
	}
	return true;
}

void forget_settings() { kept().clear(); }

} // namespace lazy
