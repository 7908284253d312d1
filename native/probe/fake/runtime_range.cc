// runtime_range.cc: advice about managed memory, which changes no contents, and
// questions about it. A range is an allocation.
#include "runtime.h"

namespace fake {

enum { nowhere = 0, on_host = 2 }; // cudaMemLocationType, besides CU_MEM_LOCATION_TYPE_DEVICE

struct Range {
	CUmemLocation preferred, prefetched;
	std::vector<int> accessed_by;
};
static std::map<uintptr_t, Range> ranges; // by address

// What attributes before CUDA 12.2 say of a location: cudaCpuDeviceId is -1,
// cudaInvalidDeviceId -2.
static int ordinal(CUmemLocation at)
{
	return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? at.id : at.type == on_host ? -1 : -2;
}

static int range_at(const void *address, Range **out)
{
	const Segment *s = node()->find(address);

	if (s == nullptr || s->kind != Segment::managed)
		return cudaErrorInvalidValue;
	*out = &ranges[s->base];
	return 0;
}

static int check(CUmemLocation at)
{
	const bool device = at.type == CU_MEM_LOCATION_TYPE_DEVICE;
	return device && static_cast<size_t>(at.id) >= node()->devices.size() ? cudaErrorInvalidDevice : 0;
}

static cudaError_t advise(const void *address, size_t bytes, int advice, CUmemLocation at)
{
	return call("cudaMemAdvise", Needs::context, [&] {
		Range *r;
		int error = range_at(address, &r);
		if (error == 0)
			error = check(at);
		if (error == 0 && advice == 3) // cudaMemAdviseSetPreferredLocation
			r->preferred = at;
		if (error == 0 && advice == 5) // cudaMemAdviseSetAccessedBy
			r->accessed_by.push_back(ordinal(at));
		return error;
	}, address, bytes, advice, at.type, at.id);
}

static cudaError_t prefetch(const void *address, size_t bytes, CUmemLocation to, cudaStream_t stream)
{
	return call("cudaMemPrefetchAsync", Needs::context, [&] {
		Range *r;
		Stream *s;
		int error = range_at(address, &r);
		if (error == 0)
			error = check(to);
		if (error == 0)
			error = node()->stream(stream, self().device, &s);
		if (error == 0)
			r->prefetched = to;
		return error;
	}, address, bytes, to.type, to.id, stream);
}

static int attribute(int *out, size_t bytes, int which, const Range &r)
{
	const size_t count = bytes / sizeof *out;

	if (count == 0 || (which != cudaMemRangeAttributeAccessedBy && count != 1))
		return cudaErrorInvalidValue;
	switch (which) {
	case cudaMemRangeAttributePreferredLocation: *out = ordinal(r.preferred); return 0;
	case cudaMemRangeAttributeLastPrefetchLocation: *out = ordinal(r.prefetched); return 0;
	case cudaMemRangeAttributeAccessedBy:
		for (size_t i = 0; i < count; i++)
			out[i] = i < r.accessed_by.size() ? r.accessed_by[i] : -2;
		return 0;
#if FAKE_CUDART >= 12020
	case cudaMemRangeAttributePreferredLocationType: *out = r.preferred.type; return 0;
	case cudaMemRangeAttributePreferredLocationId: *out = r.preferred.id; return 0;
	case cudaMemRangeAttributeLastPrefetchLocationType: *out = r.prefetched.type; return 0;
	case cudaMemRangeAttributeLastPrefetchLocationId: *out = r.prefetched.id; return 0;
#endif
	default: return cudaErrorInvalidValue;
	}
}

} // namespace fake

using namespace fake;

#if FAKE_CUDART >= 13000
API cudaError_t cudaMemAdvise(const void *address, size_t bytes, int advice, CUmemLocation at)
{
	return advise(address, bytes, advice, at);
}

API cudaError_t cudaMemPrefetchAsync(const void *address, size_t bytes, CUmemLocation to, unsigned, cudaStream_t stream)
{
	return prefetch(address, bytes, to, stream);
}
#else
static CUmemLocation location(int device)
{
	return {device >= 0 ? static_cast<int>(CU_MEM_LOCATION_TYPE_DEVICE) : static_cast<int>(on_host), device};
}

API cudaError_t cudaMemAdvise(const void *address, size_t bytes, int advice, int device)
{
	return advise(address, bytes, advice, location(device));
}

API cudaError_t cudaMemPrefetchAsync(const void *address, size_t bytes, int device, cudaStream_t stream)
{
	return prefetch(address, bytes, location(device), stream);
}
#endif

API cudaError_t cudaMemRangeGetAttribute(void *data, size_t bytes, int which, const void *address, size_t length)
{
	return call("cudaMemRangeGetAttribute", Needs::context, [&] {
		Range *r;
		int error = range_at(address, &r);
		return error == 0 ? attribute(static_cast<int *>(data), bytes, which, *r) : error;
	}, which, address, length);
}

API cudaError_t cudaMemRangeGetAttributes(void **data, size_t *bytes, int *which, size_t count, const void *address,
                                          size_t length)
{
	return call("cudaMemRangeGetAttributes", Needs::context, [&] {
		Range *r;
		int error = range_at(address, &r);
		for (size_t i = 0; error == 0 && i < count; i++)
			error = attribute(static_cast<int *>(data[i]), bytes[i], which[i], *r);
		return error;
	}, count, address, length);
}
