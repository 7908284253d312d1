// move.cc: see move.h.
//
// Memory keeps its addresses (memory/relocate.h), and streams and events their handles (device/handles.h). The CUDA runtime loads the
// program's kernels in the new context when they are launched. The values of variables are copied by symbol, because they are at other
// addresses there. Threads follow with their next call (use_device).
//
// All that may be refused comes before the memory changes places, and is undone. A call that this does not keep waiting may be under
// way in the context that the process leaves: it waits for work that is over, or asks. So that context stays, with its streams and events.
#include "move.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "abi/api.h"
#include "abi/clock.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/handles.h"
#include "device/settings.h"
#include "memory/memory.h"
#include "memory/relocate.h"
#include "program/kernels.h"
#include "program/mode.h"
#include "program/objects.h"
#include "program/variables.h"
#include "burst.h"
#include "managed.h"
#include "revoke.h"
#include "stop.h"
#include "stream_ordered.h"
#include "submit_gate.h"
#include "task.h"

namespace lazy {
namespace {

// Values are those of the program's variables, in the thread's context.
class Values {
public:
	bool read()
	{
		for (const Variable &v : known_variables()) {
			std::vector<char> value(v.bytes);
			const cudaError_t error = REAL(cudaMemcpyFromSymbol)(value.data(), v.symbol, v.bytes, 0, cudaMemcpyDeviceToHost);
			if (error == cudaErrorInvalidSymbol) // its part of the program is gone
				REAL(cudaGetLastError)();
			else if (error != cudaSuccess)
				return false;
			else
				all_.push_back({v.symbol, std::move(value)});
		}
		return true;
	}
	bool write() const
	{
		for (const Value &v : all_)
			if (REAL(cudaMemcpyToSymbol)(v.symbol, v.bytes.data(), v.bytes.size(), 0, cudaMemcpyHostToDevice) != cudaSuccess)
				return false;
		return true;
	}

private:
	struct Value {
		const void *symbol;
		std::vector<char> bytes;
	};
	std::vector<Value> all_;
};

// Place is a device with the process's context there.
struct Place {
	int device;
	CUcontext context;
};

// bring brings all that the process has to another device, up to the point where its memory is there and nothing can be refused any more.
bool bring(const Place &from, Place *to, Relocation *memory, uint64_t *copy_ns)
{
	Values values;

	if (!values.read())
		return false;
	keep_times();
	if (enter_device(to->device, &to->context) != cudaSuccess || !make_settings_again())
		return false;
	if (!memory->make() || !remake_handles(to->device) || !values.write())
		return false;
	return driver()->set_current(from.context) == CUDA_SUCCESS && memory->copy(from.context, to->context, copy_ns) && memory->put();
}

} // namespace

std::string bound_by()
{
	if (linked_program() != nullptr)
		return "the program has a static CUDA runtime";
	if (has_instances())
		return "CUDA shows a process one instance of MIG";
	if (confined() || !self_contained())
		return "a part of the program may use the driver";
	if (const char *const call = Task::process().ties.lasting(); call != nullptr)
		return "the program has called " + std::string(call);
	if (has_fixed_memory() || has_managed_variables())
		return "the program has arrays, managed memory or memory of pools";
	if (const Heap heap = heap_use(); heap != Heap::unused)
		return heap == Heap::used ? "a kernel allocates memory on the device" : "it cannot be read whether a kernel allocates memory on the device";
	return equal_devices() ? "" : "the devices of the node differ";
}

void move_task(const client_revocation &r, uint64_t deadline_ns, client_revoked *answer)
{
	const uint64_t began = now_ns();
	const Place from = {home(), context_of_task()};
	Place to = {ordinal_of(r.uuid, r.device), nullptr};

	if (to.device < 0 || to.device == from.device)
		return;
	const Leaving leaving;
	drop_reached();
	if (!leaving.await_alone(deadline_ns) || frees_ahead() || kernel_is_stopped() || Task::process().grant().id != r.task)
		return;
	Relocation memory(from.device, to.device);
	if (!bring(from, &to, &memory, &answer->copy_ns)) {
		drop_remade();
		leave_device(to.device);
		return;
	}
	switch_handles(from.device);
	settle_on(to.device, to.context, r.device);
	driver()->set_current(to.context);
	note_arrival();
	ready_looks();
	Task::process().move_grant(r.device, r.uuid);
	answer->outcome = CASE_REVOKED_DONE;
	answer->freed_bytes = memory.bytes();
	answer->bookkeeping_ns = now_ns() - began - std::min(now_ns() - began, answer->copy_ns);
	show_holdings();
}

} // namespace lazy
