// stop.h: kernels that may be stopped before they are done.
#ifndef CASE_PASS_STOP_H
#define CASE_PASS_STOP_H

#include "llvm/Passes/PassBuilder.h"

namespace casepass {

// registerStop has device code look whether it is to stop, where casecc --stop asks for it (stop.cc).
void registerStop(llvm::PassBuilder &builder);

} // namespace casepass
#endif
