// runtime_copy.cc: copies and fills of every shape, all through one function.
#include <string.h>

#include "runtime_memory.h"

namespace fake {

namespace {

enum class Side { device, pinned, pageable };

Side side_of(const void *address)
{
	const Segment *s = node()->find(address);

	if (s == nullptr)
		return Side::pageable;
	return s->on_device() || s->kind == Segment::managed ? Side::device : Side::pinned;
}

size_t extent(size_t pitch, size_t slice, const Copy &c)
{
	return (c.depth - 1) * slice + (c.height - 1) * pitch + c.width;
}

bool wrong_side(Side side, bool device, const void *address, size_t bytes)
{
	if (device)
		return side != Side::device || node()->cover(address, bytes).empty();
	const Segment *s = node()->find(address);
	return s != nullptr && s->on_device();
}

// A copy whose kind or range does not fit its pointers is refused when it is made.
int check(const Copy &c, int kind)
{
	const bool any = kind == cudaMemcpyDefault;
	const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

	if (kind < 0 || kind > cudaMemcpyDefault)
		return 21; // cudaErrorInvalidMemcpyDirection
	if ((c.to_pitch < c.width || c.from_pitch < c.width) && c.height > 1)
		return 12; // cudaErrorInvalidPitchValue
	if (c.to == nullptr || c.from == nullptr)
		return cudaErrorInvalidValue;
	const Side to = side_of(c.to), from = side_of(c.from);
	if (wrong_side(to, any ? to == Side::device : to_device, c.to, extent(c.to_pitch, c.to_slice, c)) ||
	    wrong_side(from, any ? from == Side::device : from_device, c.from, extent(c.from_pitch, c.from_slice, c)))
		return cudaErrorInvalidValue;
	return 0;
}

// Pageable sources are read before the call returns, which need not be the end of the
// copy: a synchronous one only waits for its stream first (CUDA Runtime API, "API
// synchronization behavior").
std::shared_ptr<std::vector<char>> staged(Copy &c)
{
	auto rows = std::make_shared<std::vector<char>>(c.width * c.height * c.depth);

	for (size_t z = 0; z < c.depth; z++)
		for (size_t y = 0; y < c.height; y++)
			memcpy(rows->data() + (z * c.height + y) * c.width,
			       c.from + z * c.from_slice + y * c.from_pitch, c.width);
	c.from = rows->data();
	c.from_pitch = c.width;
	c.from_slice = c.width * c.height;
	return rows;
}

} // namespace

int transfer(Copy c, int kind, cudaStream_t handle, bool async, bool peer)
{
	Stream *s;
	int error = node()->stream(handle, self().device, &s);

	if (error != 0 || c.width == 0 || c.height == 0 || c.depth == 0)
		return error;
	error = check(c, kind);
	if (error != 0)
		return error;
	const Side to = side_of(c.to), from = side_of(c.from);
	const bool captured = s->capture != nullptr;
	if (captured && !async)
		return 900; // cudaErrorStreamCaptureUnsupported
	std::shared_ptr<std::vector<char>> rows;
	const bool is_staged = from == Side::pageable && to == Side::device && !captured;
	if (is_staged && !async)
		node()->run(s, s->submitted);
	if (is_staged)
		rows = staged(c);
	const int device = s->device;
	node()->submit(s, [c, device, peer, rows] { return node()->copy(device, peer, c); });
	const bool between_devices = to == Side::device && from == Side::device;
	if (!captured && ((!async && !between_devices && !is_staged) || (async && to == Side::pageable)))
		node()->run(s, s->submitted);
	return 0;
}

namespace {

int fill(void *to, size_t pitch, size_t slice, int value, size_t width, size_t height, size_t depth,
         cudaStream_t handle)
{
	const Copy c = {static_cast<char *>(to), pitch, slice, nullptr, 0, 0, width, height, depth};
	Stream *s;
	int error = node()->stream(handle, self().device, &s);

	if (error != 0 || width == 0 || height == 0 || depth == 0)
		return error;
	if (pitch < width && height > 1)
		return 12; // cudaErrorInvalidPitchValue
	if (side_of(to) == Side::pageable || node()->cover(to, extent(pitch, slice, c)).empty())
		return cudaErrorInvalidValue;
	const int device = s->device;
	node()->submit(s, [c, device, value] { return node()->fill(device, c, static_cast<unsigned>(value), 1); });
	return 0;
}

Copy line(void *to, const void *from, size_t bytes)
{
	return {static_cast<char *>(to), bytes, bytes, static_cast<const char *>(from), bytes, bytes, bytes, 1, 1};
}

Copy rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height)
{
	return {static_cast<char *>(to), to_pitch, to_pitch * height, static_cast<const char *>(from), from_pitch,
	        from_pitch * height, width, height, 1};
}

struct Place { // one side of a cudaMemcpy3DParms
	cudaArray_t array;
	cudaPos at;
	cudaPitchedPtr memory;
};

// is_on: a copy between devices must name the device that its memory is on.
int is_on(int device, const void *memory)
{
	const Segment *s = node()->find(memory);

	if (s == nullptr || !s->on_device() || s->device == the_host || s->device == device)
		return 0;
	return node()->violation("a copy names device " + text(device) + ", its memory is on " + text(s->device));
}

// resolve turns a place into address, pitch and slice. Widths are in elements
// where an array takes part, so it also scales the extent.
char *resolve(const Place &p, size_t element, size_t *pitch, size_t *slice)
{
	if (p.array != nullptr) {
		const Array *a = array_of(p.array);
		*pitch = a->width;
		*slice = a->width * a->height;
		return static_cast<char *>(a->memory) + p.at.z * *slice + p.at.y * *pitch + p.at.x * element;
	}
	*pitch = p.memory.pitch;
	*slice = p.memory.pitch * p.memory.ysize;
	return static_cast<char *>(p.memory.ptr) + p.at.z * *slice + p.at.y * *pitch + p.at.x;
}

int transfer_3d(const Place &to, const Place &from, cudaExtent extent, int kind, cudaStream_t stream, bool async,
                bool peer = false)
{
	size_t element = 1;

	for (cudaArray_t handle : {to.array, from.array})
		if (handle != nullptr) {
			if (array_of(handle) == nullptr)
				return node()->violation("copy of no array");
			element = array_of(handle)->element;
		}
	Copy c = {};
	c.to = resolve(to, element, &c.to_pitch, &c.to_slice);
	c.from = const_cast<const char *>(resolve(from, element, &c.from_pitch, &c.from_slice));
	c.width = extent.width * element;
	c.height = extent.height;
	c.depth = extent.depth;
	return transfer(c, kind, stream, async, peer);
}

int transfer_3d_peer(const cudaMemcpy3DPeerParms &p, cudaStream_t stream, bool async)
{
	int error = is_on(p.srcDevice, p.srcPtr.ptr);

	if (error == 0)
		error = is_on(p.dstDevice, p.dstPtr.ptr);
	return error != 0 ? error :
	       transfer_3d({p.dstArray, p.dstPos, p.dstPtr}, {p.srcArray, p.srcPos, p.srcPtr}, p.extent,
	                   cudaMemcpyDeviceToDevice, stream, async, true);
}

int with_array(cudaArray_t handle, size_t x, size_t y, void *other, size_t pitch, size_t width, size_t height,
               bool to_array, int kind, cudaStream_t stream, bool async)
{
	const Array *a = array_of(handle);

	if (a == nullptr)
		return node()->violation("copy of no array");
	char *place = static_cast<char *>(a->memory) + y * a->width + x;
	return transfer(to_array ? rows(place, a->width, other, pitch, width, height) :
	                rows(other, pitch, place, a->width, width, height), kind, stream, async);
}

int with_symbol(const void *symbol, size_t offset, const void *other, size_t bytes, bool to_symbol, int kind,
                cudaStream_t stream, bool async)
{
	void *address;
	size_t size;
	int error = node()->variable(symbol, self().device, &address, &size);

	if (error != 0)
		return error;
	if (offset + bytes > size)
		return cudaErrorInvalidValue;
	char *place = static_cast<char *>(address) + offset;
	return transfer(to_symbol ? line(place, other, bytes) : line(const_cast<void *>(other), place, bytes), kind,
	                stream, async);
}

} // namespace
} // namespace fake

