// forward.cc: calls that are passed on as they are, once the process is bound.
#include <string.h>

#include <atomic>

#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "launch/work.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/record.h"
#include "task/revoke.h"
#include "task/task.h"

extern "C" {
cudaError_t cudaRuntimeGetVersion(int *version);
void *forward_prepare(unsigned index, uint64_t *registers);
void forward_over(unsigned index, cudaError_t result);
}

namespace lazy {
namespace {

enum : unsigned { KEEPS = 1, REGISTERS = 2, ANYTIME = 4, CONTEXT = 8, IN_ORDER = 16, SUBMITS = 32, INSPECTS = 64 };
constexpr unsigned DEVICE(unsigned n) { return 0x100u << n; }
constexpr unsigned LOCATION(unsigned n) { return 0x10000u << n; }
constexpr unsigned STREAM_AT(unsigned n) { return 0x1000000u << n; }
constexpr unsigned DEVICE_OR_LOCATION(unsigned n) { return DEVICE(n) | LOCATION(n); }

const struct {
	const char *name;
	unsigned what;
} functions[] = {
#define FORWARD(name, what) {#name, what},
#define INSPECT(name, what) {#name, (what) | INSPECTS},
#define SUBMIT(name, what) {#name, (what) | SUBMITS},
#include "calls/forward.def"
#undef SUBMIT
#undef INSPECT
#undef FORWARD
};

const size_t count_of = sizeof functions / sizeof *functions;
const unsigned in_registers = 6;   // parameters looked at
const unsigned slot_of_index = 22; // after the registers (forward.S)

std::atomic<void *> found[count_of];
thread_local cudaError_t failure;

cudaError_t failed() { return failure; }

void *fail_with(cudaError_t error)
{
	failure = error;
	return reinterpret_cast<void *>(failed);
}

// A cudaMemLocation by value is in one register.
uint64_t real_location(uint64_t given)
{
	CUmemLocation location;

	memcpy(&location, &given, sizeof given);
	translate(&location);
	memcpy(&given, &location, sizeof given);
	return given;
}

// real_stream_at is the address of the real stream, until the thread's next call.
uint64_t real_stream_at(uint64_t given)
{
	static thread_local cudaStream_t there;

	if (given == 0)
		return 0;
	there = real(*reinterpret_cast<cudaStream_t *>(given));
	return reinterpret_cast<uint64_t>(&there);
}

void translate(unsigned what, uint64_t *registers)
{
	for (unsigned n = 0; n < in_registers; n++) {
		uint64_t &r = registers[n];
		bool device = (what & DEVICE(n)) != 0, location = (what & LOCATION(n)) != 0;
		if (device && location)
			(runtime_13() ? device : location) = false;
		if (device)
			r = static_cast<uint64_t>(visible_to_real(static_cast<int>(r)));
		else if (location)
			r = real_location(r);
		else if ((what & STREAM_AT(n)) != 0)
			r = real_stream_at(r);
		else
			r = reinterpret_cast<uint64_t>(real_handle(reinterpret_cast<void *>(r)));
	}
}

} // namespace

bool runtime_13()
{
	static const bool since_13 = [] {
		int version = 0;
		return REAL(cudaRuntimeGetVersion)(&version) == cudaSuccess && version >= 13000;
	}();
	return since_13;
}

// prepare does what must come before function `index`
// and returns where to go on.
static void *prepare(unsigned index, uint64_t *registers)
{
	const unsigned what = functions[index].what;
	if (what & SUBMITS)
		enter_submit_gate();
	void *target = found[index].load(std::memory_order_acquire);

	if (target == nullptr) {
		target = real_symbol(functions[index].name);
		found[index].store(target, std::memory_order_release);
	}
	if (what & (KEEPS | REGISTERS))
		tie(Tie::call, functions[index].name);
	if ((what & REGISTERS) || !one_device()) {
		if (what & KEEPS)
			working_soon();
		return target;
	}
	if (what & KEEPS)
		await_open_submit_gate(); // the process may be moving
	if (what & ANYTIME) {
		use_device();
		return target;
	}
	const bool any_task = (what & CONTEXT) && !((what & IN_ORDER) && recorded());
	cudaError_t error = any_task ? await_context() : await_device();
	if (error != cudaSuccess)
		return fail_with(error);
	if (!any_task)
		need_mapped();
	if (what & KEEPS)
		working();
	translate(what, registers);
	return target;
}

extern "C" void *forward_prepare(unsigned index, uint64_t *registers)
{
	void *const target = prepare(index, registers);

	if (functions[index].what & INSPECTS)
		enter_to_inspect();
	registers[slot_of_index] = target == reinterpret_cast<void *>(failed) ? count_of : index;
	return target;
}

// forward_over comes after a call that forward_prepare let into the gate, or refused. What it refused has been reported.
extern "C" void forward_over(unsigned index, cudaError_t result)
{
	leave_submit_gate();
	if (index < count_of)
		for_memory(result, functions[index].name);
}

} // namespace lazy
