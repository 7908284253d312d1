// The pass of CASE's compiler (PPoPP'22, section 3.1): finds the GPU tasks of a host module and
// inserts the calls that begin and end them.
#include "insert.h"
#include "reflect.h"
#include "stop.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;
using namespace casepass;

namespace {

cl::opt<std::string> report("case-report", cl::desc("append what became of each launch to this file, a JSON object a line"), cl::value_desc("file"));

// onDevice: the module is the device's part of a program.
bool onDevice(const Module &m) { return Triple(m.getTargetTriple()).isNVPTX(); }

// Work is a function with launches.
struct Work {
	Function *f;
	Plan plan;
};

// registers tells clang's own function that registers a module's kernels and variables.
bool registers(const Function &f) { return f.getName().contains("__cuda_register_globals") || f.getName().contains("__cuda_module_"); }

// Known is what the module's functions do, with all that they call.
struct Known {
	DenseMap<const Function *, const CallBase *> device; // a call that uses a device, if any
	SmallPtrSet<const Function *, 16> unknown;           // they call what is not known

	explicit Known(Module &m)
	{
		for (bool changed = true; changed;) {
			changed = false;
			for (Function &f : m)
				for (Instruction &i : instructions(f))
					if (auto *c = dyn_cast<CallBase>(&i); c && !registers(f)) {
						if (!device.count(&f) && usesDevice(*c, *this)) {
							device[&f] = c;
							changed = true;
						}
						if (callsOut(*c))
							changed |= unknown.insert(&f).second;
					}
		}
	}

	static bool usesDevice(const CallBase &c, const Known &k)
	{
		const Function *to = c.getCalledFunction();
		return casepass::usesDevice(c) || (to && k.device.count(to));
	}

