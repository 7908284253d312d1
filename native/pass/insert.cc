#include "insert.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/EscapeEnumerator.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace casepass {

namespace {

// The limits of CUDA for a launch. What is computed where the launch may not follow can be any
// number, and is kept within them.
constexpr uint64_t maxX = 0x7fffffff, maxY = 0xffff, maxThreads = 1024;

// bring computes a value that is available at an instruction there, and returns it.
Value *bring(Value *v, Instruction *at, const DominatorTree &tree)
{
	auto *i = dyn_cast<Instruction>(v);
	if (!i || tree.dominates(i, at))
		return v;
	Instruction *copy = i->clone();
	for (Use &o : copy->operands())
		o = bring(o, at, tree);
	copy->dropPoisonGeneratingFlags(); // what made them true may not hold here
	copy->dropUnknownNonDebugMetadata();
	copy->insertBefore(at);
	return copy;
}

// known is a value at the entry, some number where the program would have no use for it.
Value *known(IRBuilder<> &at, Value *v, Instruction *entry, const DominatorTree &tree)
{
	Value *there = bring(v, entry, tree);
	return isa<Constant>(there) ? there : at.CreateFreeze(there);
}

Value *atMost(IRBuilder<> &at, Value *v, uint64_t limit)
{
	if (auto *number = dyn_cast<ConstantInt>(v))
		return at.getInt64(std::min(number->getZExtValue(), limit));
	return at.CreateBinaryIntrinsic(Intrinsic::umin, v, at.getInt64(limit));
}

// blocks is x * y * z in 64 bits.
Value *blocks(IRBuilder<> &at, Value *packed, Value *z)
{
	Value *x = atMost(at, at.CreateAnd(packed, 0xffffffffu), maxX), *y = atMost(at, at.CreateLShr(packed, 32), maxY);
	return at.CreateMul(at.CreateMul(x, y), atMost(at, at.CreateZExt(z, at.getInt64Ty()), maxY));
}

Value *threads(IRBuilder<> &at, Value *packed, Value *z)
{
	Value *x = atMost(at, at.CreateAnd(packed, 0xffffffffu), maxThreads), *y = atMost(at, at.CreateLShr(packed, 32), maxThreads);
	Value *all = at.CreateMul(at.CreateMul(x, y), atMost(at, at.CreateZExt(z, at.getInt64Ty()), maxThreads));
	return atMost(at, all, maxThreads);
}

// greatest is the greatest value that an expression has in the loops around it, as far as they
// are simple; nullptr where it is not known outside of them.
const SCEV *greatest(const SCEV *s, ScalarEvolution &evolution, const Instruction *at)
{
	while (auto *in = dyn_cast<SCEVAddRecExpr>(s)) {
		const Loop *loop = in->getLoop();
		if (loop->contains(at))
			return nullptr;
		const SCEV *step = in->getStepRecurrence(evolution);
		if (!in->isAffine() || !(in->hasNoUnsignedWrap() || in->hasNoSignedWrap()))
			return nullptr;
		if (evolution.isKnownNegative(step)) {
			s = in->getStart();
			continue;
		}
		const SCEV *rounds = evolution.getSymbolicMaxBackedgeTakenCount(loop); // an error may leave it before
		if (!evolution.isKnownPositive(step) || isa<SCEVCouldNotCompute>(rounds) || !evolution.isLoopInvariant(rounds, loop))
			return nullptr;
		s = in->evaluateAtIteration(evolution.getTruncateOrZeroExtend(rounds, in->getType()), evolution);
	}
	if (auto *widened = dyn_cast<SCEVZeroExtendExpr>(s)) {
		const SCEV *inner = greatest(widened->getOperand(), evolution, at);
		return inner ? evolution.getZeroExtendExpr(inner, s->getType()) : nullptr;
	}
	return s;
}

// Inserter inserts the calls of one function.
struct Inserter {
	Function &f;
	Analyses &a;
	Module &m = *f.getParent();
	Type *none = Type::getVoidTy(f.getContext()), *word = Type::getInt64Ty(f.getContext()), *half = Type::getInt32Ty(f.getContext());
	Type *pointer = PointerType::getUnqual(f.getContext());
	FunctionCallee setDevice = m.getOrInsertFunction("cudaSetDevice", half, half);
	FunctionCallee getDevice = m.getOrInsertFunction("cudaGetDevice", half, pointer);
	FunctionCallee end = runtime("case_static_end", none, {pointer, pointer});
	SmallVector<AllocaInst *, 4> left = {}; // tasks that may be open where the function is left
	bool throws = false;                    // by an exception too

