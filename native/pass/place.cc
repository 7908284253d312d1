// Where a task begins and ends.
#include "tasks.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace casepass {

namespace {

// ended tells blocks after which the process ends: exit, abort and the like. An exception that
// is thrown is not the end.
bool ended(const BasicBlock &b)
{
	if (!isa<UnreachableInst>(b.getTerminator()))
		return false;
	for (const Instruction &i : b)
		if (const auto *c = dyn_cast<CallBase>(&i))
			if (const Function *to = c->getCalledFunction())
				if (to->getName() == "__cxa_throw" || to->getName() == "__cxa_rethrow" || to->getName() == "_Unwind_Resume")
					return false;
	return true;
}

// failed is the value that is not zero behind an edge, if the edge is taken because of that.
const Value *failed(const BasicBlock *from, const BasicBlock *to)
{
	auto *branch = dyn_cast<BranchInst>(from->getTerminator());
	if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1))
		return nullptr;
	ICmpInst::Predicate p;
	Value *result;
	if (!match(branch->getCondition(), m_ICmp(p, m_Value(result), m_Zero())) || !ICmpInst::isEquality(p))
		return nullptr;
	return (to == branch->getSuccessor(0)) == (p == ICmpInst::ICMP_NE) ? result : nullptr;
}

// failure tells edges that are taken because a call of CUDA failed.
bool failure(const BasicBlock *from, const BasicBlock *to)
{
	const auto *c = dyn_cast_or_null<CallBase>(failed(from, to));
	return c && kind(*c) != Call::Other && kind(*c) != Call::Stub;
}

// nulled is the pointer that is NULL behind an edge.
const Value *nulled(const BasicBlock *from, const BasicBlock *to)
{
	auto *branch = dyn_cast<BranchInst>(from->getTerminator());
	ICmpInst::Predicate p;
	Value *pointer;
	if (!branch || !branch->isConditional() || branch->getSuccessor(0) == branch->getSuccessor(1) ||
	    !match(branch->getCondition(), m_ICmp(p, m_Value(pointer), m_Zero())) || !ICmpInst::isEquality(p))
		return nullptr;
	return (to == branch->getSuccessor(0)) == (p == ICmpInst::ICMP_EQ) ? pointer : nullptr;
}

// holds: a pointer is what the object's variable held, whichever way it came.
bool holds(const Object &o, const Value *pointer, SmallPtrSetImpl<const Value *> &seen)
{
	if (auto *phi = dyn_cast<PHINode>(pointer))
		return !seen.insert(phi).second || all_of(phi->incoming_values(), [&](const Value *in) { return holds(o, in, seen); });
	auto *load = dyn_cast<LoadInst>(pointer);
	return load && load->getPointerOperand() == o.variable;
}

// Live is the allocations whose memory may be there.
using Live = SmallPtrSet<const CallBase *, 8>;

// gone notes that an object's variable holds no memory.
void gone(const Object &o, Live &live)
{
	for (const CallBase *c : o.allocations)
		live.erase(c);
}

void step(const Instruction &i, const Task &t, Live &live)
{
	const auto *c = dyn_cast<CallBase>(&i);
	if (!c)
		return;
	if (kind(*c) == Call::Reset)
		live.clear();
	for (const Object *o : t.objects) {
		if (is_contained(o->allocations, c))
			live.insert(c);
		for (const Free &free : o->frees)
			if (SmallPtrSet<const Value *, 4> seen; free.call == c && holds(*o, free.pointer, seen))
				gone(*o, live);
	}
}

// cross is what may be there behind an edge. Where an allocation has told that it failed, or
// the pointer is NULL, nothing is.
void cross(const BasicBlock *from, const BasicBlock *to, const Task &t, Live &live)
{
	const Value *result = failed(from, to), *null = nulled(from, to);
	const auto *read = dyn_cast_or_null<LoadInst>(null);
	for (const Object *o : t.objects) {
		// A PHI that is freed in its own block is, on each edge, the object that comes along it.
		for (const Free &free : o->frees)
			if (auto *phi = dyn_cast<PHINode>(free.pointer); phi && phi->getParent() == to && free.call->getParent() == to)
				if (auto *load = dyn_cast<LoadInst>(phi->getIncomingValueForBlock(from)); load && load->getPointerOperand() == o->variable)
					gone(*o, live);
		for (const CallBase *c : o->allocations)
			if (c == result)
				live.erase(c);
		if (read && read->getPointerOperand() == o->variable && read->getParent() == from &&
		    none_of(o->allocations, [&](const CallBase *c) { return c->getParent() == from && read->comesBefore(c); }))
			gone(*o, live);
	}
}

