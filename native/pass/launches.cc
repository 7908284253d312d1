#include "launches.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace casepass {

bool holdsPointer(Type *t)
{
	if (auto *s = dyn_cast<StructType>(t))
		return any_of(s->elements(), holdsPointer);
	if (auto *array = dyn_cast<ArrayType>(t))
		return holdsPointer(array->getElementType());
	return t->isPtrOrPtrVectorTy();
}

namespace {

// kernelOf is the stub that stands for the kernel of a launch, or nullptr.
const Function *kernelOf(const CallBase &call)
{
	if (kind(call) == Call::Stub)
		return call.getCalledFunction();
	if (kind(call) == Call::Launch)
		return dyn_cast<Function>(call.getArgOperand(0)->stripPointerCasts());
	return nullptr;
}

// stored finds the values that stores put into a slot, or into the parts of a structure. false:
// something else may write it. Where the compiler has copied a launch, the copies share their
// slots, and a value is of some copy.
bool stored(Value *slot, SmallVectorImpl<Value *> &values)
{
	const size_t before = values.size();
	SmallVector<Value *, 8> todo{slot};
	while (!todo.empty()) {
		Value *at = todo.pop_back_val();
		for (User *u : at->users()) {
			auto *s = dyn_cast<StoreInst>(u);
			auto *c = dyn_cast<CallBase>(u);
			if (s && s->getPointerOperand() == at)
				values.push_back(s->getValueOperand());
			else if (isa<GetElementPtrInst>(u) || isa<BitCastInst>(u))
				todo.push_back(u);
			else if (!s && !(c && (c->isLifetimeStartOrEnd() || kind(*c) == Call::Stub)))
				return false;
		}
	}
	return values.size() > before;
}

// popped: a dimension is what __cudaPopCallConfiguration wrote.
bool popped(const Value *dimension)
{
	const auto *load = dyn_cast<LoadInst>(dimension);
	return load && any_of(load->getPointerOperand()->stripInBoundsOffsets()->users(), [](const User *u) {
		const auto *c = dyn_cast<CallBase>(u);
		return c && kind(*c) == Call::Pop;
	});
}

// plainBytes: a parameter of the stub is passed in memory and has no pointers in it.
bool plainBytes(const Function *stub, unsigned n)
{
	return stub && n < stub->arg_size() && stub->getArg(n)->hasByValAttr() && !holdsPointer(stub->getArg(n)->getParamByValType());
}

// readArguments reads what is stored in the array of pointers to a kernel's arguments.
bool readArguments(const CallBase &call, const DataLayout &layout, SmallVectorImpl<Value *> &out)
{
	Value *array = call.getArgOperand(5)->stripPointerCasts();
	auto *base = dyn_cast<AllocaInst>(array);
	if (!base)
		return isa<ConstantPointerNull>(array);
	SmallVector<std::pair<Value *, int64_t>, 8> todo{{base, 0}};
	SmallVector<std::pair<int64_t, Value *>, 8> found;
	while (!todo.empty()) {
		auto [at, offset] = todo.pop_back_val();
		for (User *u : at->users()) {
			if (auto *gep = dyn_cast<GetElementPtrInst>(u)) {
				APInt more(64, 0);
				if (!gep->accumulateConstantOffset(layout, more))
					return false;
				todo.push_back({gep, offset + more.getSExtValue()});
			} else if (auto *s = dyn_cast<StoreInst>(u)) {
				if (s->getPointerOperand() != at)
					return false; // the array escapes
				found.push_back({offset, s->getValueOperand()->stripPointerCasts()});
			} else if (auto *c = dyn_cast<CallBase>(u)) {
				if (kind(*c) != Call::Launch && !c->isLifetimeStartOrEnd())
					return false;
			} else if (!isa<LoadInst>(u)) {
				return false;
			}
		}
	}
	llvm::sort(found);
	found.erase(std::unique(found.begin(), found.end()), found.end());
	for (unsigned n = 1; n < found.size(); n++)
		if (found[n].first == found[n - 1].first)
			return false; // two slots for one argument
	const Function *stub = kernelOf(call);
	const bool same = stub && stub->arg_size() == found.size(); // no argument was taken apart
	for (unsigned n = 0; n < found.size(); n++) {
		if (same && (plainBytes(stub, n) || (!stub->getArg(n)->hasByValAttr() && !holdsPointer(stub->getArg(n)->getType()))))
			continue;
		if (!isa<AllocaInst>(found[n].second) || !stored(found[n].second, out))
			return false;
	}
	return true;
}

// scalar tells the names of types that cannot hold a pointer without a cast.
bool scalar(StringRef type)
{
	SmallVector<StringRef, 6> words;
	type.split(words, ' ', -1, false);
	static const StringRef known[] = {"const", "volatile", "__restrict", "restrict", "unsigned", "signed", "char", "short", "int",
	                                  "long", "float", "double", "bool", "int2", "int3", "int4", "uint4", "float2", "float3",
	                                  "float4", "double2", "uchar4", "__half"};
	return all_of(words, [](StringRef w) { return is_contained(known, w); });
}

// opaque reads a kernel's parameters from its mangled name. A parameter that is a handle
// (unsigned long long: textures, CUdeviceptr) or leads to more than scalars may stand for
// device memory that the arguments do not show.
bool opaque(const Function *stub)
{
	if (!stub)
		return true;
	const std::string text = demangle(stub->getName().str());
	StringRef rest(text);
	const size_t end = rest.rfind(')');
	if (text == stub->getName() || end == StringRef::npos)
		return true;
	size_t depth = 0, begin = end;
	do {
		depth += rest[begin] == ')';
		depth -= rest[begin] == '(';
	} while (depth > 0 && begin-- > 0);
	if (depth > 0)
		return true;
	SmallVector<StringRef, 8> parameters;
	rest.slice(begin + 1, end).split(parameters, ',', -1, false);
	for (StringRef p : parameters) {
		auto [base, behind] = p.split('*');
		if (base.contains("unsigned long long") || behind.contains('*') || !scalar(base) || !scalar(behind))
			return true;
	}
	return false;
}

// unseen is a launch whose configuration is pushed, and no call of a stub follows.
Launch unseen(Function &f, CallBase *push, const DominatorTree &tree)
{
	Launch l{};
	const bool pointer = any_of(instructions(f), [&](const Instruction &i) {
		const auto *c = dyn_cast<CallBase>(&i);
		return c && c->isIndirectCall() && tree.dominates(push, c);
	});
	l.call = l.config = push;
	l.why = pointer ? "its kernel is called through a pointer" : "its kernel is not known";
	return l;
}

} // namespace

