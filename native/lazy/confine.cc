// confine.cc: a device before the driver.
//
// A program that reaches CUDA past the shared runtime (objects.cc) counts devices, names them,
// and asks which device memory is on, where this library cannot translate the answers. So the
// program may see only one device. That must be settled before cuInit, which reads
// CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, "CUDA Environment Variables").
//
// So cuInit is overridden, as gate.cc overrides the calls that make contexts: it asks for a
// device first, and leaves only that device visible. From then on the process has device 0 in
// every API, and stays on the device.
//
// A self-contained program is not confined, and may move between its tasks. A program that
// loads a foreign part after the driver was initialized is not confined either: gate.cc serves
// it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <atomic>
#include <string>

#include "../probe/client.h"
#include "confine.h"
#include "device.h"
#include "gate.h"
#include "grace.h"
#include "lock.h"
#include "mode.h"
#include "objects.h"
#include "real.h"
#include "task.h"

using namespace lazy;

CASE_API CUresult cuInit(unsigned flags);
extern "C" {
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetUuid_v2(unsigned char uuid[16], CUdevice device);
}

namespace lazy {
namespace {

const char visible[] = "CUDA_VISIBLE_DEVICES";
const char devices[] = "CASE_DEVICES"; // the run's
// What was visible, for the programs that this program starts: "UUID;list".
const char was_visible[] = "CASE_VISIBLE_DEVICES";

const unsigned char unknown[16] = {};

bool chosen; // what the driver is to see, for good
pthread_mutex_t choosing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; // while the environment says so
std::atomic<bool> started; // somebody has called the driver's cuInit
std::atomic<bool> alone;   // and it shows the granted device only

std::string name_of(const unsigned char uuid[16])
{
	std::string name = "GPU-";

	for (int i = 0; i < 16; i++) {
		char hex[4];
		snprintf(hex, sizeof hex, "%02x%s", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
		name += hex;
	}
	return name;
}

void show(const std::string &list)
{
	if (list.empty())
		unsetenv(visible);
	else
		setenv(visible, list.c_str(), 1);
	unsetenv(was_visible);
}

// A program that a confined program has started asks for a task of its own, which may get
// another device. If CUDA_VISIBLE_DEVICES was set in between, the program keeps that list. The
// program's own constructors come later.
__attribute__((constructor(101))) void see_again()
{
	const char *was = getenv(was_visible), *now = getenv(visible);
	const char *list = was == nullptr ? nullptr : strchr(was, ';');

	if (list == nullptr)
		return;
	if (now != nullptr && std::string(was, list) == now)
		show(list + 1);
	else
		unsetenv(was_visible);
}

// watches: the caller is part of the driver, or of a profiler that is loaded while
// it starts.
bool watches(const void *caller)
{
	Dl_info info;
	return !in_runtime(caller) && dladdr(caller, &info) != 0 && info.dli_fname != nullptr && known(info.dli_fname);
}

} // namespace

// Tools that are loaded inside cuInit call it again, hence the order.
static CUresult start(unsigned flags)
{
	const auto init = REAL_DRIVER(cuInit);

	started.store(true);
	if (init == nullptr)
		return static_cast<CUresult>(cudaErrorNoDevice);
	return await_server([=] { return init(flags); });
}

// A program, or a script that starts it, may choose among the run's devices with the variable. Its
// devices would then differ from those that the scheduler means.
CUresult init_driver(unsigned flags)
{
	if (mode() != Mode::passive) {
		Locked locked(choosing);
		const char *all = client_variable(devices);
		if (!chosen && all != nullptr)
			show(all);
		chosen = true;
	}
	return start(flags);
}

int ordinal_of(const unsigned char uuid[16], int otherwise)
{
	int count = 0;
	unsigned char found[16];
	const auto uuid_of = REAL_DRIVER(cuDeviceGetUuid_v2); // since CUDA 11.4

	driver(); // is started, or being started: that has to end
	if (memcmp(uuid, unknown, sizeof unknown) == 0 || uuid_of == nullptr ||
	    REAL_DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
		return otherwise;
	for (int i = 0; i < count; i++)
		if (uuid_of(found, i) == CUDA_SUCCESS && memcmp(found, uuid, sizeof found) == 0)
			return i;
	return -1;
}

std::string visible_at_start()
{
	const char *was = getenv(was_visible), *now = getenv(visible);
	const char *list = was == nullptr ? nullptr : strchr(was, ';');

	return list != nullptr ? list + 1 : now != nullptr ? now : "";
}

void renew_choosing() { choosing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

bool confined() { return alone.load(std::memory_order_acquire); }

bool confine(const unsigned char uuid[16])
{
	const std::string name = name_of(uuid);
	std::string before;
	int count = 0;

	if (started || self_contained() || memcmp(uuid, unknown, sizeof unknown) == 0)
		return false;
	{
		Locked locked(choosing);
		if (chosen)
			return false;
		chosen = true;
		const char *list = getenv(visible), *all = client_variable(devices);
		before = all != nullptr ? all : list != nullptr ? list : "";
		setenv(was_visible, (name + ";" + before).c_str(), 1);
		setenv(visible, name.c_str(), 1);
	}
	// A driver that cannot start now reads the variable when it does.
	if (start(0) == CUDA_SUCCESS && (REAL_DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count != 1)) {
		show(before); // somebody has initialized it unseen
		return false;
	}
	alone.store(true, std::memory_order_release);
	return true;
}

// The caller may be inside the CUDA runtime, and hold a lock there that the holder of `lock`
// goes on to take. So the caller waits for `lock` only until the driver is started. In a foreign
// program that comes first.
cudaError_t await_confined()
{
	const timespec pause = {0, 1000000};

	if (!one_device() || started || self_contained())
		return cudaSuccess;
	while (!started) {
		if (pthread_mutex_trylock(&lock) != 0) {
			nanosleep(&pause, nullptr);
			continue;
		}
		const Locked locked;
		pthread_mutex_unlock(&lock);
		return home() >= 0 || Task::process().held() ? cudaSuccess : Task::process().await_grant({}, 0, false);
	}
	return cudaSuccess;
}

} // namespace lazy

CUresult cuInit(unsigned flags)
{
	const void *caller = __builtin_return_address(0);

	if (one_device() && !started && !watches(caller)) {
		if (!in_runtime(caller))
			meet_driver();
		if (cudaError_t error = await_confined(); error != cudaSuccess)
			return result_of(error);
	}
	return init_driver(flags);
}