using namespace fake;

// BOTH defines a call and its Async sibling, which has a stream at its end.
#define UNPACK(...) __VA_ARGS__
#define BODY(body)                                 \
	[&]() -> int {                             \
		static_cast<void>(async);          \
		body                               \
	}
#define BOTH(name, parameters, traced, body)                                                \
	API cudaError_t name(UNPACK parameters)                                             \
	{                                                                                   \
		const cudaStream_t stream = nullptr;                                        \
		const bool async = false;                                                   \
		return call(#name, Needs::context, BODY(body), UNPACK traced);              \
	}                                                                                   \
	API cudaError_t name##Async(UNPACK parameters, cudaStream_t stream)                 \
	{                                                                                   \
		const bool async = true;                                                    \
		return call(#name "Async", Needs::context, BODY(body), UNPACK traced, stream); \
	}

BOTH(cudaMemcpy, (void *to, const void *from, size_t bytes, int kind), (to, from, bytes, kind),
     { return transfer(line(to, from, bytes), kind, stream, async); })
BOTH(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes),
     (to, to_device, from, from_device, bytes),
     { return transfer(line(to, from, bytes), cudaMemcpyDeviceToDevice, stream, async, true); })
BOTH(cudaMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                    int kind), (to, from, width, height, kind),
     { return transfer(rows(to, to_pitch, from, from_pitch, width, height), kind, stream, async); })
