// The pass that has device code compute as nvcc's does. CUDA's library of mathematical functions
// (libdevice) asks __nvvm_reflect how precise square roots and divisions have to be. LLVM answers 0, which is
// -prec-sqrt=false and -prec-div=false; nvcc's defaults are true.
#include "reflect.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;

namespace {

// option is the value of one of the backend's own options: libdevice is told what the backend does.
template <typename T> T option(StringRef name, T otherwise)
{
	const auto &options = cl::getRegisteredOptions();
	const auto found = options.find(name);
	return found == options.end() ? otherwise : static_cast<cl::opt<T> *>(found->second)->getValue();
}

// precise is the answer to a question about precision. LLVM answers the other questions well.
std::optional<bool> precise(StringRef question)
{
	if (question == "__CUDA_PREC_SQRT")
		return option<bool>("nvptx-prec-sqrtf32", true);
	if (question == "__CUDA_PREC_DIV")
		return option<int>("nvptx-prec-divf32", 2) == 2;
	return std::nullopt;
}

// answer replaces the questions about precision.
bool answer(Module &m)
{
	Function *reflect = m.getFunction("__nvvm_reflect");
	bool changed = false;
	if (!reflect)
		return false;
	for (User *u : make_early_inc_range(reflect->users())) {
		auto *c = dyn_cast<CallInst>(u);
		StringRef question;
		if (!c || c->arg_size() != 1 || !getConstantStringInfo(c->getArgOperand(0)->stripPointerCasts(), question))
			continue;
		if (const std::optional<bool> is = precise(question)) {
			c->replaceAllUsesWith(ConstantInt::get(c->getType(), *is));
			c->eraseFromParent();
			changed = true;
		}
	}
	return changed;
}

#if LLVM_VERSION_MAJOR < 17
// rounded is the instruction of an operation that no option of a program changes, such as __fmul_rn's.
StringRef rounded(Intrinsic::ID id)
{
	switch (id) {
	case Intrinsic::nvvm_div_rn_f: return "div.rn.f32";
	case Intrinsic::nvvm_div_rn_ftz_f: return "div.rn.ftz.f32";
	case Intrinsic::nvvm_rcp_rn_f: return "rcp.rn.f32";
	case Intrinsic::nvvm_rcp_rn_ftz_f: return "rcp.rn.ftz.f32";
	case Intrinsic::nvvm_add_rn_f: return "add.rn.f32";
	case Intrinsic::nvvm_add_rn_ftz_f: return "add.rn.ftz.f32";
	case Intrinsic::nvvm_add_rn_d: return "add.rn.f64";
	case Intrinsic::nvvm_mul_rn_f: return "mul.rn.f32";
	case Intrinsic::nvvm_mul_rn_ftz_f: return "mul.rn.ftz.f32";
	case Intrinsic::nvvm_mul_rn_d: return "mul.rn.f64";
	case Intrinsic::nvvm_round_f: return "cvt.rni.f32.f32";
	case Intrinsic::nvvm_round_ftz_f: return "cvt.rni.ftz.f32.f32";
	case Intrinsic::nvvm_round_d: return "cvt.rni.f64.f64";
	default: return "";
	}
}

// keep has LLVM 16 leave such operations alone: its InstCombine makes them fadd, fmul and fdiv, which the
// backend contracts or approximates, and has halves rounded away from zero.
bool keep(Module &m)
{
	bool changed = false;
	for (Function &f : m) {
		const StringRef name = rounded(f.getIntrinsicID());
		if (name.empty())
			continue;
		std::string text = name.str() + " $0, $1", constraints = f.getReturnType()->isDoubleTy() ? "=d,d" : "=f,f";
		if (f.arg_size() == 2) {
			text += ", $2";
			constraints += constraints.substr(2);
		}
		InlineAsm *instruction = InlineAsm::get(f.getFunctionType(), text + ";", constraints, false);
		for (User *u : make_early_inc_range(f.users()))
			if (auto *c = dyn_cast<CallInst>(u); c && c->getCalledOperand() == &f) {
				c->setCalledOperand(instruction);
				changed = true;
			}
	}
	return changed;
}
#else
bool keep(Module &) { return false; }
#endif

struct CaseReflect : PassInfoMixin<CaseReflect> {
	std::shared_ptr<bool> done;

	explicit CaseReflect(std::shared_ptr<bool> done) : done(std::move(done)) {}
	static bool isRequired() { return true; }

	PreservedAnalyses run(Module &m, ModuleAnalysisManager &)
	{
		*done = true;
		if (!Triple(m.getTargetTriple()).isNVPTX())
			return PreservedAnalyses::all();
		const bool answered = answer(m), kept = keep(m);
		return answered || kept ? PreservedAnalyses::none() : PreservedAnalyses::all();
	}
};

} // namespace

// LLVM's own pass comes at the start of the pipeline, before those of plugins, and answers all
// questions. It is skipped there, and comes behind ours.
void casepass::registerReflect(PassBuilder &builder)
{
	auto done = std::make_shared<bool>(false);
	if (PassInstrumentationCallbacks *callbacks = builder.getPassInstrumentationCallbacks())
		callbacks->registerShouldRunOptionalPassCallback([done](StringRef pass, Any) { return *done || pass != "NVVMReflectPass"; });
	builder.registerPipelineParsingCallback([done](StringRef name, ModulePassManager &passes, ArrayRef<PassBuilder::PipelineElement>) {
		if (name == "case-reflect")
			passes.addPass(CaseReflect(done));
		return name == "case-reflect";
	});
	builder.registerPipelineStartEPCallback([&builder, done](ModulePassManager &passes, OptimizationLevel) {
		FunctionPassManager own;
		passes.addPass(CaseReflect(done));
		if (Error host = builder.parsePassPipeline(own, "nvvm-reflect"))
			consumeError(std::move(host));
		else
			passes.addPass(createModuleToFunctionPassAdaptor(std::move(own)));
	});
}
