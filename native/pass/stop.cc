// stop.cc: puts into kernels what CASE_STOP_POINT and CASE_RESTARTABLE of ../stop/case_stop.h do by hand.
//
// A kernel looks at the module's words before the back edge of each of its outermost loops. Where threads of a block wait for
// each other, all of them must return, or none: the block votes, in loops that have a barrier in each round. Other loops of such a kernel
// do not look, because not all threads may come by equally often.
//
// A kernel may begin again if it does not read what it has written: no location in the device's memory is both read and
// written, nothing is atomic or volatile there, and it calls nothing that is not known. Memory of a block or a thread begins anew.
#include "stop.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace {

cl::opt<bool> wanted("case-stop", cl::desc("have kernels look whether they are to stop"));

const char words_name[] = "case_stop_words", mark_name[] = "case_restartable_";
constexpr unsigned rounds = 64; // of a loop without others in it, from one look to the next

bool starts(StringRef name, StringRef with) { return name.substr(0, with.size()) == with; }

bool isKernel(const Function &f)
{
	if (f.getCallingConv() == CallingConv::PTX_Kernel)
		return true;
	const NamedMDNode *all = f.getParent()->getNamedMetadata("nvvm.annotations");
	return all && any_of(all->operands(), [&](const MDNode *n) {
		       const auto *of = n->getNumOperands() >= 2 ? dyn_cast_or_null<ValueAsMetadata>(n->getOperand(0)) : nullptr;
		       const auto *what = of ? dyn_cast<MDString>(n->getOperand(1)) : nullptr;
		       return what && of->getValue() == &f && what->getString() == "kernel";
	       });
}

bool uses(const Function &f, const GlobalVariable &v)
{
	return any_of(instructions(f), [&](const Instruction &i) {
		return any_of(i.operands(), [&](const Value *o) { return o->getType()->isPointerTy() && getUnderlyingObject(o) == &v; });
	});
}

// ---- which kernels may begin again

// Touched are the objects of the device's memory that a kernel reads, and that it writes.
struct Touched {
	SmallSetVector<const Value *, 8> read, written;
	std::string why; // it may not begin again

	// ownMemory begins anew with each launch, or never changes.
	static bool ownMemory(const Value *o)
	{
		const unsigned shared = 3, constant = 4, local = 5, parameter = 101;
		const unsigned space = o->getType()->getPointerAddressSpace();
		const auto *a = dyn_cast<Argument>(o);
		const auto *g = dyn_cast<GlobalVariable>(o);
		return isa<AllocaInst>(o) || space == shared || space == constant || space == local || space == parameter ||
		       (a && a->hasByValAttr()) || (g && g->isConstant());
	}

	void touch(const Value *pointer, SmallSetVector<const Value *, 8> &how)
	{
		SmallVector<const Value *, 4> objects;
		getUnderlyingObjects(pointer, objects, nullptr, 0);
		for (const Value *o : objects)
			if (!ownMemory(o))
				how.insert(o);
	}

	bool own(const Value *pointer) const
	{
		SmallVector<const Value *, 4> objects;
		getUnderlyingObjects(pointer, objects, nullptr, 0);
		return all_of(objects, ownMemory);
	}

	void call(const CallBase &c)
	{
		const Function *const f = c.getCalledFunction();
		const StringRef name = f ? f->getName() : "";

		if (const auto *m = dyn_cast<MemIntrinsic>(&c)) {
			touch(m->getDest(), written);
			if (const auto *t = dyn_cast<MemTransferInst>(m))
				touch(t->getSource(), read);
		} else if (starts(name, "llvm.nvvm.ldg.") || starts(name, "llvm.nvvm.ldu.")) {
			touch(c.getArgOperand(0), read);
		} else if (name.contains("clock") || name.contains("globaltimer")) {
			why = "it reads the time";
		} else if (!c.doesNotAccessMemory() && !isHarmless(c, name)) {
			why = "it calls " + (f ? demangle(name.str()) : "a function that is not known");
		}
	}

