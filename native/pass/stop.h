// stop.h: kernels that may be stopped before they are done.
#ifndef CASE_PASS_STOP_H
#define CASE_PASS_STOP_H

#include "llvm/Passes/PassBuilder.h"

namespace casepass {

// registerStop has device code look whether it is to stop, where casecc --stop asks for it (stop.cc).
void registerStop(llvm::PassBuilder &builder);

// isStopVariable tells the variables with which device code looks, and says what may begin again. They are the lazy runtime's, and
// the program keeps nothing in them.
bool isStopVariable(llvm::StringRef name);

} // namespace casepass
#endif