	// runtime declares a function of libcase. It is in C, and throws nothing.
	FunctionCallee runtime(StringRef name, Type *result, ArrayRef<Type *> types)
	{
		FunctionCallee to = m.getOrInsertFunction(name, FunctionType::get(result, types, false));
		if (auto *function = dyn_cast<Function>(to.getCallee()))
			function->setDoesNotThrow();
		return to;
	}
	// stub is what the CUDA runtime knows the launch's kernel by.
	Constant *stub(const Launch &l) { return ConstantExpr::getPointerCast(const_cast<Function *>(l.stub), pointer); }
	void insert(Task &t);
	Value *bound(const Launch &l, Instruction *entry);
	void guard(CallBase &call, Value *task);
	void leaveEverywhere();
};

// bound is the most blocks of a launch whose grid changes with a loop, as needle's: x is
// bounded over the loop, y and z are constants. nullptr: it is not known at the entry.
Value *Inserter::bound(const Launch &l, Instruction *entry)
{
	Value *low = nullptr;
	ConstantInt *high = nullptr, *depth = dyn_cast<ConstantInt>(l.grid[1]);
	if (!depth || !match(l.grid[0], m_Or(m_Value(low), m_ConstantInt(high))) || (high->getZExtValue() & 0xffffffffu) != 0)
		return nullptr;
	match(low, m_And(m_Value(low), m_SpecificInt(0xffffffffu)));
	const SCEV *x = greatest(a.evolution.getSCEV(low), a.evolution, entry);
	if (!x || isa<SCEVCouldNotCompute>(x))
		return nullptr;
	// What the bound is made of is brought to the entry. A loop that does not run makes any
	// number of it, so the conditions before the launch are brought too.
	SmallVector<Value *, 4> parts;
	bool there = !SCEVExprContains(x, [&](const SCEV *part) {
		if (auto *unknown = dyn_cast<SCEVUnknown>(part))
			parts.push_back(unknown->getValue());
		return isa<SCEVAddRecExpr>(part);
	});
	SmallVector<std::pair<Value *, bool>, 4> guards; // a condition, and what it is where the launch is reached
	for (BasicBlock *b = l.config->getParent();; b = a.dominators.getNode(b)->getIDom()->getBlock()) {
		auto *branch = dyn_cast<BranchInst>(b->getTerminator());
		if (branch && branch->isConditional() && available(branch->getCondition(), entry, a.dominators))
			for (int n = 0; n < 2; n++)
				if (a.dominators.dominates(BasicBlockEdge(b, branch->getSuccessor(n)), l.config->getParent()))
					guards.push_back({branch->getCondition(), n == 0});
		if (b == entry->getParent())
			break;
	}
	there &= all_of(parts, [&](Value *v) { return available(v, entry, a.dominators); });
	if (!there)
		return nullptr;
	IRBuilder<> at(entry);
	ValueToSCEVMapTy brought;
	for (Value *v : parts)
		brought[v] = a.evolution.getUnknown(known(at, v, entry, a.dominators));
	x = SCEVParameterRewriter::rewrite(x, a.evolution, brought);
	SCEVExpander expander(a.evolution, m.getDataLayout(), "case.bound");
	if (!expander.isSafeToExpand(x)) // its parts are at the entry by now
		return nullptr;
	Value *most = at.CreateFreeze(at.CreateZExtOrTrunc(expander.expandCodeFor(x, x->getType(), entry), word));
	for (auto [condition, runs] : guards) {
		Value *now = known(at, condition, entry, a.dominators);
		most = runs ? at.CreateSelect(now, most, at.getInt64(0)) : at.CreateSelect(now, at.getInt64(0), most);
	}
	return at.CreateMul(atMost(at, most, maxX), at.getInt64((high->getZExtValue() >> 32) * depth->getZExtValue()));
}

void Inserter::insert(Task &t)
{
	IRBuilder<> top(&*f.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
	AllocaInst *task = top.CreateAlloca(ArrayType::get(word, 8), nullptr, "case.task"); // struct case_static
	top.CreateMemSet(task, top.getInt8(0), 64, MaybeAlign(8));

	for (Instruction *where : t.ends)
		IRBuilder<>(where).CreateCall(end, {task, setDevice.getCallee()});

	// Where nothing else is between them, an end is before the beginning.
	IRBuilder<> at(t.entry);
	auto here = [&](Value *v) { return known(at, v, t.entry, a.dominators); };
	Value *bytes = nullptr, *heap = t.limit ? here(t.limit->getArgOperand(1)) : at.getInt64(0);
	bool managed = false;
	for (Object *o : t.objects) {
		managed |= o->managed;
		for (CallBase *c : o->allocations)
			if (Value *size = here(c->getArgOperand(1)); bytes)
				bytes = at.CreateBinaryIntrinsic(Intrinsic::uadd_sat, bytes, size);
			else
				bytes = size;
	}
	// The largest of the launches whose dimensions are known here.
	SmallVector<const Launch *, 8> told; // launches that say their dimensions when they come
	Value *most = at.getInt64(0), *wide = at.getInt64(0), *warps = at.getInt64(0);
	Value *kernel = Constant::getNullValue(pointer), *shared = at.getInt64(0);
	auto there = [&](Value *v) { return available(v, t.entry, a.dominators); };
	for (const Launch *l : t.launches) {
		Value *b = nullptr;
		if (there(l->block[0]) && there(l->block[1])) {
			if (there(l->grid[0]) && there(l->grid[1]))
				b = blocks(at, here(l->grid[0]), here(l->grid[1]));
			else
				b = bound(*l, t.entry);
			at.SetInsertPoint(t.entry);
		}
		if (!b) {
			told.push_back(l);
			continue;
		}
		Value *th = threads(at, here(l->block[0]), here(l->block[1]));
		Value *w = at.CreateMul(b, at.CreateLShr(at.CreateAdd(th, at.getInt64(31)), 5));
		Value *larger = match(warps, m_Zero()) ? nullptr : at.CreateICmpUGT(w, warps);
		auto pick = [&](Value *now, Value *before) { return larger ? at.CreateSelect(larger, now, before) : now; };
		const bool known = l->stub && l->shared && there(l->shared);
		most = pick(b, most);
		wide = pick(th, wide);
		kernel = pick(known ? stub(*l) : Constant::getNullValue(pointer), kernel);
		shared = pick(known ? here(l->shared) : at.getInt64(0), shared);
		warps = pick(w, warps);
	}
	FunctionCallee begin = runtime("case_static_begin", none, {pointer, word, word, word, half, half, pointer, pointer, pointer, word});
	Value *flags = at.getInt32((managed ? 1 : 0) | (t.trusting ? 2 : 0)); // enum case_static_flag
	at.CreateCall(begin, {task, bytes, most, heap, at.CreateTrunc(wide, half), flags, getDevice.getCallee(), setDevice.getCallee(), kernel, shared});
	if (auto *i = dyn_cast<Instruction>(warps))
		RecursivelyDeleteTriviallyDeadInstructions(i);

	for (const Launch *l : told) {
		FunctionCallee shape = runtime("case_static_shape", none, {pointer, word, half, pointer, word});
		IRBuilder<> before(l->config);
		const bool known = l->stub && l->shared;
		before.CreateCall(shape, {task, blocks(before, l->grid[0], l->grid[1]), before.CreateTrunc(threads(before, l->block[0], l->block[1]), half),
		                          known ? stub(*l) : Constant::getNullValue(pointer), known ? l->shared : before.getInt64(0)});
	}
	bool leaves = false;
	for (Instruction *i : t.region) {
		auto *c = dyn_cast<CallInst>(i);
		const bool may = c && !c->doesNotThrow() && kind(*c) == Call::Other && !isa<IntrinsicInst>(c);
		leaves |= may || isa<ReturnInst>(i) || isa<ResumeInst>(i);
		throws |= may;
	}
	if (leaves)
		left.push_back(task);
	for (Object *o : t.objects)
		for (CallBase *c : o->allocations)
			guard(*c, task);
}

// guard has a call that allocates fail where its task was refused.
void Inserter::guard(CallBase &call, Value *task)
{
	SmallVector<Value *, 5> arguments{task, call.getCalledOperand()};
	SmallVector<Type *, 5> types;
	arguments.append(call.arg_begin(), call.arg_end());
	for (Value *v : arguments)
		types.push_back(v->getType());
	FunctionCallee to = runtime(kind(call) == Call::Managed ? "case_static_managed" : "case_static_malloc", call.getType(), types);
	CallBase *guarded;
	if (auto *invoke = dyn_cast<InvokeInst>(&call))
		guarded = InvokeInst::Create(to, invoke->getNormalDest(), invoke->getUnwindDest(), arguments, "", &call);
	else
		guarded = CallInst::Create(to, arguments, "", &call);
	guarded->setDebugLoc(call.getDebugLoc());
	a.evolution.forgetValue(&call);
	call.replaceAllUsesWith(guarded);
	call.eraseFromParent();
}

// leaveEverywhere gives the thread its device back wherever the function is left, by an
// exception too.
void Inserter::leaveEverywhere()
{
	if (left.empty())
		return;
	for (Instruction &i : instructions(f))
		if (auto *c = dyn_cast<CallBase>(&i); c && kind(*c) != Call::Other)
			c->setDoesNotThrow(); // the runtime is in C
	FunctionCallee leave = runtime("case_static_leave", none, {pointer, pointer});
	EscapeEnumerator exits(f, "case.leave", throws);
	while (IRBuilder<> *at = exits.Next())
		for (AllocaInst *task : left)
			at->CreateCall(leave, {task, setDevice.getCallee()});
}

} // namespace

void insert(Function &f, Plan &p, Analyses &a)
{
	Inserter inserter{f, a};
	for (Task &t : p.tasks)
		if (t.why.empty())
			inserter.insert(t);
	inserter.leaveEverywhere();
}

void insertElsewhere(Module &m, unsigned uses)
{
	LLVMContext &context = m.getContext();
	Type *none = Type::getVoidTy(context), *half = Type::getInt32Ty(context);
	FunctionCallee say = m.getOrInsertFunction("case_static_elsewhere", none, half);
	auto *to = dyn_cast<Function>(say.getCallee());
	if (!to)
		return;
	to->setLinkage(GlobalValue::ExternalWeakLinkage); // a program without static tasks needs no library
	Function *f = Function::Create(FunctionType::get(none, false), GlobalValue::InternalLinkage, "case.elsewhere", m);
	BasicBlock *first = BasicBlock::Create(context, "", f), *tell = BasicBlock::Create(context, "", f), *done = BasicBlock::Create(context, "", f);
	IRBuilder<> at(first);
	at.CreateCondBr(at.CreateIsNotNull(to), tell, done);
	at.SetInsertPoint(tell);
	at.CreateCall(say, {at.getInt32(uses)});
	at.CreateBr(done);
	at.SetInsertPoint(done);
	at.CreateRetVoid();
	appendToGlobalCtors(m, f, 101); // before those of the program, which may use devices
}

} // namespace casepass
