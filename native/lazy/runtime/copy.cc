// copy.cc: copies and sets.
//
// While the task is unbound, calls that would write device memory are recorded. A synchronous
// copy has read its source when it returns, and so has an asynchronous copy from pageable memory
// (CUDA Runtime API, "API synchronization behavior"). So the source is copied here.
// The program keeps page-locked memory that an asynchronous copy reads unchanged until the next
// synchronization. That synchronization binds.
#include <string.h>

#include <memory>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "launch/work.h"
#include "memory/memory.h"
#include "program/variables.h"
#include "task/direct.h"
#include "task/record.h"
#include "task/report.h"
#include "task/task.h"

namespace lazy {
namespace {

struct Rows {
	size_t width, height, to_pitch, from_pitch; // bytes
	bool none() const { return width == 0 || height == 0; }
	size_t to_extent() const { return none() ? 0 : sum(product(height - 1, to_pitch), width); }
	size_t from_extent() const { return none() ? 0 : sum(product(height - 1, from_pitch), width); }
	bool overlap() const { return to_pitch < width || from_pitch < width; } // which CUDA refuses
};

// may_be_device: a source that is not a known allocation may still be device memory that outlives
// tasks, such as a variable. CUDA tells by the address.
bool may_be_device(int kind) { return kind == cudaMemcpyDefault && home() >= 0; }

// may_be_page_locked: once there has been a context, CUDA itself may have locked it.
bool may_be_page_locked(const void *memory, size_t bytes) { return home() >= 0 || page_locked(memory, bytes); }

// A synchronous copy from page-locked memory is over when it returns. The same from a
// snapshot, which is pageable, may still be under way (ibid.).
void record_end(const void *from, size_t bytes, bool asynchronous)
{
	if (!asynchronous && may_be_page_locked(from, bytes))
		record_wait();
}

// defer records a copy to device memory. false: the copy cannot be recorded, so bind. copy runs
// the copy, now or in the replay. Its arguments are the source to read and the source's pitch,
// because a recorded copy reads a snapshot.
template <typename Copy>
bool defer(const char *call, void *to, const void *from, const Rows &rows, int kind, bool asynchronous,
           const Copy &copy)
{
	Allocation *target = pending(to, rows.to_extent());
	Allocation *source = pending(from, rows.from_extent());

	if (from == nullptr || rows.overlap() || (source == nullptr && may_be_device(kind)))
		return false;
	if (kind == cudaMemcpyDefault)
		kind = source != nullptr ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
	if (target == nullptr || find(from) != source)
		return false;
	if (kind == cudaMemcpyDeviceToDevice && source != nullptr) {
		record(call, [=] { return copy(from, rows.from_pitch); }, {target, source});
		return true;
	}
	if (kind != cudaMemcpyHostToDevice || source != nullptr)
		return false;
	if (asynchronous && page_locked(from, rows.from_extent())) {
		record(call, [=] { return copy(from, rows.from_pitch); }, {target});
		promise();
		return true;
	}
	std::shared_ptr<void> kept = snapshot(from, rows.width, rows.from_pitch, rows.height);
	if (kept == nullptr)
		return false;
	record(call, [=] { return copy(kept.get(), rows.width); }, {target});
	record_end(from, rows.from_extent(), asynchronous);
	return true;
}

// A synchronous copy waits for the copies before it, after which the program may
// change what they read: they cannot stay recorded by reference.
bool may_wait(bool asynchronous) { return asynchronous || !promised(); }

template <typename Copy>
cudaError_t transfer(const char *call, void *to, const void *from, const Rows &rows, int kind, bool asynchronous,
                     const Copy &copy)
{
	const bool known_kind = kind >= 0 && kind <= cudaMemcpyDefault; // another is CUDA's to refuse, with its own error
	if (known_kind && !rows.overlap() && (out_of_bounds(to, rows.to_extent()) || out_of_bounds(from, rows.from_extent())))
		return fail(cudaErrorInvalidValue);
	if (await_or_defer()) {
		Locked locked;
		if (rows.none())
			return cudaSuccess;
		if (deferring() && may_wait(asynchronous) && defer(call, to, from, rows, kind, asynchronous, copy))
			return cudaSuccess;
	}
	return direct(call, [&] {
		const uint64_t before = before_wait();
		const cudaError_t error = copy(from, rows.from_pitch);
		if (error == cudaSuccess && !asynchronous && kind == cudaMemcpyDeviceToHost)
			waited_in_order(before);
		return error;
	});
}

// A set of device memory is recorded as it is.
template <typename Run>
cudaError_t fill(const char *call, void *to, const Rows &rows, Run run)
{
	if (!rows.overlap() && out_of_bounds(to, rows.to_extent()))
		return fail(cudaErrorInvalidValue);
	if (await_or_defer()) {
		Locked locked;
		Allocation *target = deferring() && !rows.overlap() ? pending(to, rows.to_extent()) : nullptr;
		if (rows.none())
			return cudaSuccess;
		if (target != nullptr) {
			record(call, run, {target});
			return cudaSuccess;
		}
	}
	return direct(call, run);
}

// A copy to a variable is recorded where CUDA cannot refuse it: its success is told now.
template <typename Run>
cudaError_t to_symbol(const char *call, const void *symbol, size_t offset, const void *from, size_t bytes, int kind,
                      bool asynchronous, Run run)
{
	tie(Tie::variable, call);
	if (out_of_bounds(from, bytes))
		return fail(cudaErrorInvalidValue);
	if (await_or_defer() && (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault) &&
	    inside_variable(symbol, offset, bytes)) {
		Locked locked;
		const bool can = deferring() && may_wait(asynchronous) && from != nullptr && find(from) == nullptr &&
		                 !may_be_device(kind);
		std::shared_ptr<void> kept = can ? snapshot(from, bytes, bytes, 1) : nullptr;
		if (kept != nullptr) {
			record_kept(call, [=] { return run(kept.get()); });
			record_end(from, bytes, asynchronous);
			return cudaSuccess;
		}
	}
	return direct(call, [&] { return run(from); });
}

template <typename Run> cudaError_t from_symbol(const char *call, void *to, size_t bytes, Run run)
{
	tie(Tie::variable, call);
	return direct(call, [=] { return out_of_bounds(to, bytes) ? fail(cudaErrorInvalidValue) : run(); });
}

// with_array copies rows between an array and `memory`.
template <typename Copy> cudaError_t with_array(const char *call, const void *memory, const Rows &rows, Copy copy)
{
	return direct(call, [=] {
		return !rows.overlap() && out_of_bounds(memory, rows.to_extent()) ? fail(cudaErrorInvalidValue) : copy();
	});
}

} // namespace
} // namespace lazy

