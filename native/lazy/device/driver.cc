// driver.cc: see driver.h.
#include "driver.h"

#include "abi/symbols.h"
#include "confine.h"

namespace lazy {

template <typename F> static bool load(F *&to, const char *name)
{
	to = reinterpret_cast<F *>(driver_symbol(name));
	return to != nullptr;
}

const Driver *driver()
{
	if (awaits_device())
		return nullptr;
	static Driver d;
	static const bool usable = [] {
		int devices = 0;
		return load(d.device_count, "cuDeviceGetCount") &&
		       load(d.device_total_memory, "cuDeviceTotalMem_v2") &&
		       load(d.granularity, "cuMemGetAllocationGranularity") &&
		       load(d.reserve, "cuMemAddressReserve") &&
		       load(d.unreserve, "cuMemAddressFree") && load(d.create, "cuMemCreate") &&
		       load(d.release, "cuMemRelease") && load(d.map, "cuMemMap") &&
		       load(d.unmap, "cuMemUnmap") && load(d.set_access, "cuMemSetAccess") &&
		       load(d.get_current, "cuCtxGetCurrent") && load(d.set_current, "cuCtxSetCurrent") &&
		       load(d.current_device, "cuCtxGetDevice") &&
		       init_driver(0) == CUDA_SUCCESS && d.device_count(&devices) == CUDA_SUCCESS && devices > 0;
	}();
	return usable ? &d : nullptr;
}

} // namespace lazy
