// references.cc: what kernels are given, where memory can move.
//
// Each aligned 8-byte word of a kernel's parameters that points into our memory references that memory. The
// offsets and sizes of parameters are in the machine code, else the driver tells them, since CUDA 12.4. Where
// neither does, the kernel may be given anything.
//
// A launch that references memory on the host brings the memory to the device first, in exchange for memory that
// it does not reference. So the process has no more on the device than the scheduler allows it. Where the scheduler has advised
// it to, it uses the memory where it is. If that is not enough
// for the launch, the process gives up its permission, and asks for it and for more memory. What goes out
// stays mapped from the host, because pointers inside memory are not seen: a kernel that follows one of
// them there is slow, and not wrong. Where nothing can move now, the launch uses the memory where it is.
//
// Launches that take turns with more memory than the process has there would exchange it without end, even on a device
// that others have left. So once as much has moved as they lack, the process asks how much is free. If that is enough, it
// asks for the memory. If not, it goes on, and asks again once as much has moved again.
#include <string.h>

#include <unordered_map>
#include <vector>

#include "abi/abi.h"
#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/drain.h"
#include "device/driver.h"
#include "memory/last_use.h"
#include "memory/memory.h"
#include "probe/client.h"
#include "program/cubin.h"
#include "program/kernels.h"
#include "task/revoke.h"
#include "task/stop.h"
#include "task/stream_capture.h"
#include "task/submit_gate.h"
#include "task/task.h"
#include "references.h"

extern "C" {
cudaError_t cudaGetFuncBySymbol(void **function, const void *symbol);
CUresult cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes); // since CUDA 12.4
CUresult cuKernelGetParamInfo(void *kernel, size_t index, size_t *offset, size_t *bytes);
}