	// isHarmless: of threads that wait for each other, and what is for the compiler alone.
	static bool isHarmless(const CallBase &c, StringRef name)
	{
		const auto *i = dyn_cast<IntrinsicInst>(&c);
		return i && (i->isAssumeLikeIntrinsic() || any_of(ArrayRef<const char *>{"llvm.nvvm.barrier", "llvm.nvvm.bar.", "llvm.nvvm.shfl.",
		                                                                           "llvm.nvvm.vote.", "llvm.nvvm.membar.", "llvm.nvvm.read.ptx.sreg."},
		                                                       [&](const char *p) { return starts(name, p); }));
	}

	void instruction(const Instruction &i)
	{
		if (const auto *l = dyn_cast<LoadInst>(&i)) {
			if (!l->isSimple() && !own(l->getPointerOperand()))
				why = "it reads memory that others may change meanwhile";
			touch(l->getPointerOperand(), read);
		} else if (const auto *s = dyn_cast<StoreInst>(&i)) {
			if (!s->isSimple() && !own(s->getPointerOperand()))
				why = "it writes memory for others to read meanwhile";
			touch(s->getPointerOperand(), written);
		} else if (isa<AtomicRMWInst>(i) || isa<AtomicCmpXchgInst>(i)) {
			if (!own(i.getOperand(0)))
				why = "it does an atomic operation";
		} else if (const auto *c = dyn_cast<CallBase>(&i)) {
			call(*c);
		} else if (i.mayReadOrWriteMemory() && !isa<FenceInst>(i)) {
			why = "it does what is not known";
		}
	}

	// apart: what is at one of the objects is not at the other.
	static bool apart(const Value *a, const Value *b)
	{
		const auto alone = [](const Value *v) { return isa<Argument>(v) && cast<Argument>(v)->hasNoAliasAttr(); };
		return a != b && known(a) && known(b) && ((isa<GlobalVariable>(a) && isa<GlobalVariable>(b)) || alone(a) || alone(b));
	}

	static std::string called(const Value *v)
	{
		if (const auto *a = dyn_cast<Argument>(v))
			return "its parameter " + std::to_string(a->getArgNo() + 1);
		return isa<GlobalVariable>(v) ? v->getName().str() : "memory that it finds through a pointer";
	}
	static bool known(const Value *v) { return isa<Argument>(v) || isa<GlobalVariable>(v); }

	explicit Touched(const Function &f)
	{
		for (const Instruction &i : instructions(f))
			if (instruction(i); !why.empty())
				return;
		for (const Value *w : written)
			for (const Value *r : read)
				if (!apart(w, r)) {
					why = w == r ? "it reads and writes " + called(w) : "it writes " + called(w) + " and reads " + called(r) + ", which may be the same";
					return;
				}
	}
};

// ---- where a kernel looks

struct Look {
	BasicBlock *header, *latch;
	bool votes, seldom;
};

bool isBarrier(const Instruction &i)
{
	const auto *c = dyn_cast<IntrinsicInst>(&i);
	return c && c->getIntrinsicID() == Intrinsic::nvvm_barrier0;
}

// looks finds the places, or why there are none.
std::vector<Look> looks(Function &f, const LoopInfo &loops, const DominatorTree &dom, std::string &why)
{
	const bool together = any_of(instructions(f), [](const Instruction &i) { return isa<CallBase>(i) && cast<CallBase>(i).isConvergent(); });
	std::vector<Look> found;

	why = "it has no loop";
	for (const Loop *l : loops) {
		BasicBlock *const latch = l->getLoopLatch();
		if (!latch) {
			why = "a loop of it goes on from several places";
			continue;
		}
		const bool meets = any_of(l->blocks(), [&](const BasicBlock *b) { return dom.dominates(b, latch) && any_of(*b, isBarrier); });
		if (together && !meets)
			why = "its threads wait for each other, but not in each round of its loop";
		else
			found.push_back({l->getHeader(), latch, together, !together && l->isInnermost()});
	}
	return found;
}