	// callsOut: the call may come to functions that the module does not show.
	bool callsOut(const CallBase &c) const
	{
		const Function *to = c.getCalledFunction();
		if (kind(c) != Call::Other || harmless(c))
			return false;
		return !to || to->isInterposable() || to->isDeclaration() || unknown.contains(to);
	}
};

// moduleWhy is why no task of the module can be static.
std::string moduleWhy(const Module &m)
{
	for (const Function &f : m) {
		if (f.getName().contains("__cudaRegisterLinkedBinary"))
			return "relocatable device code may use variables of other modules";
		for (const Instruction &i : instructions(f)) {
			const auto *c = dyn_cast<CallBase>(&i);
			const Function *to = c ? c->getCalledFunction() : nullptr;
			if (!to)
				continue;
			const StringRef name = to->getName();
			const auto *constant = name == "__cudaRegisterVar" && c->arg_size() > 6 ? dyn_cast<ConstantInt>(c->getArgOperand(6)) : nullptr;
			StringRef variable;
			if (name == "__cudaRegisterVar" && c->arg_size() > 6 && getConstantStringInfo(c->getArgOperand(3), variable) && isStopVariable(variable))
				continue;
			if (name == "__cudaRegisterManagedVar" || name == "__cudaRegisterTexture" || name == "__cudaRegisterSurface" ||
			    (name == "__cudaRegisterVar" && !(constant && constant->isOne())))
				return "the module has variables on the device, which keep their values between tasks";
		}
	}
	return "";
}

// settle leaves to the lazy runtime what the plans of single functions cannot see.
void settle(Module &m, std::vector<Work> &all)
{
	const Known known(m);
	const std::string why = moduleWhy(m);
	SmallVector<std::pair<const Function *, const CallBase *>, 4> configures;
	for (Function &f : m)
		for (Instruction &i : instructions(f))
			if (auto *c = dyn_cast<CallBase>(&i); c && sticky(kind(*c)))
				configures.push_back({&f, c});
	for (Work &w : all)
		for (Task &t : w.plan.tasks) {
			if (!t.why.empty())
				continue;
			t.why = why;
			for (auto [f, c] : configures)
				if (f != w.f && t.why.empty())
					t.why = "another function calls " + calleeName(*c);
			for (Instruction *i : t.region) {
				auto *c = dyn_cast<CallBase>(i);
				if (!c || t.operations.contains(c))
					continue;
				if (t.why.empty() && Known::usesDevice(*c, known))
					t.why = "it is around a call of " + calleeName(*c) + ", which uses a device";
				t.trusting |= known.callsOut(*c);
			}
		}
}

// asks tells functions that ask for a task (native/probe/case.h, schedgpu.h).
bool asks(const Function &f)
{
	return f.getName() == "case_task_ask" || f.getName() == "case_task_begin" || f.getName() == "preCudaMalloc";
}

// concerns tells functions without which a module has no work for the pass.
bool concerns(const Function &f) { return f.getName().starts_with("cuda") || f.getName().starts_with("__cuda") || asks(f); }

// elsewhere is the uses of devices outside of static tasks (enum case_static_use), if any.
std::optional<unsigned> elsewhere(const Module &m, const std::vector<Work> &all)
{
	SmallPtrSet<const Instruction *, 32> in, around;
	bool any = false, context = false;
	unsigned uses = 0;
	for (const Work &w : all)
		for (const Task &t : w.plan.tasks)
			if (t.why.empty()) {
				in.insert(t.operations.begin(), t.operations.end());
				around.insert(t.region.begin(), t.region.end());
			}
	for (const Function &f : m)
		if (!isStub(f) && !registers(f))
			for (const Instruction &i : instructions(f))
				if (auto *c = dyn_cast<CallBase>(&i); c && !in.contains(c)) {
					any |= usesDevice(*c);
					context |= makesContext(*c) && !around.contains(c);
					uses |= sticky(kind(*c)) || kind(*c) == Call::SetDevice ? 1 : 0;
					uses |= c->getCalledFunction() && asks(*c->getCalledFunction()) ? 2 : 0;
				}
	if (any || (uses & 2) != 0)
		return uses;
	return context ? std::optional(4u) : std::nullopt;
}

// tell says what became of each launch, as a remark and in the report.
void tell(Work &w, OptimizationRemarkEmitter &remarks, raw_ostream *file)
{
	for (Task &t : w.plan.tasks)
		for (const Launch *l : t.launches) {
			const std::string kernel = casepass::name(*l);
			remarks.emit([&] {
				OptimizationRemark r("case", t.why.empty() ? "Static" : "Lazy", l->config);
				r << "launch of " << kernel << ": " << (t.why.empty() ? "static" : "lazy: " + t.why);
				return r;
			});
			if (!file)
				continue;
			const DebugLoc &at = l->config->getDebugLoc();
			json::Object line{{"file", (at ? at->getFilename() : StringRef(w.f->getParent()->getSourceFileName())).str()},
			                  {"line", at ? int64_t(at.getLine()) : 0},
			                  {"function", demangle(w.f->getName().str())},
			                  {"kernel", kernel},
			                  {"task", t.why.empty() ? "static" : "lazy"}};
			if (!t.why.empty())
				line["why"] = t.why;
			*file << json::Value(std::move(line)) << "\n";
		}
}

struct CasePass : PassInfoMixin<CasePass> {
	static bool isRequired() { return true; }

	PreservedAnalyses run(Module &m, ModuleAnalysisManager &managers)
	{
		if (onDevice(m) || none_of(m, concerns))
			return PreservedAnalyses::all();
		auto &fam = managers.getResult<FunctionAnalysisManagerModuleProxy>(m).getManager();
		auto analyses = [&](Function &f) {
			return Analyses{fam.getResult<DominatorTreeAnalysis>(f), fam.getResult<LoopAnalysis>(f), fam.getResult<ScalarEvolutionAnalysis>(f)};
		};
		std::vector<Work> all;
		for (Function &f : m) {
			if (f.isDeclaration() || isStub(f) || f.hasAvailableExternallyLinkage())
				continue;
			Analyses a = analyses(f);
			if (Plan p = plan(f, a); !p.launches.empty())
				all.push_back({&f, std::move(p)});
		}
		settle(m, all);
		std::unique_ptr<raw_fd_ostream> file;
		if (!report.empty()) {
			std::error_code failed;
			file = std::make_unique<raw_fd_ostream>(report, failed, sys::fs::OF_Append | sys::fs::OF_Text);
			if (failed)
				m.getContext().emitError("case: cannot write the report " + report + ": " + failed.message());
		}
		const std::optional<unsigned> uses = elsewhere(m, all);
		bool changed = uses.has_value();
		if (changed)
			insertElsewhere(m, *uses);
		for (Work &w : all) {
			tell(w, fam.getResult<OptimizationRemarkEmitterAnalysis>(*w.f), file.get());
			if (none_of(w.plan.tasks, [](const Task &t) { return t.why.empty(); }))
				continue;
			Analyses a = analyses(*w.f);
			insert(*w.f, w.plan, a);
			changed = true;
		}
		return changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
	}
};

// CaseInline has the inliner bring allocations, launches, copies and frees together: into the
// callers of small functions around them (the paper's inlining, 3.1.2).
struct CaseInline : PassInfoMixin<CaseInline> {
	static constexpr unsigned small = 200; // instructions, before optimisation
	static constexpr unsigned most = 4000; // what one function is given in all; beyond it, clang decides