using namespace lazy;

#define MEMCPY(name)                                                                                                   \
	cudaError_t name(void *to, const void *from, size_t bytes, int kind)                                           \
	{                                                                                                              \
		return transfer("cudaMemcpy", to, from, {bytes, 1, bytes, bytes}, kind, false,                         \
		                [=](const void *source, size_t) { return REAL(name)(to, source, bytes, kind); });      \
	}
MEMCPY(cudaMemcpy)
MEMCPY(cudaMemcpy_ptds)

#define MEMCPY_ASYNC(name)                                                                                             \
	cudaError_t name(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)                      \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return transfer("cudaMemcpyAsync", to, from, {bytes, 1, bytes, bytes}, kind, true,                     \
		                [=](const void *source, size_t) {                                                      \
			                return REAL(name)(to, source, bytes, kind, real(stream));                      \
		                });                                                                                    \
	}
MEMCPY_ASYNC(cudaMemcpyAsync)
MEMCPY_ASYNC(cudaMemcpyAsync_ptsz)

#define MEMCPY_2D(name)                                                                                                \
	cudaError_t name(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,  \
	                 int kind)                                                                                     \
	{                                                                                                              \
		return transfer("cudaMemcpy2D", to, from, {width, height, to_pitch, from_pitch}, kind, false,          \
		                [=](const void *source, size_t pitch) {                                                \
			                return REAL(name)(to, to_pitch, source, pitch, width, height, kind);           \
		                });                                                                                    \
	}
MEMCPY_2D(cudaMemcpy2D)
MEMCPY_2D(cudaMemcpy2D_ptds)

#define MEMCPY_2D_ASYNC(name)                                                                                          \
	cudaError_t name(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,  \
	                 int kind, cudaStream_t stream)                                                                \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return transfer("cudaMemcpy2DAsync", to, from, {width, height, to_pitch, from_pitch}, kind, true,      \
		                [=](const void *source, size_t pitch) {                                                \
			                return REAL(name)(to, to_pitch, source, pitch, width, height, kind,            \
			                                  real(stream));                                               \
		                });                                                                                    \
	}
MEMCPY_2D_ASYNC(cudaMemcpy2DAsync)
MEMCPY_2D_ASYNC(cudaMemcpy2DAsync_ptsz)

#define MEMSET(name)                                                                                                   \
	cudaError_t name(void *to, int value, size_t bytes)                                                            \
	{                                                                                                              \
		return fill("cudaMemset", to, {bytes, 1, bytes, bytes}, [=] { return REAL(name)(to, value, bytes); }); \
	}
MEMSET(cudaMemset)
MEMSET(cudaMemset_ptds)

