// insert.h: the calls that make a planned task (native/probe/static.h).
#ifndef CASE_PASS_INSERT_H
#define CASE_PASS_INSERT_H

#include "tasks.h"

namespace casepass {

// insert inserts the calls of a function's static tasks.
void insert(llvm::Function &f, Plan &p, Analyses &a);

// insertElsewhere has the module say at its start that it uses devices outside of static
// tasks, and how (enum case_static_use).
void insertElsewhere(llvm::Module &m, unsigned uses);

} // namespace casepass
#endif
