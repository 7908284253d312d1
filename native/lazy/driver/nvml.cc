// nvml.cc: how many devices NVML counts.
//
// PyTorch counts the devices with NVML before it starts CUDA. If the CUDA runtime then counts
// fewer, PyTorch takes that for an error. So a program that sees one device is told of one where it
// looks up NVML's count. Nothing else of NVML changes.
//
// NVML counts all devices of the machine, including devices that the run does not use. PyTorch
// searches the first `count` of them for the devices that CUDA_VISIBLE_DEVICES names
// (torch/cuda/__init__.py, _device_count_nvml), and stops at the first that is missing. So the
// count ends with the first device that is named, which PyTorch then finds. If the first device is an
// instance of MIG, PyTorch does not count with NVML, but asks the CUDA runtime.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "abi/symbols.h"
#include "device/confine.h"
#include "program/mode.h"
#include "overrides.h"

namespace lazy {
namespace {

const char *const names[] = {"nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"};
std::atomic<void *> found_as[2];

// index_of_first is NVML's number of the first device that CUDA_VISIBLE_DEVICES
// names by its UUID, else 0. beside is a function of NVML's.
unsigned index_of_first(void *beside)
{
	const std::string list = visible_at_start(), first = list.substr(0, list.find(','));
	unsigned index = 0;
	void *device = nullptr;
	Dl_info info;

	if (first.rfind("GPU-", 0) != 0 || dladdr(beside, &info) == 0)
		return 0;
	void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (library == nullptr)
		return 0;
	const auto handle = reinterpret_cast<int (*)(const char *, void **)>(
		real_dlsym(library, "nvmlDeviceGetHandleByUUID"));
	const auto number = reinterpret_cast<int (*)(void *, unsigned *)>(real_dlsym(library, "nvmlDeviceGetIndex"));
	const bool known = handle != nullptr && number != nullptr && handle(first.c_str(), &device) == 0 &&
	                   number(device, &index) == 0;
	dlclose(library);
	return known ? index : 0;
}

template <int n> int count(unsigned *devices)
{
	void *const real = found_as[n].load();
	const int result = reinterpret_cast<int (*)(unsigned *)>(real)(devices);

	if (result == 0 && *devices > 1)
		if (const unsigned one = index_of_first(real) + 1; one < *devices)
			*devices = one;
	return result;
}

int number_of(const char *name)
{
	for (int n = 0; n < 2; n++)
		if (strcmp(name, names[n]) == 0)
			return n;
	return -1;
}

} // namespace

bool counts_devices(const char *name) { return number_of(name) >= 0; }

void *instead_of(void *found, const char *name)
{
	const int n = number_of(name);

	if (found == nullptr || !one_device())
		return found;
	found_as[n].store(found);
	return n == 0 ? reinterpret_cast<void *>(count<0>) : reinterpret_cast<void *>(count<1>);
}

} // namespace lazy
