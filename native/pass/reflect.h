// reflect.h: what device code is told about its precision.
#ifndef CASE_PASS_REFLECT_H
#define CASE_PASS_REFLECT_H

#include "llvm/Passes/PassBuilder.h"

namespace casepass {

// registerReflect has clang's pipeline for a device build what nvcc builds (reflect.cc).
void registerReflect(llvm::PassBuilder &builder);

} // namespace casepass
#endif
