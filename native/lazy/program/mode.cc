// mode.cc: what the environment says (set by runner/live).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "abi/symbols.h"
#include "probe/client.h"
#include "mode.h"
#include "objects.h"

namespace lazy {

static bool set(const char *name)
{
	const char *value = client_variable(name);

	return value != nullptr && *value != '\0' && strcmp(value, "0") != 0;
}

static std::atomic<Mode> settled{Mode::unknown};
static std::atomic<bool> elsewhere{false}, asking{false}; // what modules said at their start

void static_elsewhere(bool asks) { (asks ? asking : elsewhere).store(true); }

static bool partly_static() { return elsewhere && !asking; }

static Mode by_environment()
{
	const char *binding = client_variable("CASE_BINDING");

	if (binding == nullptr || strcmp(binding, "task") != 0 || program_serves_itself())
		return Mode::passive;
	return set("CASE_PIN") ? Mode::pinned : Mode::task;
}

// settle makes it `otherwise` where the environment says task binding, unless another thread
// has settled it.
static Mode settle(Mode otherwise)
{
	const Mode said = by_environment(), found = said == Mode::task ? otherwise : said;
	Mode was = Mode::unknown;

	return settled.compare_exchange_strong(was, found) ? found : was;
}

bool has_instances()
{
	static const bool found = [] {
		const char *const devices = client_variable("CASE_DEVICES");
		const std::string list = std::string(",") + (devices != nullptr ? devices : "");
		return list.find(",MIG-") != std::string::npos;
	}();
	return found;
}

// may_choose: a program that asks for tasks itself chooses devices.
static bool may_choose() { return !partly_static() && !has_instances(); }

Mode mode()
{
	const Mode found = settled.load(std::memory_order_acquire);
	return found != Mode::unknown ? found : settle(asks_for_tasks() && may_choose() ? Mode::pinned : Mode::task);
}

bool chooses_devices()
{
	if (settled == Mode::unknown)
		settle(may_choose() ? Mode::pinned : Mode::task);
	return mode() != Mode::task;
}

bool guarded()
{
	static const bool found = set("CASE_GUARD");
	return found;
}

bool may_be_taken()
{
	static const bool asked = set("CASE_MOVABLE");
	return asked;
}

bool asked_to_move() { return may_be_taken() && one_device(); }

std::string exports()
{
	static const char *const said = client_variable("CASE_EXPORTS");
	if (said != nullptr && *said != '\0')
		return set("CASE_EXPORTS") ? "the program exports memory, as CASE_EXPORTS says" : "";
	const std::string part = exporting_part();
	return part.empty() ? "" : part + " may export memory (CASE_EXPORTS=0: it does not)";
}

// Memory that is exported to other processes must be cudaMalloc's own.
bool movable() { return asked_to_move() && exports().empty(); }

const Room &room()
{
	static const Room found = [] {
		Room r = {};
		const char *text = client_variable("CASE_CAPACITY");
		if (mode() == Mode::passive || text == nullptr || sscanf(text, "%" SCNu64 ",%" SCNu64 ",%" SCNu64, &r.device, &r.host, &r.seems) < 2)
			r = {};
		if (!asked_to_move())
			r.host = 0;
		return r;
	}();
	return found;
}

const Footprint &declared()
{
	static const Footprint found = [] {
		Footprint f = {};
		const char *text = client_variable("CASE_FOOTPRINT");
		if (text != nullptr && sscanf(text, "%" SCNu64 ",%" SCNu64 ",%" SCNu32, &f.bytes, &f.blocks,
		                              &f.threads_per_block) < 1)
			f = {};
		if (f.bytes > 0)
			f.bytes += rounding;
		return f;
	}();
	return found;
}

// A copy of pageable memory costs about 0.2 ms per MiB. This limit keeps what a
// program waits for it under 15 ms, and the memory it takes in proportion.
static const uint64_t default_record_limit = 64 << 20;

uint64_t record_limit()
{
	static const uint64_t found = [] {
		const char *text = client_variable("CASE_RECORD_LIMIT");
		char *end = nullptr;
		uint64_t bytes = text == nullptr ? 0 : strtoull(text, &end, 10);
		return text == nullptr || end == text || *end != '\0' ? default_record_limit : bytes;
	}();
	return found;
}

} // namespace lazy
