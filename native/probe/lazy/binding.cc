// binding.cc: from unbound to bound.
#include "grace.h"
#include "runtime.h"

extern "C" {
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaFree(void *memory);
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared);
}

namespace lazy {

pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t registering = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
std::atomic<bool> bound{false};
static bool binding, asking;

// A child of fork has one thread, so what another one held nobody would give back, and
// it may have been waiting for a grant: a handler before the fork would wait for that.
static void renew_locks()
{
	lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	renew_growing();
	renew_looking();
	renew_choosing();
	renew_explicit();
	registering = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	binding = asking = false;
}

__attribute__((constructor)) static void renew_locks_in_children() { pthread_atfork(nullptr, nullptr, renew_locks); }

static std::atomic<int> device{-1}; // the driver's ordinal; its context exists or is being made
static std::atomic<bool> ready{false}; // its context is made, and what came before it is replayed
static std::atomic<int> granted_last{-1}; // the scheduler's
static std::atomic<unsigned> epoch{1};
static std::atomic<bool> unmovable{false};
static bool has_flags;
static unsigned device_flags;
static uint64_t refused_at; // bytes: what was refused is not asked for again,
static cudaError_t refused_with; // unless a wait ended
static std::atomic<bool> wait_seen{false}; // and the program has taken that error
static bool hidden;         // the granted device is not visible
static cudaError_t lost;    // what an MPS server said that did not recover in time
static thread_local unsigned in_epoch;

bool one_device() { return mode() == Mode::task; }
bool deferring()
{
	if (!one_device() || bound.load(std::memory_order_acquire))
		return false;
	return self_contained() || enter() != cudaSuccess;
}
bool has_context() { return ready.load(std::memory_order_acquire); }
int home() { return device.load(std::memory_order_acquire); }
int scheduled() { return granted_last.load(std::memory_order_relaxed); }
void saw_wait_end() { wait_seen.store(true); }
void keep_device() { unmovable.store(true, std::memory_order_relaxed); }

void keep_flags(unsigned flags)
{
	has_flags = true;
	device_flags = flags;
}

int visible_to_real(int visible)
{
	const int none = 1 << 16, here = home(); // more than the driver counts

	if (!one_device() || here < 0 || visible < 0 || visible == here)
		return visible;
	return visible == 0 ? here : none;
}

int real_to_visible(int real) { return one_device() && real >= 0 && real == home() ? 0 : real; }

void forget_device()
{
	ready.store(false);
	device.store(-1);
	epoch.fetch_add(1);
	unmovable.store(false);
	refused_at = 0;
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

// own_context is the thread's context where that is on the granted device: the
// CUDA runtime works in it, and so does what the program launches next (CUDA
// Programming Guide, "Interoperability between Runtime and Driver APIs").
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

// select_device makes the granted device the one that the CUDA runtime takes in
// this thread where it has no context.
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
	unsigned now = epoch.load(std::memory_order_acquire);
	if (in_epoch == now)
		return;
	if (select_device() == cudaSuccess)
		in_epoch = now;
}

cudaError_t choose_device()
{
	const unsigned now = epoch.load(std::memory_order_acquire);
	cudaError_t error = REAL(cudaSetDevice)(home());

	if (error == cudaSuccess)
		in_epoch = now;
	return error;
}

// settle opens the task and settles the device; it makes no call of the CUDA
// runtime, because gate.cc comes here from inside one.
static cudaError_t settle(const Need &need)
{
	case_task granted = {};

	asking = true;
	const cudaError_t error = open_task(need, &granted);
	asking = false;
	if (error != cudaSuccess)
		return error;
	refused_at = 0;
	int ordinal = granted.device;
	if (granted.device < 0) { // unscheduled: as the program itself would have it
		ordinal = home() < 0 ? 0 : home();
	} else {
		granted_last.store(granted.device, std::memory_order_relaxed);
		ordinal = confined() || confine(granted.uuid) ? 0 : ordinal_of(granted.uuid, granted.device);
	}
	if (ordinal < 0) { // an environment of the program's own hides it, for good
		abandon_task();
		hidden = true;
		return lasting(cudaErrorNoDevice, "the granted device, which CUDA_VISIBLE_DEVICES hides");
	}
	if (ordinal != home()) {
		device.store(ordinal, std::memory_order_release);
		epoch.fetch_add(1, std::memory_order_acq_rel);
	}
	return cudaSuccess;
}

// stays: no other device than the one of before will do.
static bool stays() { return confined() || ((unmovable || cover_of(0).tasks > 0) && home() >= 0); }

cudaError_t ask_ahead(uint32_t wait_ms)
{
	if (asking)
		return cudaErrorNotPermitted;
	return hidden ? cudaErrorNoDevice : settle({{}, charged(), false, stays(), scheduled(), wait_ms});
}

cudaError_t ask(const Shape &shape, uint64_t more, bool managed)
{
	const Footprint hint = home() < 0 ? declared() : Footprint{}; // of the job's first task
	const uint64_t known = charged() + more;
	Need need = {shape, known > hint.bytes ? known : hint.bytes, managed, stays(), scheduled(), CASE_WAIT_DEFAULT};

	if (asking)
		return cudaErrorNotPermitted;
	if (hidden)
		return cudaErrorNoDevice;
	if (refused_at != 0 && known >= refused_at && !(refused_with == cudaErrorNotReady && wait_seen))
		return refused_with;
	if (shape.blocks == 0)
		need.shape = {hint.blocks, hint.threads_per_block, 0};
	const cudaError_t error = settle(need);
	if (error != cudaSuccess && !hidden) {
		refused_at = known > 0 ? known : 1;
		refused_with = error;
		wait_seen.store(false);
	}
	return error;
}

static cudaError_t make_context()
{
	cudaError_t error = select_device();
	if (error == cudaSuccess && has_flags)
		error = REAL(cudaSetDeviceFlags)(device_flags);
	return error == cudaSuccess ? REAL(cudaFree)(nullptr) : error;
}

// make_ready makes the context, and what the program did so far on it.
static cudaError_t make_ready()
{
	cudaError_t error = make_context();
	if (error != cudaSuccess) {
		if (error == cudaErrorMemoryAllocation)
			return failed_allocation("the context", 0);
		return seen(error, "cudaSetDevice");
	}
	in_epoch = epoch.load();
	error = map_all(home());
	if (error == cudaSuccess && (error = replay()) != cudaSuccess)
		REAL(cudaDeviceSynchronize)(); // what was replayed uses the memory
	return error;
}

cudaError_t bind(const Shape &shape, uint64_t more, bool managed)
{
	if (bound || (binding && !asking))
		return cudaSuccess;
	if (asking)
		return fail(cudaErrorNotPermitted);
	if (lost != cudaSuccess)
		return fail(lost);
	binding = true;
	cudaError_t error = task_is_open()                    ? cover(more)
	                    : home() >= 0 && covered(0, more) ? cudaSuccess
	                                                      : ask(shape, more, managed);
	if (error == cudaSuccess) {
		error = make_ready();
		if (error != cudaSuccess) {
			unmap_all();
			abandon_task();
			if (Grace::over() && turned_away(error))
				lost = error;
		}
	}
	binding = false;
	if (error != cudaSuccess)
		return fail(error);
	ready.store(true, std::memory_order_release);
	bound.store(true, std::memory_order_release);
	return cudaSuccess;
}

cudaError_t enter()
{
	if (!one_device())
		return cudaSuccess;
	if (!bound.load(std::memory_order_acquire)) {
		Locked locked;
		cudaError_t error = bind();
		if (error != cudaSuccess)
			return error;
	}
	use_device();
	return cudaSuccess;
}

cudaError_t enter_context()
{
	if (!one_device() || !has_context())
		return enter();
	use_device();
	return cudaSuccess;
}

// occupancy is how many blocks of the kernel one SM holds at once; 0: unknown.
static uint32_t occupancy(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	int blocks = 0;

	if (REAL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, kernel, static_cast<int>(threads_per_block),
	                                                        shared_bytes) != cudaSuccess)
		return 0;
	return blocks > 0 ? static_cast<uint32_t>(blocks) : 0;
}

uint32_t blocks_per_sm(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	if (home() < 0)
		return occupancy_from_code(kernel, threads_per_block, shared_bytes);
	use_device(); // or the CUDA runtime would make a context for this thread's device
	return occupancy(kernel, threads_per_block, shared_bytes);
}

void launched(const void *kernel, uint64_t blocks, uint32_t threads_per_block, size_t shared_bytes)
{
	working_in_order();
	if (mode() == Mode::passive || !is_news(blocks, threads_per_block))
		return;
	reshape({blocks, threads_per_block, occupancy(kernel, threads_per_block, shared_bytes)});
}

} // namespace lazy
