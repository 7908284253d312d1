// calls.h: what the calls of a host module do with devices.
#ifndef CASE_PASS_CALLS_H
#define CASE_PASS_CALLS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/InstrTypes.h"

namespace casepass {

enum class Call {
	Other,    // not CUDA, as far as the pass knows
	Neutral,  // CUDA, and the same on every device: errors, what the devices are
	Context,  // the same on every device, but it makes a context: pinned memory, synchronisation
	Malloc,   // cudaMalloc(void **, size_t)
	Managed,  // cudaMallocManaged(void **, size_t, unsigned)
	Free,     // cudaFree(void *)
	Use,      // copies and sets: use their pointers and keep none
	Create,   // makes a stream or an event of the current device
	State,    // uses a stream, an event or a variable of the device
	Sticky,   // changes the current device for all later launches
	Limit,    // cudaDeviceSetLimit(limit, value), which is sticky too
	Reset,    // cudaDeviceReset(): frees everything
	Foreign,  // CUDA that the pass does not follow
	SetDevice, // the program chooses devices itself
	Push,     // __cudaPushCallConfiguration
	Pop,      // __cudaPopCallConfiguration
	Launch,   // cudaLaunchKernel
	LaunchEx, // cudaLaunchKernelExC: its configuration is in memory
	Stub,     // a kernel's host stub
};

// kind is what a call is. A function that only passes its arguments on to cudaMalloc, as the
// runtime's templates do, is cudaMalloc.
Call kind(const llvm::CallBase &call);

// sticky: the call changes a device for all that comes later.
inline bool sticky(Call k) { return k == Call::Sticky || k == Call::Limit; }

// usesDevice: the call needs the device that the operations before it were on. A free of NULL
// does not.
bool usesDevice(const llvm::CallBase &call);

// makesContext: the call makes a context on the thread's device where there is none, and does no
// more with the device. A free of NULL is such a call.
bool makesContext(const llvm::CallBase &call);

// handles are the streams and events among a call's arguments.
llvm::SmallVector<llvm::Value *, 2> handles(const llvm::CallBase &call);

// isStub tells a kernel's host stub: it launches itself, or is defined elsewhere and has the
// name that clang gives stubs.
bool isStub(const llvm::Function &f);

// harmless tells functions of the C and C++ libraries that call no function of the program.
bool harmless(const llvm::CallBase &call);

// calleeName is the function that is called, demangled, for messages.
std::string calleeName(const llvm::CallBase &call);

} // namespace casepass
#endif
