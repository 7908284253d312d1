// bypass.cc: see bypass.h.
//
// Memory may be taken only while nothing of the process runs. So all work must pass the gate
// (submit_gate.h). Calls of the shared CUDA runtime do. A part of the program that calls the driver gets
// the driver's functions from this library, which overrides each way to look them up. So it is known
// which functions a part has got: those that are overridden, those that give no work (calls/cuda.calls),
// and others. One of the others is enough to leave the memory where it is. Such is cuGetExportTable,
// through which a static CUDA runtime has functions that nobody can know.
//
// A part that may call the driver and has never looked up a function here may have found functions
// past this library (RTLD_DEEPBIND, dlmopen).
#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include <atomic>

#include "abi/symbols.h"
#include "memory/memory.h"
#include "program/objects.h"
#include "bypass.h"
#include "revoke.h"
#include "submit_gate.h"

namespace lazy {
namespace {

const char *const harmless[] = {
#define HARMLESS(name) #name,
#include "calls/harmless.def"
#undef HARMLESS
};

std::atomic<const char *> past{nullptr}; // a function that was handed out

// base is a function's name as cuGetProcAddress is asked for it.
std::string base(std::string name)
{
	for (const char *variant : {"_ptsz", "_ptds"})
		if (const size_t at = name.rfind(variant); at != std::string::npos && at + strlen(variant) == name.size())
			name.resize(at);
	const size_t at = name.rfind("_v");
	return at != std::string::npos && name.find_first_not_of("0123456789", at + 2) == std::string::npos ? name.substr(0, at) : name;
}

bool is_harmless(const std::string &name)
{
	for (const char *h : harmless)
		if (name == h)
			return true;
	return false;
}

// is_own: the function is this library's, which passes the gate.
bool is_own(const void *function)
{
	Dl_info its, own;
	return dladdr(function, &its) != 0 && dladdr(&past, &own) != 0 && its.dli_fbase == own.dli_fbase;
}

} // namespace

// A context that a part makes itself is one that nobody waits for. From now on work may come without permission, so
// nothing may be bare.
void handed_out(const char *name, const void *function, const void *caller)
{
	if (function == nullptr || strncmp(name, "cu", 2) != 0 || isupper(static_cast<unsigned char>(name[2])) == 0 || !looks_up(caller))
		return;
	const std::string plain = base(name);
	if (plain != "cuCtxCreate" && (is_own(function) || is_harmless(plain)))
		return;
	if (past == nullptr)
		past = strdup(plain.c_str());
	await_open_submit_gate();
	need_mapped();
}

std::string bypass()
{
	if (linked_program() != nullptr) // the program's own calls are not told from the runtime's
		return self_contained() ? "" : "a part of the program calls the driver";
	if (const char *const name = past; name != nullptr)
		return std::string("a part of the program calls ") + name;
	return unseen_part();
}

} // namespace lazy
