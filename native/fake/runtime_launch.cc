// runtime_launch.cc: modules, launches, and questions about kernels.
#include <algorithm>

#include "runtime.h"

namespace fake {

struct Kernel { // what __cudaGetKernel hands out
	const fake_kernel *code;
	int dynamic_limit() const // bytes
	{
		auto set = here().settings.dynamic_shared.find(this);
		return set != here().settings.dynamic_shared.end() ? set->second : 49152;
	}
};

// Modules are registered before main, and before any driver is there.
static std::map<const void *, std::unique_ptr<Kernel>> &kernels()
{
	static auto *const all = new std::map<const void *, std::unique_ptr<Kernel>>;
	return *all;
}

struct Variable {
	const void *host;
	size_t bytes;
};
static std::vector<Variable> &variables()
{
	static auto *const all = new std::vector<Variable>;
	return *all;
}

void load_variables()
{
	for (const Variable &v : variables())
		node()->add_variable(v.host, v.bytes);
	variables().clear();
}

static Kernel *kernel_at(const void *function)
{
	auto found = kernels().find(function);
	if (found != kernels().end())
		return found->second.get();
	for (auto &[stub, k] : kernels())
		if (k.get() == function)
			return k.get();
	return nullptr;
}

size_t local_bytes(const void *function)
{
	const Kernel *k = kernel_at(function);
	return k != nullptr ? k->code->local_bytes : 0;
}

int kernel_work(const void *function, dim3 grid, dim3 block, void **values, size_t shared, int device, Work *out)
{
	const Kernel *k = kernel_at(function);

	if (k == nullptr)
		return 98; // cudaErrorInvalidDeviceFunction
	const size_t threads = static_cast<size_t>(block.x) * block.y * block.z;
	if (threads == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
	    threads > static_cast<size_t>(k->code->max_threads) ||
	    shared > static_cast<size_t>(k->dynamic_limit()))
		return 9; // cudaErrorInvalidConfiguration
	std::vector<char> copied;
	for (unsigned i = 0; i < k->code->count; i++) {
		const char *value = static_cast<const char *>(values[i]);
		copied.insert(copied.end(), value, value + k->code->sizes[i]);
		copied.resize((copied.size() + 15) / 16 * 16);
	}
	const fake_launch with = {grid, block, shared, 0, nullptr, nullptr, 0, nullptr};
	const CUcontext context = node()->current();
	*out = Work([=, code = k->code, round = 0u]() mutable { return node()->kernel(device, context, with, code, copied, round++); }, node()->kernel_time(k->code->name));
	return 0;
}

static int launch(const void *function, dim3 grid, dim3 block, void **values, size_t shared, cudaStream_t handle)
{
	Stream *s;
	Work work;
	int error = kernel_work(function, grid, block, values, shared, self().device, &work);

	if (error == 0)
		error = node()->stream(handle, self().device, &s);
	if (error != 0)
		return error;
	if (s->device != self().device)
		return node()->violation("launch in a stream of another device");
	if (s->capture != nullptr)
		s->capture->local = std::max(s->capture->local, local_bytes(function));
	else
		error = node()->make_local(self().device, local_bytes(function), false);
	if (error == 0)
		node()->submit(s, std::move(work));
	return error;
}

// The events of a launch's attributes are reached when it is done. A kernel that is
// to be updated from the device gets a handle, as it would in a capture.
static int heed_attributes(const cudaLaunchConfig_t *c)
{
	Stream *s;
	Event *e;
	int error = node()->stream(c->stream, self().device, &s);

	for (unsigned i = 0; error == 0 && i < c->numAttrs; i++) {
		cudaLaunchAttribute &a = c->attrs[i];
		if (a.id == cudaLaunchAttributeDeviceUpdatableKernelNode)
			a.val.deviceUpdatableKernelNode.devNode = &a;
		if (a.id != cudaLaunchAttributeProgrammaticEvent && a.id != cudaLaunchAttributeLaunchCompletionEvent)
			continue;
		error = node()->event(a.val.launchCompletionEvent.event, &e);
		if (error == 0)
			e->mark = {s, s->submitted};
	}
	return error;
}

static std::string name_of(const void *function)
{
	const Kernel *k = kernel_at(function);
	return k != nullptr ? k->code->name : "?";
}

static cudaError_t traced(const char *name, const void *function, dim3 grid, dim3 block, void **values, size_t shared,
                          cudaStream_t stream)
{
	if (node()->skips_launches)
		return 0;
	return call(name, Needs::context, [&] { return launch(function, grid, block, values, shared, stream); },
	            name_of(function).c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream);
}

// The limits of one SM of compute capability 9.0.
static int blocks_per_sm(const fake_kernel *k, int threads, size_t dynamic)
{
	const int warps = (threads + 31) / 32, registers = k->registers * 32 * warps;
	const size_t shared = k->shared_bytes + dynamic;
	int blocks = std::min(32, 64 / warps);

	if (registers > 0)
		blocks = std::min(blocks, 65536 / registers);
	if (shared > 0)
		blocks = std::min(blocks, static_cast<int>(233472 / (shared + 1024)));
	return blocks;
}

} // namespace fake

using namespace fake;

// ---- what nvcc's code calls before main

API void **__cudaRegisterFatBinary(void *wrapper) { return static_cast<void **>(wrapper); }
API void __cudaRegisterFatBinaryEnd(void **) {}
API void __cudaUnregisterFatBinary(void **) {}
API char __cudaInitModule(void **) { return 1; }

API void __cudaRegisterFunction(void **module, const char *stub, char *, const char *, int, void *, void *, dim3 *,
                                dim3 *, int *)
{
	const fake_kernel *code = reinterpret_cast<const fake_fat_binary *>(module)->kernel;
	if (code != nullptr) // else it is code for a real device
		kernels()[stub] = std::make_unique<Kernel>(Kernel{code});
}

