// linked.cc: the CUDA runtime behind the lazy runtime that casecc links into a program: the
// program's own, which is static (abi/symbols.h).
//
// The linker makes the program call __wrap_cudaMalloc instead of cudaMalloc (linked.mk), and
// __real_cudaMalloc is the runtime's.
#include <dlfcn.h>
#include <string.h>

#include "abi/symbols.h"
#include "probe/client.h"

// table.S: the runtime's functions, by name. A function that the runtime lacks is nullptr.
struct Function {
	const char *name;
	void *address;
};
extern "C" __attribute__((visibility("hidden"))) const Function case_runtime[];

// call.S: the program itself opens libraries, or has the means to reach the driver.
extern "C" __attribute__((weak, visibility("hidden"))) const char case_reaches[];

// It is in the program only if the program, or a static task, calls it.
extern "C" CASE_EXPORTED decltype(case_task_ask) case_task_ask;

const char case_linked[] = "the lazy runtime is linked into this program";

bool lazy_is_linked() { return true; }

namespace lazy {

void *real_symbol(const char *name)
{
	const Function *f = case_runtime;

	while (f->name != nullptr && strcmp(f->name, name) != 0)
		f++;
	return f->address != nullptr ? f->address : reinterpret_cast<void *>(absent);
}

bool has_runtime() { return true; }

// Calls of the driver from the program's own code count as the runtime's. They need not be told
// apart: a program that can make them is confined to its device before the first of them.
bool in_runtime(const void *address)
{
	Dl_info its, own;
	return address != nullptr && dladdr(address, &its) != 0 && dladdr(case_linked, &own) != 0 && its.dli_fbase == own.dli_fbase;
}

bool serves(bool program, bool) { return program; }

const LinkedProgram *linked_program()
{
	static const LinkedProgram found = {case_reaches != nullptr, in_runtime(reinterpret_cast<const void *>(case_task_ask))};
	return &found;
}

bool program_serves_itself() { return false; }

} // namespace lazy