struct Place {
	Function &f;
	Task &t;
	Analyses &a;
	DenseMap<const BasicBlock *, Live> live; // at the end of each block

	bool operation(const Instruction &i) const { return t.operations.contains(const_cast<Instruction *>(&i)); }
	// refuse leaves the task to the lazy runtime.
	void refuse(const char *why) { t.why = why; }
	void entry();
	void lives();
	void sizes();
	void certain();
	void ends();
	void region();
	SmallPtrSet<const Instruction *, 32> reach(const Instruction *without) const;
	bool leaves(const Instruction *i) const { return i == t.entry || isa<ReturnInst>(i) || isa<ResumeInst>(i); }
	DenseMap<const BasicBlock *, bool> leaving(const Instruction *without) const;
	bool leavesBehind(const Instruction *i, const Instruction *without, const DenseMap<const BasicBlock *, bool> &blocks) const;
};

// entry puts the task's beginning at the lowest point that dominates all its operations,
// outside of the loops that do not hold all of them.
void Place::entry()
{
	BasicBlock *block = nullptr;
	Loop *loop = nullptr; // the innermost that holds every operation
	for (Instruction *i : t.operations) {
		if (!a.dominators.isReachableFromEntry(i->getParent()))
			continue;
		Loop *its = a.loops.getLoopFor(i->getParent());
		if (!block)
			loop = its;
		while (loop && !loop->contains(i->getParent()))
			loop = loop->getParentLoop();
		block = block ? a.dominators.findNearestCommonDominator(block, i->getParent()) : i->getParent();
	}
	// A task that begins in each round of a loop must end in it too.
	while (a.loops.getLoopFor(block) != loop)
		block = a.dominators.getNode(a.loops.getLoopFor(block)->getHeader())->getIDom()->getBlock();
	t.entry = block->getTerminator();
	for (Instruction &i : *block)
		if (operation(i)) {
			t.entry = &i;
			break;
		}
}

// lives refuses tasks whose memory is from before their beginning, and allocations of more than
// one piece of memory at a time: their sum is not the sum of the sizes.
void Place::lives()
{
	for (bool changed = true; changed;) {
		changed = false;
		for (BasicBlock &b : f) {
			Live now;
			for (BasicBlock *before : predecessors(&b)) {
				Live there = live[before];
				cross(before, &b, t, there);
				now.insert(there.begin(), there.end());
			}
			for (Instruction &i : b) {
				if (&i == t.entry && !now.empty())
					return refuse("memory of an earlier round is in use where the task begins");
				for (Object *o : t.objects)
					if (is_contained(o->allocations, &i) && any_of(o->allocations, [&](CallBase *c) { return now.contains(c); }))
						return refuse("memory is allocated again before it is freed");
				step(i, t, now);
			}
			if (now.size() != live[&b].size()) {
				live[&b] = now;
				changed = true;
			}
		}
	}
}

// reach is the instructions that may follow the beginning of the task on paths without another
// instruction, those paths left out that are taken because a call of CUDA failed.
SmallPtrSet<const Instruction *, 32> Place::reach(const Instruction *without) const
{
	SmallPtrSet<const Instruction *, 32> out;
	SmallVector<const Instruction *, 16> todo{t.entry};
	while (!todo.empty())
		for (const Instruction *i = todo.pop_back_val(); i; i = i->getNextNode()) {
			if (i == without || !out.insert(i).second)
				break;
			if (i->isTerminator())
				for (const BasicBlock *to : successors(i))
					if (!failure(i->getParent(), to))
						todo.push_back(&to->front());
		}
	return out;
}