std::vector<Launch> launches(Function &f, const DominatorTree &tree)
{
	std::vector<CallBase *> pushes, calls;
	for (Instruction &i : instructions(f)) {
		auto *c = dyn_cast<CallBase>(&i);
		if (!c || !tree.isReachableFromEntry(c->getParent()))
			continue;
		switch (kind(*c)) {
		case Call::Push:
			pushes.push_back(c);
			break;
		case Call::Launch:
		case Call::LaunchEx:
		case Call::Stub:
			calls.push_back(c);
			break;
		default:
			break;
		}
	}
	std::vector<Launch> out;
	for (CallBase *c : calls) {
		Launch l{};
		l.call = l.config = c;
		const Call k = kind(*c);
		const DataLayout &layout = f.getParent()->getDataLayout();
		// A stub pops what the nearest configuration before it pushed. The program's own
		// launch states its dimensions.
		const bool pops = k == Call::Stub || (k == Call::Launch && popped(c->getArgOperand(1)));
		CallBase *push = nullptr;
		for (CallBase *p : pushes)
			if (tree.dominates(p, c) && (!push || tree.dominates(push, p)))
				push = p;
		if (k == Call::LaunchEx) {
			l.why = "its configuration is in memory";
		} else if (push && pops && push->arg_size() >= 6) {
			l.config = push;
			for (int n = 0; n < 2; n++) {
				l.grid[n] = push->getArgOperand(n);
				l.block[n] = push->getArgOperand(2 + n);
			}
			l.shared = push->getArgOperand(4);
		} else if (k == Call::Launch) {
			for (int n = 0; n < 2; n++) {
				l.grid[n] = c->getArgOperand(1 + n);
				l.block[n] = c->getArgOperand(3 + n);
			}
			l.shared = c->arg_size() > 6 ? c->getArgOperand(6) : nullptr;
		} else {
			l.why = "its dimensions are not known";
		}
		l.stub = kernelOf(*c);
		l.opaque = opaque(l.stub);
		if (k == Call::Stub) {
			for (unsigned n = 0; n < c->arg_size(); n++)
				if (!c->isByValArgument(n))
					l.arguments.push_back(c->getArgOperand(n));
				else if (holdsPointer(c->getParamByValType(n)) && !(isa<AllocaInst>(c->getArgOperand(n)) && stored(c->getArgOperand(n), l.arguments)))
					l.why = "a structure with pointers is an argument";
		} else if (k == Call::Launch && !readArguments(*c, layout, l.arguments)) {
			l.why = "its arguments cannot be read";
		}
		out.push_back(l);
	}
	for (CallBase *push : pushes)
		if (none_of(out, [push](const Launch &l) { return l.config == push; }))
			out.push_back(unseen(f, push, tree));
	return out;
}

std::string name(const Launch &launch)
{
	const Function *kernel = kernelOf(*launch.call);
	if (!kernel)
		return "kernel";
	std::string text = demangle(kernel->getName().str());
	if (size_t at = text.find("__device_stub__"); at != std::string::npos)
		text.erase(at, 15);
	if (StringRef(text).starts_with("void "))
		text.erase(0, 5);
	return text.substr(0, text.find('('));
}

} // namespace casepass