BOTH(cudaMemcpy3D, (const cudaMemcpy3DParms *p), (p->dstPtr.ptr, p->srcPtr.ptr, p->kind),
     { return transfer_3d({p->dstArray, p->dstPos, p->dstPtr}, {p->srcArray, p->srcPos, p->srcPtr}, p->extent, p->kind,
	                  stream, async); })
BOTH(cudaMemcpy3DPeer, (const cudaMemcpy3DPeerParms *p), (p->dstPtr.ptr, p->dstDevice, p->srcPtr.ptr, p->srcDevice),
     { return transfer_3d_peer(*p, stream, async); })
BOTH(cudaMemcpy2DToArray, (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                           size_t height, int kind), (to, from, width, height, kind),
     { return with_array(to, x, y, const_cast<void *>(from), pitch, width, height, true, kind, stream, async); })
BOTH(cudaMemcpy2DFromArray, (void *to, size_t pitch, cudaArray_t from, size_t x, size_t y, size_t width,
                             size_t height, int kind), (to, from, width, height, kind),
     { return with_array(from, x, y, to, pitch, width, height, false, kind, stream, async); })
BOTH(cudaMemcpyToArray, (cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, int kind),
     (to, from, bytes, kind),
     { return with_array(to, x, y, const_cast<void *>(from), bytes, bytes, 1, true, kind, stream, async); })
BOTH(cudaMemcpyFromArray, (void *to, cudaArray_t from, size_t x, size_t y, size_t bytes, int kind),
     (to, from, bytes, kind),
     { return with_array(from, x, y, to, bytes, bytes, 1, false, kind, stream, async); })
BOTH(cudaMemcpyToSymbol, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
     (symbol, from, bytes, offset, kind),
     { return with_symbol(symbol, offset, from, bytes, true, kind, stream, async); })
BOTH(cudaMemcpyFromSymbol, (void *to, const void *symbol, size_t bytes, size_t offset, int kind),
     (to, symbol, bytes, offset, kind),
     { return with_symbol(symbol, offset, to, bytes, false, kind, stream, async); })
BOTH(cudaMemset, (void *to, int value, size_t bytes), (to, value, bytes),
     { return fill(to, bytes, bytes, value, bytes, 1, 1, stream); })
BOTH(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height), (to, value, width, height),
     { return fill(to, pitch, pitch * height, value, width, height, 1, stream); })
BOTH(cudaMemset3D, (cudaPitchedPtr to, int value, cudaExtent extent),
     (to.ptr, value, extent.width, extent.height, extent.depth),
     { return fill(to.ptr, to.pitch, to.pitch * to.ysize, value, extent.width, extent.height, extent.depth, stream); })