// leavesBehind: on a path behind an instruction, the function is left or the task begins again
// before `without`. `blocks` is the same from the beginning of each block on.
bool Place::leavesBehind(const Instruction *i, const Instruction *without, const DenseMap<const BasicBlock *, bool> &blocks) const
{
	for (; !i->isTerminator(); i = i->getNextNode()) {
		const Instruction *next = i->getNextNode();
		if (next == without)
			return false;
		if (leaves(next))
			return true;
	}
	return any_of(successors(i), [&](const BasicBlock *to) { return blocks.lookup(to) && !failure(i->getParent(), to); });
}

DenseMap<const BasicBlock *, bool> Place::leaving(const Instruction *without) const
{
	DenseMap<const BasicBlock *, bool> out;
	SmallVector<const BasicBlock *, 16> todo;
	for (const BasicBlock &b : f)
		todo.push_back(&b);
	while (!todo.empty())
		if (const BasicBlock *b = todo.pop_back_val(); !out.lookup(b) && &b->front() != without && (leaves(&b->front()) || leavesBehind(&b->front(), without, out))) {
			out[b] = true;
			append_range(todo, predecessors(b));
		}
	return out;
}

void Place::sizes()
{
	for (Object *o : t.objects)
		for (CallBase *c : o->allocations)
			if (!available(c->getArgOperand(1), t.entry, a.dominators))
				return refuse("the size of an allocation is not known where the task begins");
	if (t.limit && !available(t.limit->getArgOperand(1), t.entry, a.dominators))
		return refuse("the heap's limit is not known where the task begins");
}

// certain refuses tasks that launch on a path without one of their allocations. The sum of all
// sizes would be more than such a path ever uses, and could be more than a device has.
void Place::certain()
{
	for (Object *o : t.objects)
		for (CallBase *c : o->allocations) {
			if (c == t.entry)
				continue;
			const auto without = reach(c);
			const auto left = leaving(c);
			for (Launch *l : t.launches)
				if (without.contains(l->call) && leavesBehind(l->call, c, left))
					return refuse("an allocation is not made on every path");
		}
}

// ends puts the task's end behind its last operation on every path. A path on which an object
// may still be allocated has no end: the memory stays taken, and so does its charge.
void Place::ends()
{
	// later is, for each block, whether an operation of this round of the task may follow its
	// beginning. A new round begins at the entry.
	DenseMap<const BasicBlock *, bool> later;
	auto behind = [&](const BasicBlock &b) { return any_of(successors(&b), [&](const BasicBlock *to) { return later[to]; }); };
	for (bool changed = true; changed;) {
		changed = false;
		for (BasicBlock *b : post_order(&f)) { // what follows first, so that few rounds are needed
			bool state = behind(*b);
			for (Instruction &i : reverse(*b)) {
				state |= operation(i);
				if (&i == t.entry)
					state = false;
			}
			changed |= state != later[b];
			later[b] = state;
		}
	}
	SmallPtrSet<BasicBlock *, 16> reached; // blocks that the task may be open in
	SmallVector<BasicBlock *, 16> todo{t.entry->getParent()};
	while (!todo.empty())
		for (BasicBlock *to : successors(todo.pop_back_val()))
			if (reached.insert(to).second)
				todo.push_back(to);
	reached.insert(t.entry->getParent());
	for (BasicBlock &b : f) {
		if (!reached.contains(&b))
			continue;
		Live now;
		bool over = false; // a predecessor left the last operation behind
		for (BasicBlock *before : predecessors(&b)) {
			Live there = live[before];
			cross(before, &b, t, there);
			now.insert(there.begin(), there.end());
			over |= reached.contains(before) && (behind(*before) || operation(*before->getTerminator()));
		}
		if (over && !later[&b] && now.empty() && !ended(b))
			t.ends.insert(&*b.getFirstInsertionPt());
		// What may follow each instruction of the block.
		SmallVector<std::pair<Instruction *, bool>, 32> after;
		bool state = behind(b);
		for (Instruction &i : reverse(b)) {
			after.push_back({&i, state});
			state |= operation(i);
			if (&i == t.entry)
				state = false;
		}
		for (auto &[i, follows] : reverse(after)) {
			step(*i, t, now);
			if (operation(*i) && !follows && now.empty() && !i->isTerminator())
				t.ends.insert(i->getNextNode());
		}
	}
}

