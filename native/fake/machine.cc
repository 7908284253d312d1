// machine.cc: devices, contexts, and what the environment asks for.
#include "machine.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fake {

namespace {

size_t setting(const char *name, size_t otherwise)
{
	const char *value = getenv(name);
	return value != nullptr ? strtoull(value, nullptr, 10) : otherwise;
}

std::vector<std::string> split(const char *text)
{
	std::vector<std::string> parts;
	for (std::string rest = text != nullptr ? text : ""; !rest.empty();) {
		size_t comma = rest.find(',');
		parts.push_back(rest.substr(0, comma));
		rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
	}
	return parts;
}

// is_instance: the first devices are instances of MIG (FAKE_MIG).
bool is_instance(const Device &d) { return d.physical < static_cast<int>(setting("FAKE_MIG", 0)); }

std::string uuid_text(const Device &d)
{
	const uint8_t *u = d.uuid;
	std::string all = is_instance(d) ? "MIG-" : "GPU-";
	for (int i = 0; i < 16; i++) {
		char hex[4];
		snprintf(hex, sizeof hex, "%02x%s", u[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
		all += hex;
	}
	return all;
}

Device physical_device(int index)
{
	Device d = {};
	d.physical = index;
	d.uuid[0] = 0xca;
	d.uuid[1] = 0x5e;
	d.uuid[15] = static_cast<uint8_t>(index);
	d.total = setting("FAKE_CUDA_MEMORY", 1 << 30);
	return d;
}

// An entry of FAKE_CUDA_FAIL or FAKE_CUDA_KILL.
struct Plan {
	std::string call;
	unsigned long nth;
	bool later; // also each call after it
	int error;

	bool is(const char *name, unsigned long number) const { return call == name && (number == nth || (later && number > nth)); }
};

std::vector<Plan> plans(const char *variable)
{
	std::vector<Plan> all;
	for (std::string entry : split(getenv(variable))) {
		char call[128];
		Plan p = {"", 0, false, 0};
		if (const size_t plus = entry.find('+'); plus != std::string::npos) {
			p.later = true;
			entry.erase(plus, 1);
		}
		if (sscanf(entry.c_str(), "%127[^:]:%lu=%d", call, &p.nth, &p.error) < 2) {
			fprintf(stderr, "fake CUDA: %s: cannot read %s\n", variable, entry.c_str());
			abort();
		}
		p.call = call;
		all.push_back(p);
	}
	return all;
}

// times are the entries NAME=MICROSECONDS of a variable. An entry without a name is for all names.
std::map<std::string, std::chrono::microseconds> times(const char *variable)
{
	std::map<std::string, std::chrono::microseconds> all;
	for (const std::string &entry : split(getenv(variable))) {
		const size_t equal = entry.find('=');
		const std::string number = equal == std::string::npos ? entry : entry.substr(equal + 1);
		if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) {
			fprintf(stderr, "fake CUDA: %s: cannot read %s\n", variable, entry.c_str());
			abort();
		}
		all[equal == std::string::npos ? "" : entry.substr(0, equal)] = std::chrono::microseconds(strtoull(number.c_str(), nullptr, 10));
	}
	return all;
}

std::chrono::microseconds time_of(const std::map<std::string, std::chrono::microseconds> &times, const char *name)
{
	auto at = times.find(name);
	if (at == times.end())
		at = times.find("");
	return at == times.end() ? std::chrono::microseconds{0} : at->second;
}

} // namespace

std::chrono::microseconds Machine::kernel_time(const char *kernel)
{
	static const auto &all = *new auto(times("FAKE_CUDA_KERNEL_US"));
	return time_of(all, kernel);
}

// Up to the first unknown entry of CUDA_VISIBLE_DEVICES. Where one is listed twice, the driver shows none (seen with driver 580). Of
// instances of MIG a process sees one: what is named first counts.
std::vector<Device> visible_devices()
{
	std::vector<Device> all, seen;
	for (int i = 0; i < static_cast<int>(setting("FAKE_CUDA_DEVICES", 2)) && i < FAKE_CUDA_MAX_DEVICES; i++)
		all.push_back(physical_device(i));
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	if (visible == nullptr)
		return !all.empty() && is_instance(all[0]) ? std::vector<Device>{all[0]} : all;
	for (const std::string &name : split(visible)) {
		const Device *found = nullptr;
		for (const Device &d : all)
			if (name == std::to_string(d.physical) || name == uuid_text(d))
				found = &d;
		if (found == nullptr || (!seen.empty() && is_instance(*found) != is_instance(seen[0])))
			break;
		for (const Device &d : seen)
			if (d.physical == found->physical)
				return {};
		seen.push_back(*found);
		if (is_instance(*found))
			break;
	}
	return seen;
}

Machine &machine()
{
	static Machine *const one = new Machine;
	return *one;
}

int Machine::enter(const char *call, const std::string &arguments)
{
	static const char *const path = getenv("FAKE_CUDA_TRACE");
	static auto &trace = *new OwnFile;
	static const auto &fail = *new std::vector<Plan>(plans("FAKE_CUDA_FAIL"));
	static const auto &kill = *new std::vector<Plan>(plans("FAKE_CUDA_KILL"));
	static const auto &delay = *new auto(times("FAKE_CUDA_DELAY_US"));
	static auto &counts = *new std::map<std::string, unsigned long>;
	while (locking)
		lock.wait();
	const unsigned long nth = ++counts[call];

	if (path != nullptr) {
		std::string line = call + arguments + "\n";
		if (trace.number() < 0)
			trace = OwnFile(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
		if (write(trace.number(), line.data(), line.size()) < 0)
			abort();
	}
	for (const Plan &p : kill)
		if (p.is(call, nth))
			raise(SIGKILL);
	interrupt(call, FAKE_CUDA_BEFORE);
	if (const auto time = time_of(delay, call); time.count() > 0)
		lock.without([time] { return usleep(static_cast<useconds_t>(time.count())); });
	for (const Plan &p : fail)
		if (p.is(call, nth))
			return p.error;
	return 0;
}

void Machine::leave(const char *call) { interrupt(call, FAKE_CUDA_AFTER); }

void Machine::meanwhile(const char *call, fake_cuda_moment moment, void (*what)()) { interruptions[{call, moment}] = what; }

void Machine::interrupt(const char *call, fake_cuda_moment moment)
{
	const auto at = interruptions.find({call, moment});

	if (at == interruptions.end())
		return;
	void (*const what)() = at->second;
	interruptions.erase(at);
	lock.without(what);
}

int Machine::violation(const std::string &what)
{
	violations++;
	fprintf(stderr, "fake CUDA: violation: %s\n", what.c_str());
	return error_handle;
}

void Machine::take(Device &d, size_t bytes)
{
	d.used += bytes;
	publish();
}

void Machine::give(Device &d, size_t bytes)
{
	d.used -= bytes;
	publish();
}

// publish writes what the process has on each device of the node to a file of its own, for the fake NVML.
void Machine::publish()
{
	static const char *const directory = getenv("FAKE_NVML_PROCESSES");
	static auto &file = *new OwnFile;
	struct stat found;
	std::string text;

	if (directory == nullptr || stat(directory, &found) != 0 || !S_ISDIR(found.st_mode))
		return;
	if (file.number() < 0)
		file = OwnFile(::open((directory + ("/" + std::to_string(getpid()))).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	for (const Device &d : devices) {
		char line[64];
		snprintf(line, sizeof line, "%2d %20zu\n", d.physical, d.used); // each of one length: a reader sees a whole line
		text += line;
	}
	if (pwrite(file.number(), text.data(), text.size(), 0) < 0)
		abort();
}

int Machine::make_context(int device)
{
	Device &d = devices[static_cast<size_t>(device)];
	const size_t cost = setting("FAKE_CUDA_CONTEXT", 8 << 20);

	if (d.live)
		return 0;
	if (cost > d.total - d.used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	take(d, cost);
	d.live = true;
	d.fault = 0;
	order.push_back(device);
	contexts++;
	return 0;
}

void Machine::context(int device, CUcontext *out)
{
	*out = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
}

int Machine::make_own_context(int device, CUcontext *out)
{
	Device &d = devices[static_cast<size_t>(device)];
	const size_t cost = setting("FAKE_CUDA_CONTEXT", 8 << 20);

	if (cost > d.total - d.used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	take(d, cost);
	order.push_back(device);
	contexts++;
	*out = reinterpret_cast<CUcontext>(++made_own << 8 | (static_cast<uintptr_t>(device) + 1));
	own.insert(*out);
	return 0;
}

// make_local is what a launch does, and, where the pool may shrink, the limit of the stack. A context has room for the default.
int Machine::make_local(int device, size_t bytes, bool shrinks)
{
	Device &d = devices[static_cast<size_t>(device)];
	const size_t threads = multiprocessors * threads_per_multiprocessor, before = std::max(d.local, default_stack),
	             now = shrinks ? std::max(bytes, default_stack) : std::max(bytes, before);

	if (now > before && (now - before) * threads > d.total - d.used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	now > before ? take(d, (now - before) * threads) : give(d, (before - now) * threads);
	d.local = now;
	return 0;
}

void Machine::end_own_context(CUcontext context)
{
	if (own.erase(context) == 0) {
		violation("cuCtxDestroy of a context that cuCtxCreate did not make, or twice");
		return;
	}
	give(devices[static_cast<size_t>(device_of(context))], setting("FAKE_CUDA_CONTEXT", 8 << 20));
	for (auto it = segments.begin(); it != segments.end();) {
		const Segment s = it++->second;
		if (s.context == context)
			erase(s);
	}
}

bool Machine::alive(CUcontext context)
{
	const int device = device_of(context);
	CUcontext primary = nullptr;

	if (device < 0 || static_cast<size_t>(device) >= devices.size())
		return false;
	this->context(device, &primary);
	return context == primary ? devices[static_cast<size_t>(device)].live : own.count(context) != 0;
}

// All that the context owns goes with it; memory made by cuMemCreate does not.
void Machine::end_context(int device)
{
	Device &d = devices[static_cast<size_t>(device)];

	if (!d.live)
		return;
	d.live = false;
	d.fault = 0;
	d.peers.clear();
	d.settings = {};
	make_local(device, 0, true);
	give(d, setting("FAKE_CUDA_CONTEXT", 8 << 20));
	for (auto &s : streams)
		if (s->device == device) {
			s->live = false;
			s->done = s->submitted;
			s->queue.clear();
		}
	default_streams.erase(device);
	for (auto &[handle, e] : events)
		if (e->device == device)
			e->live = false;
	for (auto it = segments.begin(); it != segments.end();) {
		const Segment s = it++->second;
		if (s.device == device && s.kind != Segment::mapping && own.count(s.context) == 0)
			erase(s);
	}
	for (auto it = instances.begin(); it != instances.end();)
		it = it->first.second == device ? instances.erase(it) : std::next(it);
}

void Machine::read(fake_cuda_state *state)
{
	*state = {};
	state->contexts = contexts;
	for (size_t i = 0; i < order.size() && i < FAKE_CUDA_MAX_DEVICES; i++)
		state->order[i] = devices[static_cast<size_t>(order[i])].physical;
	for (const Device &d : devices) {
		state->live[d.physical] = d.live;
		state->used[d.physical] = d.used;
	}
	for (auto &[base, s] : segments) {
		state->allocations += s.kind == Segment::device_memory;
		state->mappings += s.kind == Segment::mapping;
		state->pinned += s.kind == Segment::pinned || s.kind == Segment::registered;
		state->managed += s.kind == Segment::managed;
	}
	state->handles = static_cast<unsigned>(handles.size());
	state->reservations = static_cast<unsigned>(reservations.size());
	for (auto &s : streams)
		state->streams += s->live;
	for (auto &[device, s] : default_streams)
		state->streams -= s->live;
	for (auto &[handle, e] : events)
		state->events += e->live;
	for (auto &s : streams)
		for (const Item &i : s->queue)
			state->submitted += i.work.takes.count() > 0;
	state->host_touches = host_touches;
	state->violations = violations;
}

} // namespace fake
