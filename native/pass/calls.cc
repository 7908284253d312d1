#include "calls.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;

namespace casepass {

namespace {

// plain is a function's name without the suffix of programs with a default stream for each
// thread, and without the version that the newer headers add.
StringRef plain(StringRef name)
{
	name.consume_back("_ptsz") || name.consume_back("_ptds") || name.consume_back("_v2");
	return name;
}

// library tells other names of CUDA and of the libraries over it.
bool library(StringRef name)
{
	for (StringRef with : {"cuda", "cu"})
		if (name.starts_with(with) && name.size() > with.size() && name[with.size()] >= 'A' && name[with.size()] <= 'Z')
			return true;
	for (StringRef with : {"cublas", "cufft", "curand", "cusparse", "cusolver", "cudnn", "nccl", "npp", "nvgraph"})
		if (name.starts_with(with))
			return true;
	return false;
}

Call byName(const Function &f)
{
	const StringRef name = plain(f.getName());
	const Call known = StringSwitch<Call>(name)
		.Case("cudaMalloc", Call::Malloc)
		.Case("cudaMallocManaged", Call::Managed)
		.Case("cudaFree", Call::Free)
		.Cases("cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cudaMemcpy2DAsync", Call::Use)
		.Cases("cudaMemset", "cudaMemsetAsync", "cudaMemset2D", "cudaMemset2DAsync", Call::Use)
		.Cases("cudaMemPrefetchAsync", "cudaMemAdvise", Call::Foreign) // name a device
		.Cases("cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", Call::Create)
		.Cases("cudaEventCreate", "cudaEventCreateWithFlags", Call::Create)
		.Cases("cudaStreamDestroy", "cudaStreamSynchronize", "cudaStreamQuery", "cudaStreamWaitEvent", Call::State)
		.Cases("cudaEventRecord", "cudaEventRecordWithFlags", "cudaEventSynchronize", "cudaEventQuery",
		       "cudaEventElapsedTime", "cudaEventDestroy", Call::State)
		.Cases("cudaMemcpyFromSymbol", "cudaMemcpyFromSymbolAsync", Call::State)
		.Cases("cudaMemcpyToSymbol", "cudaMemcpyToSymbolAsync", "cudaGetSymbolAddress", Call::Sticky)
		.Cases("cudaFuncSetAttribute", "cudaSetDeviceFlags", "cudaDeviceEnablePeerAccess", Call::Sticky)
		.Cases("cudaDeviceSetLimit", "cudaThreadSetLimit", Call::Limit)
		.Cases("cudaDeviceReset", "cudaThreadExit", Call::Reset)
		.Cases("cudaSetDevice", "cudaSetValidDevices", "cudaChooseDevice", "cudaInitDevice", Call::SetDevice)
		.Case("__cudaPushCallConfiguration", Call::Push)
		.Case("__cudaPopCallConfiguration", Call::Pop)
		.Case("cudaLaunchKernel", Call::Launch)
		.Case("cudaLaunchKernelExC", Call::LaunchEx)
		.Cases("cudaDeviceSynchronize", "cudaThreadSynchronize", "cudaMemGetInfo", "cudaFuncGetAttributes", Call::Context)
		.Cases("cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString", "cudaGetErrorName", Call::Neutral)
		.Cases("cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaDeviceGetAttribute", Call::Neutral)
		.Cases("cudaDriverGetVersion", "cudaRuntimeGetVersion", "cudaCreateChannelDesc", Call::Neutral)
		.Cases("cudaMallocHost", "cudaHostAlloc", "cudaFreeHost", "cudaHostRegister", "cudaHostUnregister", Call::Context)
		.Cases("cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig", "cudaDeviceSetCacheConfig",
		       "cudaDeviceSetSharedMemConfig", "cudaThreadSetCacheConfig", Call::Context) // hints
		.Cases("cudaProfilerStart", "cudaProfilerStop", Call::Context)
		.Default(Call::Other);
	if (known != Call::Other)
		return known;
	return f.isDeclaration() && library(name) ? Call::Foreign : Call::Other;
}

// passesOn tells a function of a few instructions that calls another one with its own
// arguments in their places and returns what that returns.
const Function *passesOn(const Function &f)
{
	if (f.isDeclaration() || f.size() != 1)
		return nullptr;
	const CallBase *only = nullptr;
	for (const Instruction &i : f.front()) {
		if (i.isDebugOrPseudoInst() || isa<ReturnInst>(i))
			continue;
		const auto *c = dyn_cast<CallBase>(&i);
		if (!c || only)
			return nullptr;
		only = c;
	}
	const auto *back = dyn_cast<ReturnInst>(f.front().getTerminator());
	if (!only || !only->getCalledFunction() || only->arg_size() != f.arg_size() || !back || back->getReturnValue() != only)
		return nullptr;
	for (unsigned n = 0; n < only->arg_size(); n++)
		if (only->getArgOperand(n) != f.getArg(n))
			return nullptr;
	return only->getCalledFunction();
}

} // namespace

bool isStub(const Function &f)
{
	if (f.isDeclaration())
		return f.getName().contains("__device_stub__");
	for (const Instruction &i : instructions(f))
		if (const auto *c = dyn_cast<CallBase>(&i))
			if (const Function *callee = c->getCalledFunction())
				if (plain(callee->getName()) == "cudaLaunchKernel" && c->getArgOperand(0)->stripPointerCasts() == &f)
					return true;
	return false;
}

Call kind(const CallBase &call)
{
	const Function *f = call.getCalledFunction();
	if (!f || f->isIntrinsic())
		return Call::Other;
	if (Call c = byName(*f); c != Call::Other)
		return c;
	if (const Function *to = passesOn(*f))
		if (Call c = byName(*to); c == Call::Malloc || c == Call::Managed)
			return c;
	return isStub(*f) ? Call::Stub : Call::Other;
}

bool usesDevice(const CallBase &call)
{
	switch (kind(call)) {
	case Call::Other:
	case Call::Neutral:
	case Call::Context:
	case Call::Pop:
		return false;
	case Call::Free:
		return !isa<ConstantPointerNull>(call.getArgOperand(0));
	default:
		return true;
	}
}

bool makesContext(const CallBase &call)
{
	const Call k = kind(call);
	return k == Call::Context || (k == Call::Free && isa<ConstantPointerNull>(call.getArgOperand(0)));
}

SmallVector<Value *, 2> handles(const CallBase &call)
{
	const Function *f = call.getCalledFunction();
	if (!f)
		return {};
	using At = SmallVector<unsigned, 2>;
	const At where = StringSwitch<At>(plain(f->getName()))
		.Case("__cudaPushCallConfiguration", At{5})
		.Case("cudaLaunchKernel", At{7})
		.Case("cudaMemcpyAsync", At{4})
		.Case("cudaMemsetAsync", At{3})
		.Case("cudaMemcpy2DAsync", At{7})
		.Cases("cudaMemset2DAsync", "cudaMemcpyToSymbolAsync", "cudaMemcpyFromSymbolAsync", At{5})
		.Cases("cudaStreamDestroy", "cudaStreamSynchronize", "cudaStreamQuery", At{0})
		.Cases("cudaEventSynchronize", "cudaEventQuery", "cudaEventDestroy", At{0})
		.Cases("cudaStreamWaitEvent", "cudaEventRecord", "cudaEventRecordWithFlags", At{0, 1})
		.Case("cudaEventElapsedTime", At{1, 2})
		.Default(At{});
	SmallVector<Value *, 2> out;
	for (unsigned n : where)
		if (n < call.arg_size())
			out.push_back(call.getArgOperand(n));
	return out;
}

bool harmless(const CallBase &call)
{
	const Function *f = call.getCalledFunction();
	if (!f)
		return call.isInlineAsm();
	if (f->isIntrinsic())
		return true;
	for (const Value *v : call.args())
		if (isa<Function>(v->stripPointerCasts()))
			return false;
	static const TargetLibraryInfoImpl known(Triple("x86_64-unknown-linux-gnu"));
	LibFunc ignored;
	const StringRef name = f->getName();
	if (known.getLibFunc(name, ignored))
		return true;
	for (StringRef with : {"_ZSt", "_ZNSt", "_ZNKSt", "_ZNSo", "_ZNSi", "_Zn", "_Zd", "__cxa_", "_Unwind_", "__isoc", "omp_get_"})
		if (name.starts_with(with))
			return true;
	return StringSwitch<bool>(name)
		.Cases("rand", "srand", "random", "srandom", "drand48", "srand48", "lrand48", true)
		.Cases("clock", "clock_gettime", "time", "usleep", "sleep", "getrusage", "__errno_location", true)
		.Cases("exit", "_exit", "abort", "__assert_fail", "strtok", "getline", "isatty", true)
		.Cases("__clang_call_terminate", "strerror", "getpid", "setlocale", "localtime", "strftime", true)
		.Default(false);
}

std::string calleeName(const CallBase &call)
{
	const Function *to = call.getCalledFunction();
	if (!to)
		return "a function pointer";
	const std::string text = demangle(to->getName().str());
	return text.substr(0, text.find('('));
}

} // namespace casepass
