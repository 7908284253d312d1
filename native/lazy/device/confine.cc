// confine.cc: a device before the driver.
//
// A program that reaches CUDA past the shared runtime (program/objects.cc) counts devices, names them,
// and asks which device memory is on, where this library cannot translate the answers. So the
// program may see only one device. That must be settled before cuInit, which reads
// CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, "CUDA Environment Variables").
//
// So cuInit is overridden, as the calls that make contexts are (driver/context_gate.cc): it asks for a
// device first, and leaves only that device visible. From then on the process has device 0 in
// every API, and stays on the device.
//
// A self-contained program is not confined, and may move between its tasks. A program that
// loads a foreign part after the driver was initialized is not confined either: driver/context_gate.cc serves
// it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <string>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "probe/client.h"
#include "program/mode.h"
#include "program/objects.h"
#include "confine.h"
#include "device.h"
#include "driver.h"
#include "mps_recovery.h"

extern "C" {
CUresult cuInit(unsigned flags);
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

bool driver_started() { return started; }

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

} // namespace lazy