namespace lazy {
namespace {

// Word is an aligned word of a kernel's parameters.
struct Word {
	size_t parameter, offset; // there
};

// Layout is what was found out about a kernel as it is at a version (program/kernels.h).
struct Layout {
	const void *kernel;
	uint64_t version;
	bool known; // the words are
	std::vector<Word> words;
};

std::vector<Word> words_in(const std::vector<Parameter> &parameters)
{
	std::vector<Word> words;

	for (size_t i = 0; i < parameters.size(); i++)
		for (size_t at = (8 - parameters[i].offset % 8) % 8; at + sizeof(uintptr_t) <= parameters[i].bytes; at += sizeof(uintptr_t))
			words.push_back({i, at});
	return words;
}

// learned are layouts of the present version. Those of earlier ones stay, because a launch may be reading them.
// `lock` is held.
std::unordered_map<const void *, Layout> &learned()
{
	static uint64_t version = 0;
	static std::unordered_map<const void *, Layout> *latest = nullptr;

	if (const uint64_t now = kernels_version(); latest == nullptr || version != now) {
		version = now;
		latest = new std::unordered_map<const void *, Layout>;
	}
	return *latest;
}

// Each thread remembers layouts of kernels that it has launched, so that most launches take no lock. An entry is
// one pointer, because a signal handler may launch kernels while it is read.
const Layout *&remembered(const void *kernel)
{
	static thread_local const Layout *all[16];
	return all[(reinterpret_cast<uintptr_t>(kernel) >> 4 ^ reinterpret_cast<uintptr_t>(kernel) >> 10) % 16];
}

using ParamInfo = CUresult (*)(void *, size_t, size_t *, size_t *);

CUresult parameter(ParamInfo ask, void *kernel, size_t index, Parameter *found)
{
	size_t offset = 0, bytes = 0;
	const CUresult result = ask(kernel, index, &offset, &bytes);

	*found = {static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)};
	return result;
}

// parameters_of asks for one parameter after the other. An index too large is an invalid value.
bool parameters_of(void *kernel, ParamInfo ask, std::vector<Parameter> *found)
{
	Parameter next;
	CUresult result = CUDA_SUCCESS;

	while ((result = parameter(ask, kernel, found->size(), &next)) == CUDA_SUCCESS)
		found->push_back(next);
	return result == CUDA_ERROR_INVALID_VALUE;
}

bool from_driver(const void *host, std::vector<Parameter> *found)
{
	void *function = nullptr;

	use_device();
	return REAL_DRIVER(cuFuncGetParamInfo) != nullptr && REAL(cudaGetFuncBySymbol)(&function, host) == cudaSuccess &&
	       parameters_of_function(function, found);
}

// learn finds a kernel's layout without `lock`, because it may call the CUDA runtime. Without a context, or
// during a capture, the driver is not asked: a later launch does. false: so the answer does not last.
bool learn(const void *function, Layout *layout)
{
	Kernel kernel;
	std::vector<Parameter> parameters;

	if (!kernel_at(function, &kernel)) // and a handle may be another kernel's later
		return false;
	layout->known = parameters_in(kernel.fat, kernel.name, &parameters);
	if (!layout->known) {
		if (deferring() || being_captured())
			return false;
		parameters.clear();
		layout->known = from_driver(kernel.host, &parameters);
	}
	layout->words = words_in(parameters);
	return true;
}

// layout_of is nullptr for a kernel of which nothing is known yet.
const Layout *layout_of(const void *kernel)
{
	const uint64_t version = kernels_version();
	const Layout *found = remembered(kernel);

	if (found != nullptr && found->kernel == kernel && found->version == version)
		return found;
	found = nullptr;
	{
		Locked locked;
		if (const auto at = learned().find(kernel); at != learned().end())
			found = &at->second;
	}
	if (Layout layout = {kernel, version, false, {}}; found == nullptr && learn(kernel, &layout)) {
		Locked locked;
		auto &all = learned();
		if (kernels_version() == version)
			found = &all.emplace(kernel, std::move(layout)).first->second;
	}
	if (found != nullptr)
		remembered(kernel) = found;
	return found;
}

// HandleLayout is what the driver told of a kernel by its handle. The handle may be another kernel's later. So the last
// parameter is asked for again at each launch: no more is read of the arguments than there is.
struct HandleLayout {
	Layout layout;
	ParamInfo ask;
	size_t count;
	Parameter last;
};

bool still(const HandleLayout &of, void *handle)
{
	Parameter now;
	return of.layout.kernel == handle && parameter(of.ask, handle, of.count - 1, &now) == CUDA_SUCCESS &&
	       now.offset == of.last.offset && now.bytes == of.last.bytes;
}

// learn_handle is nullptr where the driver does not tell the parameters. A handle of a library's kernel is not a function's.
const HandleLayout *learn_handle(void *handle)
{
	for (const ParamInfo ask : {REAL_DRIVER(cuFuncGetParamInfo), REAL_DRIVER(cuKernelGetParamInfo)}) {
		std::vector<Parameter> found;
		if (ask != nullptr && parameters_of(handle, ask, &found) && !found.empty())
			return new HandleLayout{{handle, 0, true, words_in(found)}, ask, found.size(), found.back()};
	}
	return nullptr;
}

// layout_of_handle keeps what was learned, because other launches may be reading it.
const HandleLayout *layout_of_handle(void *handle)
{
	static auto *const all = new std::unordered_map<void *, const HandleLayout *>;
	static thread_local const HandleLayout *recent[16];
	const HandleLayout *&found = recent[(reinterpret_cast<uintptr_t>(handle) >> 4 ^ reinterpret_cast<uintptr_t>(handle) >> 10) % 16];

	if (found != nullptr && still(*found, handle))
		return found;
	{
		Locked locked;
		if (const auto at = all->find(handle); at != all->end() && still(*at->second, handle))
			return found = at->second;
	}
	const HandleLayout *const made = learn_handle(handle);
	if (made != nullptr) {
		Locked locked;
		(*all)[handle] = made;
		found = made;
	}
	return made;
}

// each_word shows the aligned words of a kernel's parameters.
template <typename Show> void each_word(const Layout &layout, void **arguments, Show show)
{
	if (arguments == nullptr)
		return;
	for (const Word &w : layout.words) {
		uintptr_t word;
		if (const void *const value = arguments[w.parameter]; value != nullptr) {
			memcpy(&word, static_cast<const char *>(value) + w.offset, sizeof word);
			show(word);
		}
	}
}

// note: the launch is given memory of which a part is on the host.
bool note(const Layout &layout, void **arguments)
{
	bool some = false;
	Noting noting;

	each_word(layout, arguments, [&](uintptr_t word) { some |= noting.reference(word); });
	return some;
}

// await_turns: launches that take turns lack memory, and the device has it. No lock is held.
bool await_turns()
{
	uint64_t lacks, free = 0;
	{
		Locked locked;
		lacks = deferring() ? 0 : lacked(room_on_device());
	}
	if (lacks == 0 || !client_await_room(scheduled(), &free) || free < lacks)
		return false;
	Locked locked;
	remember_turns();
	return true;
}

// await_brought brings what a launch is given. Nobody may be stuck here for long: another thread's call may have
// passed the gate and wait for `lock`, and a kernel on the device may wait for what this thread does next. Then
// the launch uses the memory where it is, and so do others, at once, for as long as that kernel runs.
void await_brought(const Layout &layout, void **arguments)
{
	const uint64_t gate_ns = 10 * 1000000u, device_ns = 10 * uint64_t{1000000000u};
	await_kernel(); // without `lock`, which the wait for the device holds
	const bool turns = await_turns();
	std::vector<uintptr_t> words;
	CUresult result = CUDA_SUCCESS;

	each_word(layout, arguments, [&](uintptr_t word) { words.push_back(word); });
	Locked locked;
	const CUcontext context = context_of_task();
	const case_task task = Task::process().grant();
	want(words);
	// Until a revocation has been answered, what it has taken still counts as on the device.
	if (deferring() || context == nullptr || !client_permitted(&task))
		return;
	const enum client_advice advice = client_advice(&task);
	if (advice == CLIENT_ADVISED)
		return;
	const bool asks = (turns || advice == CLIENT_RELEASED || lacks_room(room_on_device())) && wanted().on_host > 0;
	if (!asks && !can_fetch(room_on_device()))
		return;
	use_device(); // this thread's first call of the runtime would be about another
	ClosedSubmitGate closed;
	if (!closed.await_empty(now_ns() + gate_ns) || being_captured()) // a wait for the device would break the capture
		return;
	if (!await_drained(context, now_ns() + device_ns, &result) || result != CUDA_SUCCESS)
		return;
	if (asks)
		return give_up_permission();
	CUcontext own = nullptr; // perhaps none, in a thread's first call
	driver()->get_current(&own);
	client_move in = {}, out = {};
	if (driver()->set_current(context) == CUDA_SUCCESS)
		fetch_wanted(room_on_device(), home(), &in, &out);
	driver()->set_current(own);
	client_moved(&task, CASE_MOVED_OUT, &out);
	client_moved(&task, CASE_MOVED_IN, &in);
}

} // namespace

void await_references(const void *kernel, void **arguments)
{
	if (!watching())
		return;
	const Layout *const layout = layout_of(kernel);
	if (layout == nullptr || !layout->known)
		references_unknown();
	else if (note(*layout, arguments))
		await_brought(*layout, arguments);
}

void await_driver_references(const DriverLaunch &launch)
{
	if (!watching())
		return;
	const HandleLayout *const of = launch.arguments == nullptr ? nullptr : layout_of_handle(launch.kernel);
	if (of == nullptr)
		references_unknown();
	else if (note(of->layout, launch.arguments))
		await_brought(of->layout, launch.arguments);
}

bool parameters_of_function(void *function, std::vector<Parameter> *found)
{
	const auto ask = REAL_DRIVER(cuFuncGetParamInfo);
	return ask != nullptr && parameters_of(function, ask, found);
}

void references_unknown()
{
	if (watching())
		Noting().reference_all();
}

} // namespace lazy
