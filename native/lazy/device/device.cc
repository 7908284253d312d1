// device.cc: the device of a process under task binding.
#include <atomic>
#include <initializer_list>
#include <set>

#pragma GCC visibility push(default)
#include "probe/static.h"
#include "driver.h"
#pragma GCC visibility pop
#include "abi/lock.h"
#include "abi/symbols.h"
#include "program/mode.h"
#include "addresses.h"
#include "confine.h"
#include "device.h"

extern "C" {
cudaError_t cudaSetDevice(int device);
cudaError_t cudaFree(void *memory);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
}

namespace lazy {

static struct {
	std::atomic<int> ordinal{-1};       // the driver's; its context exists or is being made
	std::atomic<int> scheduled{-1};     // the scheduler's, of the last grant
	std::atomic<bool> has_context{false}; // and what came before the context is replayed
	std::atomic<unsigned> moves{1};     // how often the ordinal has changed
	std::atomic<CUcontext> context{nullptr};
	std::atomic<uint64_t> homes{0};     // a bit for each ordinal where a context was made
	bool hidden = false;                // the granted device is not visible
	bool has_flags = false;
	unsigned flags = 0;
} self;
static thread_local unsigned in_move; // the last move that this thread has followed

bool has_context() { return self.has_context.load(std::memory_order_acquire); }
int home() { return self.ordinal.load(std::memory_order_acquire); }
int scheduled() { return self.scheduled.load(std::memory_order_relaxed); }
bool device_is_hidden() { return self.hidden; }
const char *hidden_by() { return addresses_are_lost() ? "the granted device: the driver gave away addresses that the program has" : "the granted device, which is hidden: by CUDA_VISIBLE_DEVICES, or because CUDA had started before the grant"; }

void keep_flags(unsigned flags)
{
	self.has_flags = true;
	self.flags = flags;
}

int visible_to_real(int visible)
{
	const int none = 1 << 16, here = home(); // more than the driver counts

	if (!one_device() || here < 0 || visible < 0 || visible == here)
		return visible;
	return visible == 0 ? here : none;
}

int real_to_visible(int real) { return one_device() && real >= 0 ? 0 : real; }

void forget_device()
{
	self.context.store(nullptr);
	self.has_context.store(false);
	self.ordinal.store(-1);
	self.homes.store(0);
	self.moves.fetch_add(1);
}

void reset_former_devices()
{
	uint64_t former = self.homes.load();

	if (home() >= 0)
		former &= ~(uint64_t{1} << home());
	if (former == 0)
		return;
	for (int ordinal = 0; ordinal < max_devices; ordinal++)
		if ((former >> ordinal & 1) != 0 && REAL(cudaSetDevice)(ordinal) == cudaSuccess)
			REAL(cudaDeviceReset)();
	if (home() >= 0)
		choose_device();
}

bool move_to(const case_task &granted)
{
	int ordinal = granted.device;

	if (granted.device < 0) { // unscheduled: as the program itself would have it
		if (awaits_device())
			init_driver(0);
		ordinal = home() < 0 ? 0 : home();
	} else {
		self.scheduled.store(granted.device, std::memory_order_relaxed);
		ordinal = confined() || confine(granted.uuid) ? 0 : ordinal_of(granted.uuid, granted.device);
	}
	if (addresses_are_lost())
		ordinal = -1;
	self.hidden = ordinal < 0;
	if (ordinal >= 0 && ordinal != home()) {
		self.ordinal.store(ordinal, std::memory_order_release);
		self.moves.fetch_add(1, std::memory_order_acq_rel);
	}
	return ordinal >= 0;
}

bool equal_devices()
{
	static const bool equal = [] {
		const Driver *d = driver();
		int count = 0;
		size_t first = 0, other = 0;
		if (d == nullptr || d->device_count(&count) != CUDA_SUCCESS)
			return true; // nobody to be unequal to
		d->device_total_memory(&first, 0);
		for (int i = 1; i < count; i++) {
			int here = 0, there = 0;
			for (int attribute : {cudaDevAttrMultiProcessorCount, cudaDevAttrComputeCapabilityMajor,
			                      cudaDevAttrComputeCapabilityMinor})
				if (REAL(cudaDeviceGetAttribute)(&here, attribute, 0) != cudaSuccess ||
				    REAL(cudaDeviceGetAttribute)(&there, attribute, i) != cudaSuccess || here != there)
					return false;
			if (d->device_total_memory(&other, i) != CUDA_SUCCESS || other != first)
				return false;
		}
		return true;
	}();
	return equal;
}

// own_context is the thread's context where that is on the granted device: the CUDA runtime
// works in it, and so does what the program launches next (CUDA Programming Guide,
// "Interoperability between Runtime and Driver APIs").
static CUcontext own_context()
{
	const Driver *d = driver();
	CUcontext context = nullptr;
	CUdevice on = -1;

	if (d == nullptr || d->get_current(&context) != CUDA_SUCCESS || context == nullptr ||
	    d->current_device(&on) != CUDA_SUCCESS || on != home())
		return nullptr;
	return context;
}

// select_device makes the granted device the one that the CUDA runtime takes in this thread
// where the thread has no context.
static cudaError_t select_device()
{
	const CUcontext own = own_context();
	cudaError_t error = REAL(cudaSetDevice)(home());

	if (own != nullptr)
		driver()->set_current(own);
	return error;
}

void use_device()
{
	if (!one_device() || home() < 0)
		return;
	const unsigned now = self.moves.load(std::memory_order_acquire);
	if (in_move == now)
		return;
	if (select_device() == cudaSuccess)
		in_move = now;
}

cudaError_t choose_device()
{
	const unsigned now = self.moves.load(std::memory_order_acquire);
	cudaError_t error = REAL(cudaSetDevice)(home());

	if (error == cudaSuccess)
		in_move = now;
	return error;
}

// make_selected makes the context of the device that was selected with this result.
static cudaError_t make_selected(cudaError_t error)
{
	if (error == cudaSuccess && self.has_flags)
		error = REAL(cudaSetDeviceFlags)(self.flags);
	return error == cudaSuccess ? REAL(cudaFree)(nullptr) : error;
}

cudaError_t make_context()
{
	const cudaError_t error = make_selected(select_device());

	if (error == cudaSuccess) {
		CUcontext made = nullptr;
		in_move = self.moves.load();
		self.homes.fetch_or(uint64_t{1} << home());
		if (driver() != nullptr && driver()->get_current(&made) == CUDA_SUCCESS)
			self.context.store(made);
	}
	return error;
}

static bool was_on(int ordinal) { return (self.homes >> ordinal & 1) != 0; }

static thread_local bool entering; // or leaving again

bool entering_device() { return entering; }

cudaError_t enter_device(int ordinal, CUcontext *made)
{
	entering = true;
	const cudaError_t selected = REAL(cudaSetDevice)(ordinal), error = was_on(ordinal) ? selected : make_selected(selected);
	entering = false;
	return error == cudaSuccess && driver()->get_current(made) != CUDA_SUCCESS ? cudaErrorNoDevice : error;
}

void settle_on(int ordinal, CUcontext context, int scheduled)
{
	self.homes.fetch_or(uint64_t{1} << ordinal);
	self.context.store(context);
	self.scheduled.store(scheduled);
	self.ordinal.store(ordinal);
	in_move = self.moves.fetch_add(1) + 1;
}

void leave_device(int ordinal)
{
	entering = true;
	if (!was_on(ordinal) && REAL(cudaSetDevice)(ordinal) == cudaSuccess)
		REAL(cudaDeviceReset)();
	entering = false;
	choose_device();
}

unsigned device_epoch() { return self.moves.load(std::memory_order_acquire); }

CUcontext context_of_task() { return self.context.load(); }

static std::atomic<unsigned> contexts_of_program{0};

static std::set<CUcontext> &contexts()
{
	static auto *const all = new std::set<CUcontext>; // outlives static destructors
	return *all;
}

void made_by_program(CUcontext context)
{
	Locked locked;
	contexts().insert(context);
	contexts_of_program.store(static_cast<unsigned>(contexts().size()));
}

void ended_by_program(CUcontext context)
{
	Locked locked;
	contexts().erase(context);
	contexts_of_program.store(static_cast<unsigned>(contexts().size()));
}

CUcontext program_context()
{
	CUcontext here = nullptr;

	if (contexts_of_program == 0 || driver() == nullptr || driver()->get_current(&here) != CUDA_SUCCESS)
		return nullptr;
	Locked locked;
	return contexts().count(here) != 0 ? here : nullptr;
}

void context_is_ready() { self.has_context.store(true, std::memory_order_release); }

} // namespace lazy

using namespace lazy;

bool case_device_is_used(int device)
{
	const auto state = REAL_DRIVER(cuDevicePrimaryCtxGetState);
	unsigned flags = 0;
	int active = 0;

	return state != nullptr && state(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}