#define MEMSET_ASYNC(name)                                                                                             \
	cudaError_t name(void *to, int value, size_t bytes, cudaStream_t stream)                                       \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return fill("cudaMemsetAsync", to, {bytes, 1, bytes, bytes},                                           \
		            [=] { return REAL(name)(to, value, bytes, real(stream)); });                               \
	}
MEMSET_ASYNC(cudaMemsetAsync)
MEMSET_ASYNC(cudaMemsetAsync_ptsz)

#define MEMSET_2D(name)                                                                                                \
	cudaError_t name(void *to, size_t pitch, int value, size_t width, size_t height)                               \
	{                                                                                                              \
		return fill("cudaMemset2D", to, {width, height, pitch, pitch},                                         \
		            [=] { return REAL(name)(to, pitch, value, width, height); });                              \
	}
MEMSET_2D(cudaMemset2D)
MEMSET_2D(cudaMemset2D_ptds)

#define MEMSET_2D_ASYNC(name)                                                                                          \
	cudaError_t name(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)          \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return fill("cudaMemset2DAsync", to, {width, height, pitch, pitch},                                    \
		            [=] { return REAL(name)(to, pitch, value, width, height, real(stream)); });                \
	}
MEMSET_2D_ASYNC(cudaMemset2DAsync)
MEMSET_2D_ASYNC(cudaMemset2DAsync_ptsz)

#define TO_SYMBOL(name)                                                                                                \
	cudaError_t name(const void *symbol, const void *from, size_t bytes, size_t offset, int kind)                  \
	{                                                                                                              \
		return to_symbol("cudaMemcpyToSymbol", symbol, offset, from, bytes, kind, false,                       \
		                 [=](const void *source) { return REAL(name)(symbol, source, bytes, offset, kind); }); \
	}
TO_SYMBOL(cudaMemcpyToSymbol)
TO_SYMBOL(cudaMemcpyToSymbol_ptds)

#define TO_SYMBOL_ASYNC(name)                                                                                          \
	cudaError_t name(const void *symbol, const void *from, size_t bytes, size_t offset, int kind,                  \
	                 cudaStream_t stream)                                                                          \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return to_symbol("cudaMemcpyToSymbolAsync", symbol, offset, from, bytes, kind, true,                   \
		                 [=](const void *source) {                                                             \
			                 return REAL(name)(symbol, source, bytes, offset, kind, real(stream));         \
		                 });                                                                                   \
	}
TO_SYMBOL_ASYNC(cudaMemcpyToSymbolAsync)
TO_SYMBOL_ASYNC(cudaMemcpyToSymbolAsync_ptsz)

#define FROM_SYMBOL(name)                                                                                              \
	cudaError_t name(void *to, const void *symbol, size_t bytes, size_t offset, int kind)                          \
	{                                                                                                              \
		return from_symbol("cudaMemcpyFromSymbol", to, bytes,                                                  \
		                   [=] { return REAL(name)(to, symbol, bytes, offset, kind); });                       \
	}
FROM_SYMBOL(cudaMemcpyFromSymbol)
FROM_SYMBOL(cudaMemcpyFromSymbol_ptds)

#define FROM_SYMBOL_ASYNC(name)                                                                                        \
	cudaError_t name(void *to, const void *symbol, size_t bytes, size_t offset, int kind, cudaStream_t stream)     \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return from_symbol("cudaMemcpyFromSymbolAsync", to, bytes,                                             \
		                   [=] { return REAL(name)(to, symbol, bytes, offset, kind, real(stream)); });         \
	}
FROM_SYMBOL_ASYNC(cudaMemcpyFromSymbolAsync)
FROM_SYMBOL_ASYNC(cudaMemcpyFromSymbolAsync_ptsz)

// Both devices are the process's device: the program can name no other.
cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	if (await_or_defer() && (to_device != 0 || from_device != 0))
		return fail(cudaErrorInvalidDevice);
	return transfer("cudaMemcpyPeer", to, from, {bytes, 1, bytes, bytes}, cudaMemcpyDeviceToDevice, false,
	                [=](const void *source, size_t) {
		                return REAL(cudaMemcpyPeer)(to, visible_to_real(to_device), source,
		                                            visible_to_real(from_device), bytes);
	                });
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
	EXISTS(stream);
	if (await_or_defer() && (to_device != 0 || from_device != 0))
		return fail(cudaErrorInvalidDevice);
	return transfer("cudaMemcpyPeerAsync", to, from, {bytes, 1, bytes, bytes}, cudaMemcpyDeviceToDevice, true,
	                [=](const void *source, size_t) {
		                return REAL(cudaMemcpyPeerAsync)(to, visible_to_real(to_device), source,
		                                                 visible_to_real(from_device), bytes, real(stream));
	                });
}

