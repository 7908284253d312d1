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
// CUDA shows a process one instance of MIG, the first that CUDA_VISIBLE_DEVICES names (NVIDIA, "Multi-Instance GPU
// User Guide"). So in a run with instances every program is confined. MPS has a server for each instance, and
// thus the process gets its device's pipe directory too.
//
// Any other self-contained program is not confined, and may move between its tasks. A program that
// loads a foreign part after the driver was initialized is not confined either: driver/context_gate.cc serves
// it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <string>
#include <vector>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "probe/client.h"
#include "program/mode.h"
#include "program/objects.h"
#include "addresses.h"
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

const char devices[] = "CASE_DEVICES"; // the run's,
const char pipes[] = "CASE_MPS_PIPES"; // and the directory of the MPS server of each

// Narrowed is a variable of the driver's that confine sets. `was` keeps what it was before, for the programs that this program starts:
// "set;before".
struct Narrowed {
	const char *variable, *was;
};
const Narrowed visible = {"CUDA_VISIBLE_DEVICES", "CASE_VISIBLE_DEVICES"}, pipe = {"CUDA_MPS_PIPE_DIRECTORY", "CASE_MPS_PIPE_DIRECTORY"};

const unsigned char unknown[16] = {};

bool chosen; // what the driver is to see, for good
pthread_mutex_t choosing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; // while the environment says so
std::atomic<bool> started; // somebody has called the driver's cuInit
std::atomic<bool> alone;   // and it shows the granted device only

std::vector<std::string> split(const char *list, char by)
{
	std::vector<std::string> parts;

	for (const char *at = list; at != nullptr;) {
		const char *const end = strchr(at, by);
		parts.push_back(end != nullptr ? std::string(at, end) : at);
		at = end != nullptr ? end + 1 : nullptr;
	}
	return parts;
}

// Named is a device of the run's as the driver names it, with its place in CASE_DEVICES. A device that is not in the list is a
// whole GPU.
struct Named {
	std::string name;
	size_t place;
};

Named named(const unsigned char uuid[16])
{
	const std::vector<std::string> all = split(client_variable(devices), ',');
	std::string number;

	for (int i = 0; i < 16; i++) {
		char hex[4];
		snprintf(hex, sizeof hex, "%02x%s", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
		number += hex;
	}
	for (size_t i = 0; i < all.size(); i++)
		if (all[i] == "MIG-" + number || all[i] == "GPU-" + number)
			return {all[i], i};
	return {"GPU-" + number, all.size()};
}

void narrow(const Narrowed &n, const std::string &to, const std::string &before)
{
	setenv(n.was, (to + ";" + before).c_str(), 1);
	setenv(n.variable, to.c_str(), 1);
}

void widen(const Narrowed &n, const std::string &before)
{
	if (before.empty())
		unsetenv(n.variable);
	else
		setenv(n.variable, before.c_str(), 1);
	unsetenv(n.was);
}

// undo gives a variable back that this program's parent has narrowed, unless somebody has set it in between.
void undo(const Narrowed &n)
{
	const char *was = getenv(n.was), *now = getenv(n.variable);
	const char *before = was == nullptr ? nullptr : strrchr(was, ';');

	if (before == nullptr)
		return;
	if (now != nullptr && std::string(was, before) == now)
		widen(n, std::string(before + 1));
	else
		unsetenv(n.was);
}

// A program that a confined program has started asks for a task of its own, which may get
// another device. If CUDA_VISIBLE_DEVICES was set in between, the program keeps that list. The
// program's own constructors come later.
__attribute__((constructor(101))) void see_again()
{
	undo(visible);
	undo(pipe);
}

// shows_only: the driver's only device has that UUID.
bool shows_only(const unsigned char uuid[16])
{
	const auto uuid_of = REAL_DRIVER(cuDeviceGetUuid_v2); // since CUDA 11.4
	unsigned char found[16] = {};
	int count = 0;

	if (REAL_DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count != 1)
		return false;
	return uuid_of == nullptr || uuid_of(found, 0) != CUDA_SUCCESS || memcmp(found, uuid, sizeof found) == 0;
}

} // namespace

// Tools that are loaded inside cuInit call it again, hence the order.
static CUresult start(unsigned flags)
{
	const auto init = REAL_DRIVER(cuInit);

	const bool first = !started.exchange(true);
	if (init == nullptr)
		return static_cast<CUresult>(cudaErrorNoDevice);
	if (first)
		let_go_of_addresses();
	const CUresult result = await_server([=] { return init(flags); });
	if (first && result == CUDA_SUCCESS) // else no context can be made
		take_addresses_again();
	return result;
}

// A program, or a script that starts it, may choose among the run's devices with the variable. Its
// devices would then differ from those that the scheduler means.
CUresult init_driver(unsigned flags)
{
	if (mode() != Mode::passive) {
		Locked locked(choosing);
		const char *all = client_variable(devices);
		if (!chosen && all != nullptr)
			widen(visible, all);
		chosen = true;
	}
	return start(flags);
}

int ordinal_of(const unsigned char uuid[16], int otherwise)
{
	int count = 0;
	unsigned char found[16];
	const auto uuid_of = REAL_DRIVER(cuDeviceGetUuid_v2); // since CUDA 11.4

	if (awaits_device())
		init_driver(0);
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
	const char *was = getenv(visible.was), *now = getenv(visible.variable);
	const char *list = was == nullptr ? nullptr : strchr(was, ';');

	return list != nullptr ? list + 1 : now != nullptr ? now : "";
}

void renew_choosing() { choosing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

bool driver_started() { return started; }

bool to_confine() { return has_instances() || !self_contained(); }

bool awaits_device() { return has_instances() && one_device() && !started; }

bool confined() { return alone.load(std::memory_order_acquire); }

bool confine(const unsigned char uuid[16])
{
	const Named device = named(uuid);
	std::string before;

	if (started || !to_confine() || memcmp(uuid, unknown, sizeof unknown) == 0)
		return false;
	{
		Locked locked(choosing);
		if (chosen)
			return false;
		chosen = true;
		const char *list = getenv(visible.variable), *all = client_variable(devices), *server = getenv(pipe.variable);
		before = all != nullptr ? all : list != nullptr ? list : "";
		narrow(visible, device.name, before);
		const std::vector<std::string> servers = split(client_variable(pipes), ':');
		if (device.place < servers.size() && !servers[device.place].empty())
			narrow(pipe, servers[device.place], server != nullptr ? server : "");
	}
	// A driver that cannot start now reads the variable when it does.
	if (start(0) == CUDA_SUCCESS && !shows_only(uuid)) { // somebody has initialized it unseen
		widen(visible, before);
		undo(pipe);
		return false;
	}
	alone.store(true, std::memory_order_release);
	return true;
}

} // namespace lazy
