// launches.h: the kernel launches of a function, as the pass sees them.
#ifndef CASE_PASS_LAUNCHES_H
#define CASE_PASS_LAUNCHES_H

#include <string>
#include <vector>

#include "calls.h"
#include "llvm/IR/Dominators.h"

namespace casepass {

// Launch is one kernel launch. Its dimensions are as the x86-64 calling convention passes a
// dim3: x and y packed in 64 bits, then z.
struct Launch {
	llvm::CallBase *config; // whose arguments are the dimensions, and where they are known
	llvm::CallBase *call;   // the stub's call, or the launch itself
	llvm::Value *grid[2];
	llvm::Value *block[2];
	const llvm::Function *stub; // of the kernel, as the CUDA runtime knows it; nullptr: not known
	llvm::Value *shared;        // bytes of dynamic shared memory; nullptr: not known
	llvm::SmallVector<llvm::Value *, 8> arguments; // of the kernel
	std::string why;    // its arguments are not known; empty: they are
	bool opaque = true; // an argument may stand for device memory or a device that it does not show
};

// launches finds the launches of a function in the order of its blocks.
std::vector<Launch> launches(llvm::Function &f, const llvm::DominatorTree &tree);

// name is the kernel that a launch runs, demangled, for messages.
std::string name(const Launch &launch);

// holdsPointer tells types of which a part may be a pointer.
bool holdsPointer(llvm::Type *t);

} // namespace casepass
#endif
