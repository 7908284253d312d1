// mode.cc: what the environment says (set by runner/live).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

namespace lazy {

static bool set(const char *name)
{
	const char *value = getenv(name);

	return value != nullptr && *value != '\0' && strcmp(value, "0") != 0;
}

Mode mode()
{
	static const Mode found = [] {
		const char *binding = getenv("CASE_BINDING");
		if (binding == nullptr || strcmp(binding, "task") != 0)
			return Mode::passive;
		return set("CASE_PIN") ? Mode::pinned : Mode::task;
	}();
	return found;
}

bool guarded()
{
	static const bool found = set("CASE_GUARD");
	return found;
}

// The runtime hands out memory in granules of 2 MiB, and what is declared are
// sums of sizes: this is for eight objects.
static const uint64_t rounding = 16 << 20;

const Footprint &declared()
{
	static const Footprint found = [] {
		Footprint f = {};
		const char *text = getenv("CASE_FOOTPRINT");
		if (text != nullptr && sscanf(text, "%" SCNu64 ",%" SCNu64 ",%" SCNu32, &f.bytes, &f.blocks,
		                              &f.threads_per_block) < 1)
			f = {};
		if (f.bytes > 0)
			f.bytes += rounding;
		return f;
	}();
	return found;
}

// A copy of pageable memory costs about 0.2 ms per MiB; this keeps what a
// program waits for it under 15 ms, and the memory it takes in proportion.
static const uint64_t default_record_limit = 64 << 20;

uint64_t record_limit()
{
	static const uint64_t found = [] {
		const char *text = getenv("CASE_RECORD_LIMIT");
		char *end = nullptr;
		uint64_t bytes = text == nullptr ? 0 : strtoull(text, &end, 10);
		return text == nullptr || end == text || *end != '\0' ? default_record_limit : bytes;
	}();
	return found;
}

} // namespace lazy