	PreservedAnalyses run(Module &m, ModuleAnalysisManager &)
	{
		SmallPtrSet<const Function *, 16> found;
		if (onDevice(m))
			return PreservedAnalyses::all();
		for (bool changed = true; changed;) {
			changed = false;
			for (Function &f : m)
				changed |= wraps(f, found) && found.insert(&f).second;
		}
		DenseMap<const Function *, unsigned> sizes;
		for (Function &f : m)
			bring(f, found, sizes);
		return found.empty() ? PreservedAnalyses::all() : PreservedAnalyses::none();
	}

	// bring marks the calls of a function that are inlined, and returns how many instructions it
	// has then. A function that calls itself through others is not brought into itself.
	static unsigned bring(Function &f, const SmallPtrSetImpl<const Function *> &found, DenseMap<const Function *, unsigned> &sizes)
	{
		if (auto [at, fresh] = sizes.try_emplace(&f, most + 1); !fresh)
			return at->second;
		unsigned more = 0;
		for (Instruction &i : instructions(f)) {
			auto *c = dyn_cast<CallBase>(&i);
			Function *to = c ? c->getCalledFunction() : nullptr;
			if (!to || !found.contains(to) || c->isNoInline())
				continue;
			if (const unsigned size = bring(*to, found, sizes); more + size <= most) {
				more += size;
				c->addFnAttr(Attribute::AlwaysInline);
			}
		}
		return sizes[&f] = f.getInstructionCount() + more;
	}

	static bool wraps(const Function &f, const SmallPtrSetImpl<const Function *> &found)
	{
		if (f.isDeclaration() || f.isInterposable() || f.hasFnAttribute(Attribute::NoInline) || f.hasFnAttribute(Attribute::OptimizeNone) ||
		    f.getName() == "main" || f.getInstructionCount() > small || isStub(f))
			return false;
		return any_of(instructions(f), [&](const Instruction &i) {
			const auto *c = dyn_cast<CallBase>(&i);
			if (!c || !c->getCalledFunction())
				return false;
			switch (kind(*c)) {
			case Call::Malloc:
			case Call::Managed:
			case Call::Free:
			case Call::Use:
			case Call::Push:
				return true;
			default:
				return c->getCalledFunction() != &f && found.contains(c->getCalledFunction());
			}
		});
	}
};

} // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo()
{
	return {LLVM_PLUGIN_API_VERSION, "case", "1", [](PassBuilder &builder) {
		registerReflect(builder);
		registerStop(builder);
		builder.registerOptimizerLastEPCallback([](ModulePassManager &passes, OptimizationLevel) { passes.addPass(CasePass()); });
		builder.registerPipelineStartEPCallback([](ModulePassManager &passes, OptimizationLevel) { passes.addPass(CaseInline()); });
		builder.registerPipelineParsingCallback([](StringRef name, ModulePassManager &passes, ArrayRef<PassBuilder::PipelineElement>) {
			if (name == "case")
				passes.addPass(CasePass());
			else if (name == "case-inline")
				passes.addPass(CaseInline());
			return name == "case" || name == "case-inline";
		});
	}};
}
