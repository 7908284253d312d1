// stoppable.cc: see stoppable.h.
//
// A kernel may be stopped if its module has the words that it looks at (native/stop/case_stop.h), if beginning it again gives the
// same result, and if its parameters are known, because they are kept for that. That it may be begun again is said by a
// variable of the module, which casecc's pass or the program's author has made, or by the mix (CASE_RESTART_KERNELS). The driver is
// asked for all of it: it must be one of CUDA 12.5 or later (task/stop.cc).
//
// What is behind such a kernel waits for it. That would double the time of a program with many thousand launches of a few microseconds,
// so kernels that are brief are launched as any other.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "probe/client.h"
#include "program/kernels.h"
#include "task/revoke.h"
#include "task/stop.h"
#include "references.h"
#include "stoppable.h"
#include "work.h"

extern "C" {
cudaError_t cudaGetFuncBySymbol(void **function, const void *symbol);
CUresult cuFuncGetModule(void **module, void *function);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, void *module, const char *name);
CUresult cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared, cudaStream_t stream, void **arguments, void **extra);
}

namespace lazy {
namespace {

const char words_name[] = "case_stop_words", mark_name[] = "case_restartable_";

const uint64_t brief_ns = 200 * 1000u;
const unsigned enough = 16, in_between = 64;

std::atomic<bool> some{false};

// Lately is how the launches of a kernel went that could be stopped.
class Lately {
public:
	// is_brief: the last `enough` launches that were timed were brief, and had as many blocks or more. One launch in `in_between` is
	// not, so that it is timed.
	bool is_brief(uint64_t blocks)
	{
		if (blocks > most_blocks_.load()) {
			most_blocks_ = blocks;
			brief_ = 0;
		}
		return brief_.load() >= enough && ++launches_ % in_between != 0;
	}

	void ended(uint64_t ran_ns, bool stopped)
	{
		if (stopped || ran_ns > brief_ns)
			brief_ = 0;
		else
			brief_++;
	}

private:
	std::atomic<uint64_t> most_blocks_{0};
	std::atomic<unsigned> brief_{0}, launches_{0};
};

// Known is what the driver tells of a kernel that may be stopped.
struct Known {
	void *function = nullptr; // nullptr: the kernel may not be stopped
	CUdeviceptr words = 0;
	std::vector<Parameter> parameters;
	std::shared_ptr<Lately> lately;
};

// source_name is a kernel's name in its source, without namespaces and template arguments ("Itanium C++ ABI", 5.1).
std::string source_name(const std::string &name)
{
	std::string found = name;
	size_t at = 2;

	if (name.compare(0, 2, "_Z") != 0)
		return name;
	at += at < name.size() && name[at] == 'N';
	at += at < name.size() && name[at] == 'L';
	while (at < name.size() && isdigit(static_cast<unsigned char>(name[at]))) {
		char *end = nullptr;
		const size_t length = strtoul(name.c_str() + at, &end, 10);
		at = static_cast<size_t>(end - name.c_str());
		found = name.substr(at, length);
		at += length;
	}
	return found;
}

// listed: the mix says that the kernel may be begun again.
bool listed(const std::string &name)
{
	const char *const said = client_variable("CASE_RESTART_KERNELS");
	return said != nullptr && ("," + std::string(said) + ",").find("," + name + ",") != std::string::npos;
}

CUdeviceptr variable(void *module, const std::string &name, size_t bytes)
{
	CUdeviceptr at = 0;
	size_t found = 0;

	return REAL_DRIVER(cuModuleGetGlobal_v2)(&at, &found, module, name.c_str()) == CUDA_SUCCESS && found == bytes ? at : 0;
}

Known learn(const void *host, const std::string &name)
{
	const std::string source = source_name(name);
	Known known;
	void *function = nullptr, *module = nullptr;

	if (REAL_DRIVER(cuFuncGetModule) == nullptr || REAL_DRIVER(cuModuleGetGlobal_v2) == nullptr || REAL_DRIVER(cuLaunchKernel) == nullptr ||
	    REAL(cudaGetFuncBySymbol)(&function, host) != cudaSuccess || REAL_DRIVER(cuFuncGetModule)(&module, function) != CUDA_SUCCESS)
		return known;
	known.words = variable(module, words_name, 2 * sizeof(unsigned));
	const bool may = listed(source) || variable(module, mark_name + source, 1) != 0 || variable(module, mark_name + name, 1) != 0;
	if (known.words != 0 && may && parameters_of_function(function, &known.parameters)) {
		known.function = function;
		known.lately = std::make_shared<Lately>();
	}
	return known;
}

pthread_mutex_t learning = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

Known known(const void *kernel)
{
	static auto *const all = new std::map<const void *, Known>;
	static uint64_t version = 0;
	static CUcontext context = nullptr;
	Kernel registered;

	if (!kernel_at(kernel, &registered))
		return {};
	Locked locked(learning);
	if (version != kernels_version() || context != context_of_task())
		all->clear();
	version = kernels_version();
	context = context_of_task();
	const auto at = all->find(kernel);
	return at != all->end() ? at->second : all->emplace(kernel, learn(registered.host, registered.name)).first->second;
}

// Kept is a launch with copies of its arguments.
struct Kept {
	void *function;
	dim3 grid, block;
	unsigned shared;
	cudaStream_t stream;
	std::vector<std::vector<char>> values;
	std::vector<void *> arguments;
};

std::shared_ptr<Kept> keep(const Known &of, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
	auto kept = std::make_shared<Kept>(Kept{of.function, grid, block, static_cast<unsigned>(shared), stream, {}, {}});

	for (size_t i = 0; i < of.parameters.size(); i++) {
		const char *const value = static_cast<const char *>(arguments[i]);
		kept->values.emplace_back(value, value + of.parameters[i].bytes);
	}
	for (std::vector<char> &value : kept->values)
		kept->arguments.push_back(value.data());
	return kept;
}

CUresult launch_again(Kept &k)
{
	working();
	return REAL_DRIVER(cuLaunchKernel)(k.function, k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z, k.shared, k.stream,
	                                   k.arguments.data(), nullptr);
}

} // namespace

bool is_stop_variable(const char *name) { return strstr(name, words_name) != nullptr || strstr(name, mark_name) != nullptr; }

void kernels_may_stop() { some.store(true); }

bool begin_launch(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream, bool own)
{
	if (!some.load(std::memory_order_relaxed) || !can_be_revoked() || context_of_task() == nullptr)
		return false;
	const Known of = known(kernel);
	if (of.function == nullptr || (arguments == nullptr && !of.parameters.empty()) ||
	    of.lately->is_brief(uint64_t{grid.x} * grid.y * grid.z))
		return false;
	if (stream == nullptr)
		stream = own ? per_thread_stream : legacy_stream;
	const auto kept = keep(of, grid, block, arguments, shared, stream);
	const auto prepare = [kernel, kept] { await_references(kernel, kept->arguments.data()); };
	const auto ended = [lately = of.lately](uint64_t ns, bool stopped) { lately->ended(ns, stopped); };
	return begin_stoppable({of.words, stream, prepare, [kept] { return launch_again(*kept); }, ended});
}

} // namespace lazy
