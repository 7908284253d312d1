// nvml.cc: libnvidia-ml.so.1, as far as programs count devices with it. It counts
// the node's, whatever CUDA_VISIBLE_DEVICES says, and answers FAKE_NVML_FAIL if set.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API extern "C" __attribute__((visibility("default")))

API int nvmlDeviceGetCount_v2(unsigned *count)
{
	const char *fail = getenv("FAKE_NVML_FAIL"), *devices = getenv("FAKE_CUDA_DEVICES");

	if (fail != nullptr)
		return atoi(fail);
	*count = devices != nullptr ? static_cast<unsigned>(atoi(devices)) : 2;
	return 0;
}

// A device's handle is its number and one; machine.cc ends its UUID with the number.
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	if (strncmp(uuid, "GPU-ca5e", 8) != 0)
		return 6; // NVML_ERROR_NOT_FOUND
	*device = reinterpret_cast<void *>(static_cast<uintptr_t>(strtoul(strrchr(uuid, '-') + 1, nullptr, 16) + 1));
	return 0;
}

API int nvmlDeviceGetIndex(void *device, unsigned *index)
{
	*index = static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1;
	return 0;
}

API int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }
