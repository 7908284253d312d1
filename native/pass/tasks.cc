// The tasks of a function: its memory objects, and what belongs together.
#include "tasks.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace casepass {

namespace {

bool isNull(const Value *v) { return isa<ConstantPointerNull>(v) || isa<UndefValue>(v); }

bool allocates(Call k) { return k == Call::Malloc || k == Call::Managed; }

// Follow follows a function's memory objects.
struct Follow {
	Plan &p;
	DenseMap<AllocaInst *, Object *> byVariable;

	Object *object(AllocaInst *variable);
	void uses(Object &o, Value *pointer, SmallPtrSetImpl<Value *> &seen);
	bool trace(Value *v, SmallVectorImpl<Object *> &found, SmallPtrSetImpl<Value *> &seen, std::string &why);
};

// object is what a variable holds. The variable must be set by allocations only.
Object *Follow::object(AllocaInst *variable)
{
	if (Object *known = byVariable.lookup(variable))
		return known;
	p.objects.push_back(std::make_unique<Object>());
	Object *o = p.objects.back().get();
	byVariable[variable] = o;
	o->variable = variable;
	SmallPtrSet<Value *, 16> seen;
	SmallVector<Value *, 8> addresses{variable};
	for (User *u : variable->users())
		if (auto *call = dyn_cast<CallBase>(u))
			o->managed |= kind(*call) == Call::Managed;
	while (!addresses.empty()) {
		Value *address = addresses.pop_back_val();
		for (User *u : address->users()) {
			if (auto *load = dyn_cast<LoadInst>(u)) {
				if (load->getType()->isPointerTy())
					uses(*o, load, seen);
				else
					o->why = "its pointer is read as a number";
			} else if (auto *store = dyn_cast<StoreInst>(u)) {
				if (store->getValueOperand() == address)
					o->why = "the address of its pointer is kept";
				else if (!isNull(store->getValueOperand()))
					o->why = "its pointer is set by more than an allocation";
			} else if (auto *call = dyn_cast<CallBase>(u)) {
				if (call->isLifetimeStartOrEnd() || call->isDebugOrPseudoInst())
					continue;
				const Call k = kind(*call);
				if (allocates(k) && call->getArgOperand(0)->stripPointerCasts() == variable && call->getArgOperand(1) != address) {
					o->allocations.push_back(call);
					o->uses.push_back(call);
				} else if (auto *fill = dyn_cast<MemSetInst>(call); fill && isa<ConstantInt>(fill->getValue()) && cast<ConstantInt>(fill->getValue())->isZero()) {
					continue; // set to NULL
				} else {
					o->why = "the address of its pointer is passed to " + calleeName(*call);
				}
			} else if (isa<BitCastInst>(u) || isa<AddrSpaceCastInst>(u)) {
				addresses.push_back(u);
			} else {
				o->why = "its pointer is part of a structure";
			}
		}
	}
	if (variable->isArrayAllocation() || !variable->getAllocatedType()->isPointerTy())
		o->why = "its pointer is part of a structure";
	if (o->allocations.empty() && o->why.empty())
		o->why = "its allocation is not in this function";
	return o;
}

// copiesElsewhere: a copy's other end may be device memory that is not known.
bool copiesElsewhere(const CallBase &call, const Value *pointer)
{
	const StringRef name = call.getCalledFunction()->getName();
	if (!name.contains("cpy"))
		return false;
	const auto *way = dyn_cast<ConstantInt>(call.getArgOperand(name.contains("2D") ? 6 : 3));
	return (!way || way->getZExtValue() == 0 || way->getZExtValue() > 2); // cudaMemcpyHostToDevice is 1, DeviceToHost 2
}

// onlyWritten tells a variable that the function does not read.
bool onlyWritten(const Value *variable)
{
	SmallVector<const Value *, 8> todo{variable};
	while (!todo.empty())
		for (const User *u : todo.pop_back_val()->users()) {
			if (isa<LoadInst>(u) || isa<MemIntrinsic>(u))
				return false;
			if (isa<GetElementPtrInst>(u) || isa<BitCastInst>(u))
				todo.push_back(u);
		}
	return isa<AllocaInst>(variable);
}

// uses collects what is done with a pointer to an object.
void Follow::uses(Object &o, Value *pointer, SmallPtrSetImpl<Value *> &seen)
{
	if (!seen.insert(pointer).second)
		return;
	for (Use &use : pointer->uses()) {
		auto *u = cast<Instruction>(use.getUser());
		if (isa<GetElementPtrInst>(u) || isa<BitCastInst>(u) || isa<PHINode>(u) || isa<SelectInst>(u) || isa<FreezeInst>(u)) {
			uses(o, u, seen);
		} else if (isa<ICmpInst>(u)) {
			continue;
		} else if (auto *call = dyn_cast<CallBase>(u)) {
			if (call->isDebugOrPseudoInst())
				continue;
			switch (kind(*call)) {
			case Call::Free:
				o.frees.push_back({call, pointer});
				[[fallthrough]];
			case Call::Use:
			case Call::Stub:
				o.uses.push_back(call);
				break;
			case Call::State: // a copy from a variable of the device
			case Call::Sticky:
				o.uses.push_back(call);
				break;
			default:
				o.why = "it is passed to " + calleeName(*call);
			}
		} else if (auto *store = dyn_cast<StoreInst>(u)) {
			// A kernel's argument on its way into the launch. Anything else lets it escape.
			const bool argument = store->getValueOperand() == pointer && onlyWritten(store->getPointerOperand()->stripInBoundsOffsets()) &&
			                      any_of(p.launches, [&](Launch &l) { return is_contained(l.arguments, pointer); });
			if (store->getPointerOperand() == pointer && store->getValueOperand() != pointer && o.managed)
				o.uses.push_back(u);
			else if (!argument)
				o.why = "its pointer is stored";
		} else if (isa<LoadInst>(u) && o.managed) {
			o.uses.push_back(u);
		} else {
			o.why = "its pointer escapes";
		}
	}
}

// trace finds the objects that a kernel's argument may point to.
bool Follow::trace(Value *v, SmallVectorImpl<Object *> &found, SmallPtrSetImpl<Value *> &seen, std::string &why)
{
	v = v->stripPointerCasts();
	if (!seen.insert(v).second || isNull(v))
		return true;
	if (auto *gep = dyn_cast<GetElementPtrInst>(v))
		return trace(gep->getPointerOperand(), found, seen, why);
	if (auto *phi = dyn_cast<PHINode>(v)) {
		for (Value *in : phi->incoming_values())
			if (!trace(in, found, seen, why))
				return false;
		return true;
	}
	if (auto *select = dyn_cast<SelectInst>(v))
		return trace(select->getTrueValue(), found, seen, why) && trace(select->getFalseValue(), found, seen, why);
	if (auto *freeze = dyn_cast<FreezeInst>(v))
		return trace(freeze->getOperand(0), found, seen, why);
	if (auto *load = dyn_cast<LoadInst>(v)) {
		Value *from = load->getPointerOperand()->stripPointerCasts();
		if (auto *variable = dyn_cast<AllocaInst>(from)) {
			Object *o = object(variable);
			if (!o->why.empty()) {
				why = "a memory object cannot be followed: " + o->why;
				return false;
			}
			found.push_back(o);
			return true;
		}
		Value *base = from->stripInBoundsOffsets();
		why = isa<GlobalVariable>(base) ? "a memory object is in a global variable"
		      : isa<AllocaInst>(base)   ? "a memory object is in a structure"
		                                : "a memory object is read from memory";
		return false;
	}
	if (isa<Argument>(v))
		why = "a memory object is passed in by the caller";
	else if (auto *call = dyn_cast<CallBase>(v))
		why = "a memory object is returned by " + calleeName(*call);
	else
		why = "a memory object's origin is unknown";
	return false;
}

// made tells a handle that needs nobody else: the function makes it, or CUDA has it (the default
// streams).
bool made(const Value *handle)
{
	handle = handle->stripPointerCasts();
	if (isa<Constant>(handle) && !isa<GlobalValue>(handle))
		return true; // NULL, and the numbers of cudaStreamLegacy and cudaStreamPerThread
	const auto *load = dyn_cast<LoadInst>(handle);
	const auto *variable = load ? dyn_cast<AllocaInst>(load->getPointerOperand()->stripPointerCasts()) : nullptr;
	return variable && any_of(variable->users(), [](const User *u) {
		const auto *c = dyn_cast<CallBase>(u);
		return c && (kind(*c) == Call::Create || kind(*c) == Call::Pop);
	});
}

// Groups are the launches and objects that must be on one device. A node is a launch, by its
// index, or an object, by its index after them.
struct Groups {
	Function &f;
	Analyses &a;
	Plan &p;
	EquivalenceClasses<unsigned> same;
	std::vector<std::string> why;       // of each node
	std::vector<CallBase *> bound;      // operations on the device that all tasks share
	std::string boundWhy;
	DenseMap<Instruction *, unsigned> nodeOf;