API void __cudaRegisterVar(void **, char *host, char *, const char *, int, size_t bytes, int, int)
{
	variables().push_back({host, bytes});
}

API void __cudaRegisterManagedVar(void **, void **host, char *, const char *, int, size_t bytes, int, int)
{
	*host = calloc(1, bytes); // for good
}

struct Configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};
static std::vector<Configuration> &configurations()
{
	static thread_local auto *const all = new std::vector<Configuration>; // outlives the thread's destructors
	return *all;
}


API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
	configurations().push_back({grid, block, shared, stream});
	return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	if (configurations().empty())
		return complete(52); // cudaErrorMissingConfiguration
	const Configuration c = configurations().back();
	configurations().pop_back();
	*grid = c.grid;
	*block = c.block;
	*shared = c.shared;
	*static_cast<cudaStream_t *>(stream) = c.stream;
	return 0;
}

// ---- launches

API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **values, size_t shared,
                                 cudaStream_t stream)
{
	return traced("cudaLaunchKernel", function, grid, block, values, shared, stream);
}

API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **values, size_t shared,
                                            cudaStream_t stream)
{
	return traced("cudaLaunchCooperativeKernel", function, grid, block, values, shared, stream);
}

API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *function, void **values)
{
	const dim3 grid = c->gridDim, block = c->blockDim;
	return call("cudaLaunchKernelExC", Needs::context, [&] {
		int error = launch(function, grid, block, values, c->dynamicSmemBytes, c->stream);
		return error == 0 ? heed_attributes(c) : error;
	}, name_of(function).c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z, c->dynamicSmemBytes, c->stream);
}

#if FAKE_CUDART < 13000
API cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *list, unsigned count, unsigned)
{
	return call("cudaLaunchCooperativeKernelMultiDevice", Needs::context, [&] {
		int error = count == 0 ? static_cast<int>(cudaErrorInvalidValue) : 0;
		for (unsigned i = 0; error == 0 && i < count; i++)
			error = launch(list[i].func, list[i].gridDim, list[i].blockDim, list[i].args, list[i].sharedMem,
			               list[i].stream);
		return error;
	}, count);
}
#endif

#if FAKE_CUDART >= 13000
API cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *stub)
{
	node(); // it starts the driver, as CUDA's does
	*out = reinterpret_cast<cudaKernel_t>(kernel_at(stub));
	return *out != nullptr ? 0 : complete(98);
}

API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **values, size_t shared,
                                   cudaStream_t stream)
{
	return traced("__cudaLaunchKernel", kernel, grid, block, values, shared, stream);
}
#endif

// ---- questions about kernels

// The first members of cudaFuncAttributes, the same in all versions.
struct Attributes {
	size_t shared, constant, local;
	int max_threads, registers, ptx, binary, cache, max_dynamic, carveout;
};

API cudaError_t cudaFuncGetAttributes(Attributes *out, const void *function)
{
	return call("cudaFuncGetAttributes", Needs::context, [&] {
		const Kernel *k = kernel_at(function);
		if (k == nullptr)
			return 98;
		*out = {k->code->shared_bytes, 0, k->code->local_bytes, k->code->max_threads, k->code->registers, 90, 90, 0,
		        k->dynamic_limit(), -1};
		return 0;
	}, name_of(function).c_str());
}

API cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value)
{
	return call("cudaFuncSetAttribute", Needs::context, [&] {
		Kernel *k = kernel_at(function);
		if (k == nullptr)
			return 98;
		if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
			here().settings.dynamic_shared[k] = value;
		return 0;
	}, name_of(function).c_str(), attribute, value);
}

API cudaError_t cudaFuncSetCacheConfig(const void *function, int config)
{
	return call("cudaFuncSetCacheConfig", Needs::context, [&] {
		return kernel_at(function) != nullptr ? 0 : 98;
	}, config);
}

API cudaError_t cudaFuncSetSharedMemConfig(const void *function, int config)
{
	return call("cudaFuncSetSharedMemConfig", Needs::context, [&] {
		return kernel_at(function) != nullptr ? 0 : 98;
	}, config);
}

API cudaError_t cudaGetFuncBySymbol(const fake_kernel **function, const void *symbol)
{
	return call("cudaGetFuncBySymbol", Needs::context, [&] {
		const Kernel *k = kernel_at(symbol);
		*function = k != nullptr ? k->code : nullptr;
		return k != nullptr ? 0 : 98;
	}, name_of(symbol).c_str());
}

static int occupancy(int *blocks, const void *function, int threads, size_t dynamic)
{
	const Kernel *k = kernel_at(function);

	if (k == nullptr || threads <= 0)
		return k == nullptr ? 98 : static_cast<int>(cudaErrorInvalidValue);
	*blocks = blocks_per_sm(k->code, threads, dynamic);
	return 0;
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                              size_t dynamic)
{
	return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", Needs::context, [&] {
		return occupancy(blocks, function, threads, dynamic);
	}, threads, dynamic);
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads,
        size_t dynamic, unsigned)
{
	return call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", Needs::context, [&] {
		return occupancy(blocks, function, threads, dynamic);
	}, threads, dynamic);
}

API cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function, const cudaLaunchConfig_t *config)
{
	return call("cudaOccupancyMaxActiveClusters", Needs::context, [&] {
		Stream *s;
		int error = node()->stream(config->stream, self().device, &s);
		return error != 0 ? error :
		       occupancy(clusters, function, static_cast<int>(config->blockDim.x), config->dynamicSmemBytes);
	});
}