#define TO_ARRAY_2D(name)                                                                                              \
	cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,             \
	                 size_t height, int kind)                                                                      \
	{                                                                                                              \
		return with_array("cudaMemcpy2DToArray", from, {width, height, pitch, pitch},                          \
		                  [=] { return REAL(name)(to, x, y, from, pitch, width, height, kind); });             \
	}
TO_ARRAY_2D(cudaMemcpy2DToArray)
TO_ARRAY_2D(cudaMemcpy2DToArray_ptds)

#define FROM_ARRAY_2D(name)                                                                                            \
	cudaError_t name(void *to, size_t pitch, cudaArray_t from, size_t x, size_t y, size_t width,                   \
	                 size_t height, int kind)                                                                      \
	{                                                                                                              \
		return with_array("cudaMemcpy2DFromArray", to, {width, height, pitch, pitch},                          \
		                  [=] { return REAL(name)(to, pitch, from, x, y, width, height, kind); });             \
	}
FROM_ARRAY_2D(cudaMemcpy2DFromArray)
FROM_ARRAY_2D(cudaMemcpy2DFromArray_ptds)

#define TO_ARRAY(name)                                                                                                 \
	cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,                           \
	                 int kind)                                                                                     \
	{                                                                                                              \
		return with_array("cudaMemcpyToArray", from, {bytes, 1, bytes, bytes},                                 \
		                  [=] { return REAL(name)(to, x, y, from, bytes, kind); });                            \
	}
TO_ARRAY(cudaMemcpyToArray)
TO_ARRAY(cudaMemcpyToArray_ptds)

#define FROM_ARRAY(name)                                                                                               \
	cudaError_t name(void *to, cudaArray_t from, size_t x, size_t y, size_t bytes,                                 \
	                 int kind)                                                                                     \
	{                                                                                                              \
		return with_array("cudaMemcpyFromArray", to, {bytes, 1, bytes, bytes},                                 \
		                  [=] { return REAL(name)(to, from, x, y, bytes, kind); });                            \
	}
FROM_ARRAY(cudaMemcpyFromArray)
FROM_ARRAY(cudaMemcpyFromArray_ptds)

#define TO_ARRAY_2D_ASYNC(name)                                                                                        \
	cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,             \
	                 size_t height, int kind, cudaStream_t stream)                                                 \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return with_array("cudaMemcpy2DToArrayAsync", from, {width, height, pitch, pitch},                     \
		                  [=] { return REAL(name)(to, x, y, from, pitch, width, height, kind, real(stream)); }); \
	}
TO_ARRAY_2D_ASYNC(cudaMemcpy2DToArrayAsync)
TO_ARRAY_2D_ASYNC(cudaMemcpy2DToArrayAsync_ptsz)

#define FROM_ARRAY_2D_ASYNC(name)                                                                                      \
	cudaError_t name(void *to, size_t pitch, cudaArray_t from, size_t x, size_t y, size_t width,                   \
	                 size_t height, int kind, cudaStream_t stream)                                                 \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return with_array("cudaMemcpy2DFromArrayAsync", to, {width, height, pitch, pitch},                     \
		                  [=] { return REAL(name)(to, pitch, from, x, y, width, height, kind, real(stream)); }); \
	}
FROM_ARRAY_2D_ASYNC(cudaMemcpy2DFromArrayAsync)
FROM_ARRAY_2D_ASYNC(cudaMemcpy2DFromArrayAsync_ptsz)

#define TO_ARRAY_ASYNC(name)                                                                                           \
	cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,                           \
	                 int kind, cudaStream_t stream)                                                                \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return with_array("cudaMemcpyToArrayAsync", from, {bytes, 1, bytes, bytes},                            \
		                  [=] { return REAL(name)(to, x, y, from, bytes, kind, real(stream)); });              \
	}
TO_ARRAY_ASYNC(cudaMemcpyToArrayAsync)
TO_ARRAY_ASYNC(cudaMemcpyToArrayAsync_ptsz)

#define FROM_ARRAY_ASYNC(name)                                                                                         \
	cudaError_t name(void *to, cudaArray_t from, size_t x, size_t y, size_t bytes,                                 \
	                 int kind, cudaStream_t stream)                                                                \
	{                                                                                                              \
		EXISTS(stream);                                                                                        \
		return with_array("cudaMemcpyFromArrayAsync", to, {bytes, 1, bytes, bytes},                            \
		                  [=] { return REAL(name)(to, from, x, y, bytes, kind, real(stream)); });              \
	}
FROM_ARRAY_ASYNC(cudaMemcpyFromArrayAsync)
FROM_ARRAY_ASYNC(cudaMemcpyFromArrayAsync_ptsz)
