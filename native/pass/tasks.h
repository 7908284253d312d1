// tasks.h: the GPU tasks of a function (CASE, Algorithm 1), or why there is none.
#ifndef CASE_PASS_TASKS_H
#define CASE_PASS_TASKS_H

#include <memory>
#include <string>
#include <vector>

#include "launches.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Instructions.h"

namespace casepass {

// Free is a call that frees an object, and the pointer that it is given.
struct Free {
	llvm::CallBase *call;
	llvm::Value *pointer;
};

// Object is a memory object: the variable of the function that its allocations set.
struct Object {
	llvm::AllocaInst *variable;
	std::vector<llvm::CallBase *> allocations;
	std::vector<Free> frees;
	std::vector<llvm::Instruction *> uses; // all that touches the object, allocations and frees included
	bool managed = false;
	std::string why; // it cannot be followed; empty: it can
};

// Task is launches that share objects, directly or through others (the paper's merge is a
// single pass, and misses the latter), and what must happen on the same device.
struct Task {
	std::vector<Launch *> launches;
	std::vector<Object *> objects;
	llvm::SetVector<llvm::Instruction *> operations;
	llvm::Instruction *entry = nullptr;                // before which it begins
	llvm::SetVector<llvm::Instruction *> ends;         // before which it ends
	llvm::SetVector<llvm::Instruction *> region;       // in which it may be open
	llvm::CallBase *limit = nullptr;                   // sets the device's heap
	std::string why;                                   // it is left to the lazy runtime; empty: it is static
	// It calls functions that the pass does not know, or its kernels may reach memory that it
	// does not see. So it changes the device only in programs that use none outside of tasks.
	bool trusting = false;
};

// Analyses are those that the pass asks LLVM for.
struct Analyses {
	llvm::DominatorTree &dominators;
	llvm::LoopInfo &loops;
	llvm::ScalarEvolution &evolution;
};

// Plan is what the pass does with a function.
struct Plan {
	std::vector<Launch> launches;
	std::vector<std::unique_ptr<Object>> objects;
	std::vector<Task> tasks;
};

Plan plan(llvm::Function &f, Analyses &a);

// place finds where a task begins and ends, and its region; or says in t.why why it is left to
// the lazy runtime.
void place(llvm::Function &f, Task &t, Analyses &a);

// available reports whether a value can be computed at an instruction, where it is not there
// already, without calls and traps, and without loads of what may have changed.
bool available(llvm::Value *v, llvm::Instruction *at, const llvm::DominatorTree &tree);

} // namespace casepass
#endif
