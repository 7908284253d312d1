// work.cc: what runs on the devices, so that no fault is silent and the scheduler knows who
// is idle.
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "device/device.h"
#include "probe/activity.h"
#include "program/mode.h"
#include "task/burst.h"
#include "task/report.h"
#include "task/stop.h"
#include "work.h"

extern "C" {
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
}

namespace lazy {

static std::atomic<uint64_t> unseen{0}; // a bit for each device
static pid_t process;                   // a child made by fork has no work

// this_device is the bit of the calling thread's device. Under task binding there is one device.
static uint64_t this_device()
{
	int device = 0;

	if (!one_device())
		REAL(cudaGetDevice)(&device);
	return uint64_t{1} << (device & 63);
}

// A fault in kernels that nobody waited for would never be seen.
static void await_and_report_at_exit()
{
	if (getpid() != process)
		return;
	await_kernel();
	stop_looks();
	use_device();
	const uint64_t here = this_device(), left = unseen.load();
	if (left & here) // in a context of the program's own, perhaps
		seen(REAL(cudaDeviceSynchronize)(), "the end of the program");
	for (int device = 0; device < 64; device++)
		if ((left & ~here) >> device & 1 && REAL(cudaSetDevice)(device) == cudaSuccess)
			seen(REAL(cudaDeviceSynchronize)(), "the end of the program");
}

// The handler is registered after those of the CUDA runtime, so that it runs before they take the
// context away. So it must not be registered before there is a context.
void working_in_order()
{
	static const bool registered = [] {
		process = getpid();
		return atexit(await_and_report_at_exit) == 0;
	}();
	const uint64_t device = this_device();
	if (registered && (unseen.load(std::memory_order_relaxed) & device) == 0)
		unseen.fetch_or(device, std::memory_order_relaxed);
	activity_began();
}

static std::atomic<bool> others{false};

void other_streams()
{
	if (!others.load(std::memory_order_relaxed))
		others.store(true);
}

void working()
{
	other_streams();
	working_in_order();
}

// A call that may be the first to make the context is too early for the handler. The program's
// first call asks for no work.
void working_soon()
{
	static std::atomic<bool> called{false};
	if (called.exchange(true))
		working();
}

bool at_work() { return (unseen.load(std::memory_order_relaxed) & this_device()) != 0; }
void idle() { unseen.fetch_and(~this_device(), std::memory_order_relaxed); }

// Before the constructors of a program that the library is linked into: they may use CUDA.
__attribute__((constructor(101))) static void watch() { activity_watched(); }

uint64_t before_wait() { return activity_mark(); }

void waited_in_order(uint64_t before)
{
	if (!others && (unseen.load(std::memory_order_relaxed) & ~this_device()) == 0)
		activity_over(before);
}

void waited(uint64_t before)
{
	if (unseen.load(std::memory_order_relaxed) == 0)
		activity_over(before);
}

} // namespace lazy
