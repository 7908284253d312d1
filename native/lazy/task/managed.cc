// managed.cc: see managed.h.
//
// Managed memory beyond what a device has free can hang it. The scheduler charges a task for managed memory as for any other.
// The run is asked too, because it knows what all processes have there, and keeps the sum.
#include "managed.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <vector>

#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "memory/memory.h"
#include "memory/pagemap.h"
#include "probe/client.h"
#include "probe/link.h"
#include "program/mode.h"
#include "report.h"
#include "task.h"

extern "C" {
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
}

namespace lazy {
namespace {

// asking guards what follows, also while the run is asked.
pthread_mutex_t asking = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
std::map<uintptr_t, GuardedRegion> &regions()
{
	static auto *const all = new std::map<uintptr_t, GuardedRegion>;
	return *all;
}
struct Sums {
	uint64_t managed, beside;
} sums[max_devices];
std::atomic<bool> any{false}; // there has been managed memory

std::atomic<uint64_t> variables{0};     // bytes
std::atomic<bool> variables_new{false}; // the run has not been asked for them

// settled: the device was settled before the process began, so nobody accounts for its memory.
bool settled()
{
	static const bool found = [] {
		const char *const binding = client_variable("CASE_BINDING");
		return binding != nullptr && strcmp(binding, "job") == 0 && !program_serves_itself();
	}();
	return found;
}

bool in_run()
{
	const char *const socket = client_variable("CASE_SOCKET");
	return socket != nullptr && *socket != '\0' && (settled() || mode() != Mode::passive);
}

int device_here() { return mode() == Mode::pinned ? Task::here().device() : 0; }

uint64_t &sum_of(int device, bool managed) { return managed ? sums[device].managed : sums[device].beside; }

// free_now is what the driver says. The runtime is asked where the thread has no context yet.
uint64_t free_now()
{
	size_t free = 0, total = 0;
	const auto driver_says = REAL_DRIVER(cuMemGetInfo_v2);

	if (driver_says != nullptr && driver_says(&free, &total) == CUDA_SUCCESS)
		return free;
	return has_runtime() && REAL(cudaMemGetInfo)(&free, &total) == cudaSuccess ? free : 0;
}

// await_allowed tells the run what the device has of this process, and returns by how much that is too much.
uint64_t await_allowed(int device, bool more)
{
	const int ordinal = settled() ? 0 : one_device() ? scheduled() : device;
	client_managed m = {sums[device].managed + (small(variables) ? 0 : variables.load()), settled() ? sums[device].beside : 0,
	                    settled() && more ? free_now() : 0, ordinal};
	uint64_t room = 0;

	variables_new = false;
	if (ordinal < 0)
		return 0;
	const Interruptible here;
	return client_await_managed(&m, &room) && m.bytes + m.beside > room ? m.bytes + m.beside - room : 0;
}

cudaError_t refuse(const char *call, uint64_t bytes, uint64_t over)
{
	link_say("%s of %.1f MiB: refused, because managed memory would exceed what is free on the device by %.1f MiB, which can hang it",
	         call, static_cast<double>(bytes) / (1 << 20), static_cast<double>(over) / (1 << 20));
	return refused_allocation(call, bytes);
}

} // namespace

GuardedAllocation::GuardedAllocation(const char *call, uint64_t bytes, bool managed) : bytes_(bytes), managed_(managed)
{
	if (bytes == 0 || !(managed || (any && settled())) || !in_run())
		return;
	uint64_t over = 0;
	{
		const Locked one_at_a_time(asking);
		const int device = device_here();
		any = true;
		sum_of(device, managed) += bytes;
		over = await_allowed(device, true);
		if (over > 0)
			sum_of(device, managed) -= bytes;
		counted_ = over == 0;
	}
	if (over > 0)
		refused_ = refuse(call, bytes, over);
}

void GuardedAllocation::made(const void *at)
{
	if (!counted_)
		return;
	const Locked locked(asking);
	regions()[reinterpret_cast<uintptr_t>(at)] = {bytes_, managed_, device_here()};
	counted_ = false;
}

GuardedAllocation::~GuardedAllocation()
{
	if (!counted_)
		return;
	const Locked one_at_a_time(asking);
	const int device = device_here();
	sum_of(device, managed_) -= bytes_;
	await_allowed(device, false);
}

GuardedFree::GuardedFree(const void *at) : at_(at)
{
	if (!any)
		return;
	const Locked locked(asking);
	const auto found = regions().find(reinterpret_cast<uintptr_t>(at));
	if (found == regions().end())
		return;
	region_ = found->second;
	regions().erase(found);
}

void GuardedFree::done(bool freed)
{
	if (region_.bytes == 0)
		return;
	const Locked one_at_a_time(asking);
	if (!freed) {
		regions()[reinterpret_cast<uintptr_t>(at_)] = region_;
		return;
	}
	sum_of(region_.device, region_.managed) -= region_.bytes;
	await_allowed(region_.device, false);
}

void forget_guarded(int device)
{
	if (!any)
		return;
	const Locked one_at_a_time(asking);
	for (auto at = regions().begin(); at != regions().end();)
		at = at->second.device == device ? regions().erase(at) : std::next(at);
	sums[device] = {};
	await_allowed(device, false);
}

void know_managed_variable(size_t bytes)
{
	variables.fetch_add(bytes);
	variables_new = !small(variables);
}

bool has_managed_variables() { return variables > 0; }

cudaError_t await_managed_variables(const std::function<cudaError_t()> &await_task)
{
	if (!variables_new.load(std::memory_order_relaxed) || !in_run())
		return cudaSuccess;
	if (const cudaError_t error = await_task(); error != cudaSuccess)
		return error;
	uint64_t over;
	{
		const Locked one_at_a_time(asking);
		any = true;
		over = await_allowed(device_here(), true);
		variables_new = over > 0; // the next launch is refused too
	}
	return over > 0 ? refuse("managed variables", variables, over) : cudaSuccess;
}

// ---- how much is on the device

namespace {

std::atomic<uint64_t> active{0};

// Reading takes 1.3 to 5 ms for each GiB (H200), so a pass over all managed memory is done in steps.
const uint64_t step = 128 << 20; // bytes
const uint64_t period_ns = 100000000; // between the beginnings of two passes, at least

struct Pass {
	std::vector<std::pair<uintptr_t, uint64_t>> left; // addresses and bytes
	uint64_t absent = 0, next_ns = 0;
	bool under_way = false;
	Pace pace;
};

Pass &the_pass()
{
	static auto *const the = new Pass;
	return *the;
}

bool begin_pass(Pass &pass, uint64_t now)
{
	if (now < pass.next_ns || pthread_mutex_trylock(&asking) != 0)
		return false;
	for (const auto &[at, region] : regions())
		if (region.managed)
			pass.left.emplace_back(at, region.bytes);
	pthread_mutex_unlock(&asking);
	pass.absent = 0;
	pass.next_ns = now + period_ns;
	return pass.under_way = true;
}

// read_step reads a part. Memory that is freed meanwhile counts as on the device until the next pass.
bool read_step(Pass &pass)
{
	static const Pagemap *const table = new Pagemap;
	static bool said = false;
	uint64_t left = step;

	while (left > 0 && !pass.left.empty()) {
		auto &[at, bytes] = pass.left.back();
		const uint64_t now = std::min(left, bytes);
		if (!table->absent(at, now, &pass.absent)) {
			pass.absent += now; // all may be there
			if (!said)
				link_say("/proc/self/pagemap cannot be read (%s): all managed memory counts as on the device", strerror(errno));
			said = true;
		}
		at += now;
		bytes -= now;
		left -= now;
		if (bytes == 0)
			pass.left.pop_back();
	}
	return pass.left.empty();
}

} // namespace

uint64_t active_managed() { return active; }

bool read_active()
{
	if (!any)
		return false;
	Pass &pass = the_pass();
	const uint64_t from = now_ns();
	if (!pass.pace.due(from) || !(pass.under_way || begin_pass(pass, from)))
		return false;
	const bool over = read_step(pass);
	pass.pace.took(from, now_ns());
	if (!over)
		return false;
	pass.under_way = false;
	return active.exchange(pass.absent) != pass.absent;
}

void renew_managed()
{
	asking = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	regions().clear();
	memset(sums, 0, sizeof sums);
	active = 0;
	the_pass() = {};
	variables_new = !small(variables);
}

} // namespace lazy