	void add(unsigned node, Instruction *i)
	{
		auto [at, fresh] = nodeOf.try_emplace(i, node);
		if (!fresh)
			same.unionSets(at->second, node);
	}
	void build();
	std::vector<Task> tasks();
	bool settle(std::vector<Task> &all);
};

void Groups::build()
{
	Follow follow{p, DenseMap<AllocaInst *, Object *>()};
	std::vector<SmallVector<Object *, 8>> of(p.launches.size());
	why.resize(p.launches.size());
	for (Instruction &i : instructions(f)) {
		auto *c = dyn_cast<CallBase>(&i);
		if (!c || !a.dominators.isReachableFromEntry(c->getParent()))
			continue;
		const Call k = kind(*c);
		if (allocates(k))
			if (auto *variable = dyn_cast<AllocaInst>(c->getArgOperand(0)->stripPointerCasts()))
				follow.object(variable);
		if (k == Call::Create || k == Call::State || k == Call::Reset || sticky(k))
			bound.push_back(c);
		if (k == Call::Create && !isa<AllocaInst>(c->getArgOperand(0)->stripPointerCasts()))
			boundWhy = "it makes a stream or an event that it keeps elsewhere";
		if (!all_of(handles(*c), made))
			boundWhy = "it uses a stream or an event from elsewhere";
	}
	for (unsigned n = 0; n < p.launches.size(); n++) {
		Launch &l = p.launches[n];
		why[n] = l.why;
		for (Value *argument : l.arguments) {
			SmallPtrSet<Value *, 8> seen;
			std::string reason;
			if (!holdsPointer(argument->getType()))
				continue;
			if (!argument->getType()->isPointerTy())
				why[n] = "a structure with pointers is an argument";
			else if (!follow.trace(argument, of[n], seen, reason))
				why[n] = reason;
		}
	}
	const unsigned first = p.launches.size();
	for (auto &o : p.objects)
		why.push_back(o->why.empty() ? "" : "a memory object cannot be followed: " + o->why);
	for (unsigned n = 0; n < why.size(); n++)
		same.insert(n);
	for (unsigned n = 0; n < first; n++) {
		Launch &l = p.launches[n];
		add(n, l.call);
		add(n, l.config);
		for (Object *o : of[n])
			for (unsigned m = 0; m < p.objects.size(); m++)
				if (p.objects[m].get() == o)
					same.unionSets(n, first + m);
	}
	for (unsigned m = 0; m < p.objects.size(); m++)
		for (Instruction *i : p.objects[m]->uses)
			add(first + m, i);
	// Device memory at both ends of a copy must be known.
	for (Instruction &i : instructions(f)) {
		auto *c = dyn_cast<CallBase>(&i);
		if (!c || kind(*c) != Call::Use || !nodeOf.count(c) || !copiesElsewhere(*c, nullptr))
			continue;
		SmallVector<Object *, 2> ends;
		std::string reason;
		for (unsigned n : {0u, c->getCalledFunction()->getName().contains("2D") ? 2u : 1u}) {
			SmallPtrSet<Value *, 8> seen;
			if (!follow.trace(c->getArgOperand(n), ends, seen, reason))
				why[nodeOf[c]] = "a copy's other end is not known";
		}
	}
	if (!bound.empty())
		for (unsigned n = 1; n < why.size(); n++)
			same.unionSets(0, n);
}

std::vector<Task> Groups::tasks()
{
	std::vector<Task> out;
	for (auto leader = same.begin(); leader != same.end(); ++leader) {
		if (!leader->isLeader())
			continue;
		Task t;
		SmallVector<unsigned, 8> members(same.member_begin(leader), same.member_end());
		llvm::sort(members);
		for (unsigned n : members) {
			if (t.why.empty())
				t.why = why[n];
			if (n < p.launches.size())
				t.launches.push_back(&p.launches[n]);
			else
				t.objects.push_back(p.objects[n - p.launches.size()].get());
		}
		if (t.why.empty())
			t.why = boundWhy;
		if (t.why.empty() && t.objects.empty())
			t.why = "it has no memory objects";
		for (auto &[i, n] : nodeOf)
			if (is_contained(members, n))
				t.operations.insert(i);
		for (CallBase *c : bound) {
			t.operations.insert(c);
			if (kind(*c) == Call::Limit) {
				const auto *which = dyn_cast<ConstantInt>(c->getArgOperand(0));
				if (!which || (t.limit && which->getZExtValue() == 2))
					t.why = "the heap's limit is not known";
				else if (which->getZExtValue() == 2) // cudaLimitMallocHeapSize
					t.limit = c;
			}
		}
		for (Launch *l : t.launches)
			t.trusting |= l->opaque;
		// What configures the device does so for every launch.
		for (CallBase *c : bound)
			for (Launch *l : t.launches)
				if (Call k = kind(*c); (sticky(k) || k == Call::Create) && !a.dominators.dominates(c, l->call) && t.why.empty())
					t.why = calleeName(*c) + " is not called before every launch";
		out.push_back(std::move(t));
	}
	llvm::sort(out, [](const Task &x, const Task &y) {
		if (x.launches.empty() || y.launches.empty())
			return !x.launches.empty() && y.launches.empty();
		return x.launches[0] < y.launches[0];
	});
	return out;
}

// settle leaves no two tasks that are open at the same time: static ones become one, and one
// around operations that are left to the lazy runtime is left to it too. true: a task changed.
bool Groups::settle(std::vector<Task> &all)
{
	DenseMap<Instruction *, Task *> of;
	for (Task &t : all)
		for (Instruction *i : t.operations)
			of.try_emplace(i, &t);
	bool changed = false;
	for (Task &t : all) {
		for (Instruction *i : t.region) {
			auto *c = dyn_cast<CallBase>(i);
			if (!t.why.empty())
				break;
			if (!c || t.operations.contains(c) || !usesDevice(*c))
				continue;
			const Task *other = of.lookup(c);
			changed = true;
			if (other && other->why.empty()) {
				same.unionSets(nodeOf[*t.operations.begin()], nodeOf[c]);
				continue;
			}
			if (other)
				t.why = "operations that are left to the lazy runtime are among its own";
			else
				t.why = "it is around a call of " + calleeName(*c);
			why[nodeOf[t.launches.empty() ? *t.operations.begin() : t.launches[0]->call]] = t.why;
		}
	}
	return changed;
}

} // namespace

Plan plan(Function &f, Analyses &a)
{
	Plan p;
	p.launches = launches(f, a.dominators);
	if (p.launches.empty())
		return p;
	Groups groups{f, a, p, {}, {}, {}, {}, DenseMap<Instruction *, unsigned>()};
	groups.build();
	bool twice = f.hasFnAttribute(Attribute::ReturnsTwice);
	for (Instruction &i : instructions(f))
		if (auto *c = dyn_cast<CallBase>(&i))
			twice |= c->hasFnAttr(Attribute::ReturnsTwice) || c->isMustTailCall();
	do {
		p.tasks = groups.tasks();
		for (Task &t : p.tasks) {
			if (f.hasFnAttribute(Attribute::OptimizeNone))
				t.why = "the function is not optimised";
			else if (twice || f.isPresplitCoroutine())
				t.why = "the function may return twice";
			if (t.why.empty())
				place(f, t, a);
		}
	} while (groups.settle(p.tasks));
	for (Task &t : p.tasks)
		if (t.why.empty() && t.launches.empty())
			t.why = "no launch uses its memory";
	return p;
}

} // namespace casepass
