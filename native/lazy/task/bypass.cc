// bypass.cc: see bypass.h.
//
// Memory may be taken only while nothing of the process runs. So all work must pass the gate
// (submit_gate.h). Calls of the shared CUDA runtime do. A part of the program that calls the driver gets
// the driver's functions from this library, which overrides each way to look them up. Most are overridden, or
// give no work (calls/cuda.calls). Any other one is handed out as a call that first comes here (past_gate.S): from
// then on the memory stays where it is. A program that only has such a function changes nothing.
//
// A static CUDA runtime, and cuBLAS and others, also take tables of functions from cuGetExportTable. What is known of
// them is in `tables`. They get a copy of a table. Functions in it that are not known come here in the same way.
//
// A part may have found functions past this library (program/objects.cc). Where a part is linked with the driver, the
// linker has found them: here first.
#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <map>
#include <vector>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "memory/memory.h"
#include "program/mode.h"
#include "program/objects.h"
#include "bypass.h"
#include "revoke.h"
#include "submit_gate.h"

extern "C" {
extern char past_gate_calls[]; // past_gate.S
void *past_gate(unsigned index);
}

namespace lazy {
namespace {

const char *const harmless[] = {
#define HARMLESS(name) #name,
#include "calls/harmless.def"
#undef HARMLESS
};

constexpr unsigned all = ~0u;
template <typename... Index> constexpr unsigned functions(Index... index) { return (0u | ... | (1u << index)); }

// Tables of the driver 580, and which of their functions gave no work where they were called: by the runtime, cuBLAS,
// cuDNN, cuFFT, cuSOLVER, cuSPARSE, cuRAND and NVRTC of CUDA 13.0, and by NVML, in PyTorch 2.11, JAX 0.11 and CuPy 14.2.
// Kernels, copies and sets were as many as the calls of functions with a name. The runtime checks where two of the tables
// are, and one does not say how long it is, so they are handed out whole. What ZLUDA (ext/dark_api) knows of these
// three finds contexts and loads modules.
const struct Table {
	const char *id;
	unsigned harmless; // bits
} tables[] = {
	{"6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", all}, // of the runtime
	{"d4082055-bde6-704b-8d34-ba123c66e1f2", all}, // checks the others
	{"c693336e-1121-df11-a8c3-68f355d89593", all}, // what libraries keep for each context
	{"42d85a81-23f6-cb47-8298-f6e78a3aecdc", functions(2)},
	{"a094798c-2e74-2e74-93f2-0800200c0a66", functions(2, 6)},
	{"263e8860-7cd2-6143-92f6-bbd5006dfa7e", functions(2, 3)},
	{"f8cff951-2146-8b4e-b9e2-fb469e7c0dd9", functions(1)},
	{"21318c60-9714-3248-8ca6-41ff7324c8f2", functions(4)},
	{"6e163fbe-b958-444d-835c-e182aff1991e", functions(7)},
	{"1734dc26-800d-4745-8726-c0f1e7dd8bca", functions(4, 13)},
	{"da9151d3-3ae6-cc41-a5c0-4f26d533e328", functions(1, 2, 3, 4, 6)},
	{"69a28e9f-2449-8b47-b030-c5da330ea4e9", functions(19, 21, 24, 25)},
};

std::atomic<const std::string *> past{nullptr}; // why memory stays
const char a_part_calls[] = "a part of the program calls ";

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

bool is_of_driver(const char *name) { return strncmp(name, "cu", 2) == 0 && isupper(static_cast<unsigned char>(name[2])) != 0; }

bool passes(const char *name, const void *function) { return is_own(function) || is_harmless(base(name)); }

// memory_stays comes before a call that may give work without permission, so nothing may be bare. A gate that is closed
// may have been closed before `past` was set.
void memory_stays(const std::string &why)
{
	const std::string *none = nullptr;

	if (past == nullptr)
		if (const std::string *const text = new std::string(why); !past.compare_exchange_strong(none, text))
			delete text;
	await_open_submit_gate();
	need_mapped();
}

// Past is a function that is handed out as a call that comes here first.
struct Past {
	void *function;
	std::string why; // memory stays
};

const size_t past_calls = 1024, past_call_bytes = 16; // as in past_gate.S

pthread_mutex_t handing_out = PTHREAD_MUTEX_INITIALIZER;
std::vector<Past> &pasts()
{
	static auto *const found = [] {
		auto *const made = new std::vector<Past>; // outlives static destructors
		made->reserve(past_calls);            // calls read it without the mutex
		return made;
	}();
	return *found;
}

// first_here is the call for a function, or nullptr: all are in use. `handing_out` is held.
void *first_here(void *function, const std::string &why)
{
	std::vector<Past> &known = pasts();
	size_t at = 0;

	while (at < known.size() && (known[at].function != function || known[at].why != why))
		at++;
	if (at == past_calls)
		return nullptr;
	if (at == known.size())
		known.push_back({function, why});
	return past_gate_calls + at * past_call_bytes;
}

// serves_lookups: what is handed out to the caller counts.
bool serves_lookups(const void *caller) { return may_be_taken() && linked_program() == nullptr && looks_up(caller); }

bool is_code(const void *address)
{
	uintptr_t at = reinterpret_cast<uintptr_t>(address);
	return dl_iterate_phdr(
	               [](dl_phdr_info *object, size_t, void *wanted) {
		               for (int i = 0; i < object->dlpi_phnum; i++) {
			               const auto &p = object->dlpi_phdr[i];
			               if (p.p_type == PT_LOAD && (p.p_flags & PF_X) != 0 &&
			                   *static_cast<uintptr_t *>(wanted) - object->dlpi_addr - p.p_vaddr < p.p_memsz)
				               return 1;
		               }
		               return 0;
	               },
	               &at) != 0;
}

std::string text_of(const unsigned char *id)
{
	std::string text;
	char digits[3];

	for (int i = 0; i < 16; i++) {
		snprintf(digits, sizeof digits, "%02x", id[i]);
		text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
		text += digits;
	}
	return text;
}

// copy_of is a copy of a table. The table's first word is its size in bytes. nullptr: a copy cannot be made.
const void *copy_of(void *const *table, const Table &known)
{
	static auto *const copies = new std::map<const void *, std::vector<void *>>;
	const size_t bytes = reinterpret_cast<size_t>(table[0]);

	if (bytes < 2 * sizeof *table || bytes > 4096 || bytes % sizeof *table != 0)
		return nullptr;
	Locked locked(handing_out);
	if (const auto made = copies->find(table); made != copies->end())
		return made->second.data();
	std::vector<void *> copy(table, table + bytes / sizeof *table);
	for (size_t i = 1; i < copy.size(); i++)
		if ((i >= 32 || (known.harmless >> i & 1) == 0) && is_code(copy[i])) {
			copy[i] = first_here(copy[i], "a part calls function " + std::to_string(i) + " of table " + known.id);
			if (copy[i] == nullptr)
				return nullptr;
		}
	return copies->emplace(table, std::move(copy)).first->second.data();
}

} // namespace

// past_gate comes before a function that may give work past the gate.
extern "C" void *past_gate(unsigned index)
{
	const Past &p = pasts()[index];

	memory_stays(p.why);
	return p.function;
}

void *hand_out(const char *name, void *function, const void *caller)
{
	if (function == nullptr || !is_of_driver(name) || !serves_lookups(caller) || passes(name, function))
		return function;
	const std::string why = a_part_calls + base(name);
	void *const first = [&] {
		Locked locked(handing_out);
		return first_here(function, why);
	}();
	if (first == nullptr)
		memory_stays(why);
	return first != nullptr ? first : function;
}

void handed_out(const char *name, const void *function, const void *caller)
{
	if (function != nullptr && is_of_driver(name) && serves_lookups(caller) && !passes(name, function))
		memory_stays(a_part_calls + base(name));
}

const void *hand_out_table(const unsigned char *id, const void *table, const void *caller)
{
	if (table == nullptr || !serves_lookups(caller))
		return table;
	const std::string text = text_of(id);
	for (const Table &known : tables)
		if (text == known.id) {
			const void *const given = known.harmless == all ? table : copy_of(static_cast<void *const *>(table), known);
			if (given != nullptr)
				return given;
		}
	memory_stays("a part has table " + text + " of the driver");
	return table;
}

void passes_by(const char *name, const void *caller)
{
	if (serves_lookups(caller))
		memory_stays(a_part_calls + std::string(name));
}

void renew_hand_out() { handing_out = PTHREAD_MUTEX_INITIALIZER; }

std::string bypass()
{
	if (linked_program() != nullptr) // the program's own calls are not told from the runtime's
		return self_contained() ? "" : "a part of the program calls the driver";
	if (const std::string *const why = past; why != nullptr)
		return *why;
	return unserved_part([](const std::string &name) {
		return driver_symbol(name.c_str()) == nullptr || passes(name.c_str(), real_dlsym(RTLD_DEFAULT, name.c_str()));
	});
}

} // namespace lazy
