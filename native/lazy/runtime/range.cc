// range.cc: ranges of managed memory, whose attributes are devices.
#include "abi/api.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "program/mode.h"
#include "task/direct.h"

namespace lazy {
namespace {

// is_device: the attribute is the identifier of a location that is a device.
bool is_device(int attribute, const void *range, size_t length)
{
	int type = 0;
	const int asked = attribute == cudaMemRangeAttributePreferredLocationId ?
	                  cudaMemRangeAttributePreferredLocationType : cudaMemRangeAttributeLastPrefetchLocationType;

	return REAL(cudaMemRangeGetAttribute)(&type, sizeof type, asked, range, length) == cudaSuccess &&
	       type == CU_MEM_LOCATION_TYPE_DEVICE;
}

// show replaces the devices in an attribute's value by what the program knows
// them as.
void show(void *data, size_t bytes, int attribute, const void *range, size_t length)
{
	int *const devices = static_cast<int *>(data);

	if (!one_device())
		return;
	switch (attribute) {
	case cudaMemRangeAttributePreferredLocationId:
	case cudaMemRangeAttributeLastPrefetchLocationId:
		if (!is_device(attribute, range, length))
			return;
		break;
	case cudaMemRangeAttributePreferredLocation:
	case cudaMemRangeAttributeAccessedBy:
	case cudaMemRangeAttributeLastPrefetchLocation:
		break;
	default:
		return;
	}
	for (size_t i = 0; i < bytes / sizeof *devices; i++)
		devices[i] = real_to_visible(devices[i]);
}

} // namespace
} // namespace lazy

using namespace lazy;

cudaError_t cudaMemRangeGetAttribute(void *data, size_t bytes, int attribute, const void *range, size_t length)
{
	return direct("cudaMemRangeGetAttribute", [=] {
		cudaError_t error = REAL(cudaMemRangeGetAttribute)(data, bytes, attribute, range, length);
		if (error == cudaSuccess)
			show(data, bytes, attribute, range, length);
		return error;
	});
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *bytes, int *attributes, size_t count, const void *range,
                                      size_t length)
{
	return direct("cudaMemRangeGetAttributes", [=] {
		cudaError_t error = REAL(cudaMemRangeGetAttributes)(data, bytes, attributes, count, range, length);
		for (size_t i = 0; error == cudaSuccess && i < count; i++)
			show(data[i], bytes[i], attributes[i], range, length);
		return error;
	});
}