void Place::region()
{
	SmallVector<Instruction *, 16> todo{t.entry};
	while (!todo.empty())
		for (Instruction *i = todo.pop_back_val(); i; i = i->getNextNode()) {
			if ((t.ends.contains(i) && !(i == t.entry && t.region.empty())) || !t.region.insert(i))
				break;
			if (i->isTerminator())
				for (BasicBlock *to : successors(i))
					todo.push_back(&to->front());
		}
}

} // namespace

void place(Function &f, Task &t, Analyses &a)
{
	Place p{f, t, a, DenseMap<const BasicBlock *, Live>()};
	p.entry();
	for (auto check : {&Place::sizes, &Place::lives, &Place::certain}) {
		(p.*check)();
		if (!t.why.empty())
			return;
	}
	p.ends();
	p.region();
}

// apart: a pointer leads to another object than `base`, whatever its value.
static bool apart(const Value *pointer, const Value *base)
{
	const Value *its = getUnderlyingObject(pointer);
	return its != base && isIdentifiedObject(its) && isIdentifiedObject(base);
}

// keeps: an instruction leaves the memory of an object of the host as it is.
static bool keeps(const Instruction &i, const Value *base)
{
	if (!i.mayWriteToMemory() || i.isLifetimeStartOrEnd() || i.isDebugOrPseudoInst())
		return true;
	if (auto *s = dyn_cast<StoreInst>(&i))
		return apart(s->getPointerOperand(), base);
	auto *c = dyn_cast<CallBase>(&i);
	if (!c)
		return false;
	if (c->onlyAccessesInaccessibleMemory() || isa<AssumeInst>(c))
		return true;
	switch (kind(*c)) {
	case Call::Malloc:
	case Call::Managed:
		return apart(c->getArgOperand(0), base);
	case Call::Free:
		return true;
	case Call::Use: { // into device memory
		const bool copy = c->getCalledFunction()->getName() == "cudaMemcpy";
		const auto *way = copy ? dyn_cast<ConstantInt>(c->getArgOperand(3)) : nullptr;
		return c->getCalledFunction()->getName() == "cudaMemset" || (way && way->getZExtValue() == 1);
	}
	default:
		return false;
	}
}

// unchanged: what is loaded is the same at an earlier instruction, which dominates the load.
static bool unchanged(LoadInst *load, Instruction *at, const DominatorTree &tree)
{
	const Value *base = getUnderlyingObject(load->getPointerOperand());
	if (!load->isSimple() || !tree.dominates(at, load) || !isSafeToSpeculativelyExecute(load))
		return false;
	SmallPtrSet<const BasicBlock *, 16> seen;
	SmallVector<Instruction *, 8> todo{load->getPrevNode() ? load->getPrevNode() : nullptr};
	const BasicBlock *first = load->getParent();
	auto before = [&](const BasicBlock *b) {
		for (const BasicBlock *p : predecessors(b))
			if (seen.insert(p).second)
				todo.push_back(const_cast<Instruction *>(p->getTerminator()));
	};
	if (!todo[0]) {
		todo.clear();
		before(first);
	}
	while (!todo.empty()) {
		Instruction *i = todo.pop_back_val();
		for (;; i = i->getPrevNode()) {
			if (!keeps(*i, base))
				return false;
			if (i == at || !i->getPrevNode())
				break;
		}
		if (i != at)
			before(i->getParent());
	}
	return true;
}

bool available(Value *v, Instruction *at, const DominatorTree &tree)
{
	auto *i = dyn_cast<Instruction>(v);
	if (!i || tree.dominates(i, at))
		return true;
	if (auto *load = dyn_cast<LoadInst>(i))
		return unchanged(load, at, tree) && available(load->getPointerOperand(), at, tree);
	if (isa<PHINode>(i) || isa<AllocaInst>(i) || i->mayReadOrWriteMemory() || !isSafeToSpeculativelyExecute(i))
		return false;
	if (isa<CallBase>(i) && !isa<IntrinsicInst>(i))
		return false;
	return all_of(i->operands(), [&](Value *o) { return available(o, at, tree); });
}

} // namespace casepass