// countRounds is true in one of so many rounds of a loop.
Value *countRounds(const Look &l)
{
	IRBuilder<> at(&l.header->front());
	PHINode *const n = at.CreatePHI(at.getInt32Ty(), 2, "case.round");
	at.SetInsertPoint(l.latch->getTerminator());
	Value *const next = at.CreateAdd(n, at.getInt32(1));
	for (BasicBlock *from : predecessors(l.header))
		n->addIncoming(from == l.latch ? next : at.getInt32(0), from);
	return at.CreateICmpEQ(at.CreateAnd(next, at.getInt32(rounds - 1)), at.getInt32(0));
}

void insert(const Look &l, GlobalVariable &words)
{
	Instruction *at = l.latch->getTerminator();
	if (l.seldom)
		at = SplitBlockAndInsertIfThen(countRounds(l), at, false);
	IRBuilder<> b(at);
	Type *const word = b.getInt32Ty();
	Value *asked = b.CreateICmpNE(b.CreateLoad(word, &words, true, "case.stop"), b.getInt32(0));
	if (l.votes) {
		Function *const vote = Intrinsic::getDeclaration(words.getParent(), Intrinsic::nvvm_barrier0_or);
		asked = b.CreateICmpNE(b.CreateCall(vote, b.CreateZExt(asked, word)), b.getInt32(0));
	}
	Instruction *const end = SplitBlockAndInsertIfThen(asked, at, true);
	IRBuilder<> stop(end);
	stop.CreateStore(stop.getInt32(1), stop.CreateConstInBoundsGEP1_32(word, &words, 1), true);
	stop.CreateRetVoid();
	end->eraseFromParent();
}

void mark(Function &kernel, const GlobalVariable &words)
{
	Type *const byte = Type::getInt8Ty(kernel.getContext());
	auto *const made = new GlobalVariable(*kernel.getParent(), byte, false, GlobalValue::ExternalLinkage, Constant::getNullValue(byte),
	                                      mark_name + kernel.getName(), nullptr, GlobalValue::NotThreadLocal, words.getAddressSpace());
	made->setExternallyInitialized(true);
}

struct CaseStop : PassInfoMixin<CaseStop> {
	PreservedAnalyses run(Module &m, ModuleAnalysisManager &managers)
	{
		GlobalVariable *const words = m.getGlobalVariable(words_name, true);
		if (!Triple(m.getTargetTriple()).isNVPTX() || !words)
			return PreservedAnalyses::all();
		auto &fam = managers.getResult<FunctionAnalysisManagerModuleProxy>(m).getManager();
		for (Function &f : m)
			if (!f.isDeclaration() && isKernel(f) && !uses(f, *words)) // else its author has decided
				stop(f, *words, fam);
		return PreservedAnalyses::none();
	}

	static void stop(Function &f, GlobalVariable &words, FunctionAnalysisManager &fam)
	{
		std::string why;
		const std::vector<Look> all = looks(f, fam.getResult<LoopAnalysis>(f), fam.getResult<DominatorTreeAnalysis>(f), why);
		const Touched touched(f);
		auto &remarks = fam.getResult<OptimizationRemarkEmitterAnalysis>(f);
		const std::string name = demangle(f.getName().str());
		const std::string is = !all.empty() ? touched.why.empty() ? "stops, and begins again" : "stops where the mix says that it may begin again: " + touched.why
		                                    : "does not stop: " + why;
		remarks.emit([&] { return OptimizationRemark("case", "Stop", &f) << "kernel " << name << " " << is; });
		for (const Look &l : all)
			insert(l, words);
		if (!all.empty() && touched.why.empty())
			mark(f, words);
	}
};

} // namespace

bool casepass::isStopVariable(StringRef name) { return name == words_name || starts(name, mark_name); }

void casepass::registerStop(PassBuilder &builder)
{
	builder.registerOptimizerLastEPCallback([](ModulePassManager &passes, OptimizationLevel) {
		if (wanted)
			passes.addPass(CaseStop());
	});
	builder.registerPipelineParsingCallback([](StringRef name, ModulePassManager &passes, ArrayRef<PassBuilder::PipelineElement>) {
		if (name == "case-stop")
			passes.addPass(CaseStop());
		return name == "case-stop";
	});
}
