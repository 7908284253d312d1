// runtime_range.cc: advice about managed memory, which changes no contents, and
// questions about it. A range is an allocation.
#include "runtime_memory.h"

namespace fake {

enum { nowhere = 0, on_host = 2 }; // cudaMemLocationType, besides CU_MEM_LOCATION_TYPE_DEVICE

struct Range {
	CUmemLocation preferred, prefetched;
	std::vector<int> accessed_by;
};
static auto &ranges = *new std::map<uintptr_t, Range>; // by address

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

// CUDA 13.4 has a part of a device, whose ordinal is in a byte.
static const int device_part = CU_MEM_LOCATION_TYPE_INVISIBLE + 1;

int is_place(CUmemLocation at)
{
	const size_t device = static_cast<size_t>(at.type == device_part ? at.id & 0xff : at.id);

	if (at.type < 0 || at.type > device_part)
		return cudaErrorInvalidValue;
	if (at.type != CU_MEM_LOCATION_TYPE_DEVICE && at.type != device_part)
		return 0;
	return device >= node()->devices.size() ? cudaErrorInvalidDevice : 0;
}

static cudaError_t advise(const void *address, size_t bytes, int advice, CUmemLocation at)
{
	return call("cudaMemAdvise", Needs::context, [&] {
		Range *r;
		int error = range_at(address, &r);
		if (error == 0)
			error = is_place(at);
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
			error = is_place(to);
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

static cudaError_t prefetch_batch(const char *name, void **memory, size_t count, const CUmemLocation *to, size_t *first,
                                  size_t locations, cudaStream_t stream)
{
	std::string places;
	for (size_t l = 0; l < locations; l++)
		places += (l == 0 ? "" : ",") + text(to[l].type) + ":" + text(to[l].id);
	return call(name, Needs::context, [&] {
		Stream *s;
		int error = node()->stream(stream, self().device, &s);
		for (size_t i = 0, l = 0; error == 0 && i < count; i++) {
			Range *r;
			error = range_at(memory[i], &r);
			l += l + 1 < locations && first[l + 1] == i;
			if (error == 0 && locations != 0)
				error = is_place(to[l]);
			if (error == 0 && locations != 0)
				r->prefetched = to[l];
		}
		return error;
	}, count, places.c_str());
}

API cudaError_t cudaMemPrefetchBatchAsync(void **memory, size_t *, size_t count, CUmemLocation *to, size_t *first,
                                          size_t locations, unsigned long long, cudaStream_t stream)
{
	return prefetch_batch("cudaMemPrefetchBatchAsync", memory, count, to, first, locations, stream);
}

API cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **memory, size_t *, size_t count, CUmemLocation *to,
        size_t *first, size_t locations, unsigned long long, cudaStream_t stream)
{
	return prefetch_batch("cudaMemDiscardAndPrefetchBatchAsync", memory, count, to, first, locations, stream);
}

API cudaError_t cudaMemDiscardBatchAsync(void **memory, size_t *, size_t count, unsigned long long, cudaStream_t stream)
{
	return prefetch_batch("cudaMemDiscardBatchAsync", memory, count, nullptr, nullptr, 0, stream);
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
