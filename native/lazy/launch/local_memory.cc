// local_memory.cc: see local_memory.h.
//
// A context has one pool of local memory: bytes of a thread, times the threads that the device can have at once. The
// pool is as large as the stack limit (cudaLimitStackSize) or as the largest kernel since the limit was set. It grows
// when a larger kernel is launched, or when a graph with such a kernel is instantiated, and shrinks only when the limit is set
// (docs/results/lazy-runtime.md). A kernel that recurses, or calls through pointers, uses what the limit gives.
//
// How many bytes a kernel needs is in the program's machine code (program/cubin.h). Where that does not tell, the driver
// does.
#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "device/driver.h"
#include "memory/memory.h"
#include "program/cubin.h"
#include "program/kernels.h"
#include "program/mode.h"
#include "task/report.h"
#include "local_memory.h"

extern "C" {
CUresult cuFuncGetAttribute(int *value, int attribute, void *function);
CUresult cuKernelGetFunction(void **function, void *kernel);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
}

namespace lazy {
namespace {

const uint64_t default_limit = 1024; // bytes of a thread (cudaLimitStackSize)
const uint64_t most = 512 << 10;     // bytes that a thread can have on any device (CUDA C++ Programming Guide, appendix K)

// The first members of cudaFuncAttributes, the same in all versions, and room for those of later ones.
struct Attributes {
	size_t shared, constant, local, others[61];
};

// attribute is of a device as the driver counts; 0: unknown.
uint64_t attribute(int which, int device)
{
	int value = 0;
	const int error = has_runtime() ? REAL(cudaDeviceGetAttribute)(&value, which, device)
	                                : REAL_DRIVER(cuDeviceGetAttribute)(&value, which, device);
	return error == 0 && value > 0 ? static_cast<uint64_t>(value) : 0;
}

uint64_t threads_of(int device)
{
	return attribute(cudaDevAttrMultiProcessorCount, device) * attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
}

// resident_threads is how many threads the process's device can have at once; before it has one, the most of any device.
uint64_t resident_threads()
{
	int count = 1;
	uint64_t threads = 0;

	if (CUdevice here = home(); here >= 0 || (driver() != nullptr && driver()->current_device(&here) == CUDA_SUCCESS))
		return threads_of(here);
	if (driver() != nullptr)
		driver()->device_count(&count);
	for (int device = 0; device < count; device++)
		threads = std::max(threads, threads_of(device));
	return threads;
}

// Kernels that are_shallow, each with the version (program/kernels.h) at which it was found to be. One word for each,
// so that a launch takes no lock: addresses of programs have 47 bits.
std::atomic<uint64_t> shallow[1024];

std::atomic<uint64_t> &place(const void *kernel)
{
	const auto at = reinterpret_cast<uintptr_t>(kernel);
	return shallow[(at >> 4 ^ at >> 12) % 1024];
}

uint64_t entry(const void *kernel) { return reinterpret_cast<uintptr_t>(kernel) ^ kernels_version() << 48; }

// learned are the bytes of a thread of kernels at the present version. `lock` is held.
std::unordered_map<const void *, uint64_t> &learned()
{
	static uint64_t version = 0;
	static auto *const all = new std::unordered_map<const void *, uint64_t>;

	if (const uint64_t now = kernels_version(); version != now) {
		version = now;
		all->clear();
	}
	return *all;
}

bool has_learned(const void *kernel, uint64_t *bytes)
{
	Locked locked;
	const auto at = learned().find(kernel);

	if (at == learned().end())
		return false;
	*bytes = at->second;
	return true;
}

void learn(const void *kernel, uint64_t version, uint64_t bytes)
{
	Locked locked;
	if (kernels_version() != version)
		return;
	learned()[kernel] = bytes;
	if (bytes <= default_limit)
		place(kernel).store(entry(kernel), std::memory_order_relaxed);
}

// in_code is what the machine code for the process's device tells; unknown_local: nothing.
uint64_t in_code(const void *kernel)
{
	const int device = home() < 0 ? 0 : home();
	Kernel named;

	if (!kernel_at(kernel, &named))
		return unknown_local;
	const uint64_t capability = attribute(cudaDevAttrComputeCapabilityMajor, device) * 10 + attribute(cudaDevAttrComputeCapabilityMinor, device);
	return resources_in(named.fat, named.name, static_cast<uint32_t>(capability)).local;
}

uint64_t from_driver(void *function)
{
	const int local_size = 3; // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
	const auto get = REAL_DRIVER(cuFuncGetAttribute);
	const auto function_of = REAL_DRIVER(cuKernelGetFunction);
	int bytes = 0;

	if (get == nullptr)
		return unknown_local;
	CUresult result = get(&bytes, local_size, function);
	if (void *loaded = nullptr; result != CUDA_SUCCESS && function_of != nullptr && function_of(&loaded, function) == CUDA_SUCCESS)
		result = get(&bytes, local_size, loaded); // a kernel of a library (cuLibraryGetKernel)
	return result == CUDA_SUCCESS && bytes >= 0 ? static_cast<uint64_t>(bytes) : unknown_local;
}

// from_runtime is unknown_local for what is not a kernel: the launch says so.
uint64_t from_runtime(const void *kernel)
{
	Attributes a = {};

	use_device();
	return REAL(cudaFuncGetAttributes)(&a, kernel) == cudaSuccess ? a.local : unknown_local;
}

} // namespace

uint64_t local_pool(uint64_t bytes_of_thread)
{
	const uint64_t unit = 16, each = (bytes_of_thread + unit - 1) / unit * unit;

	return each <= default_limit || each > most ? 0 : whole_granules((each - default_limit) * resident_threads());
}

bool is_shallow(const void *kernel) { return place(kernel).load(std::memory_order_relaxed) == entry(kernel); }

// Until the task is bound, its device is not known for certain, so that nothing is learned.
cudaError_t await_deep(const char *call, const void *kernel, const std::function<cudaError_t()> &await_task)
{
	const uint64_t version = kernels_version();
	uint64_t bytes = 0;
	ContextMemory was;

	if (mode() == Mode::passive)
		return cudaSuccess;
	if (awaits_device()) // only the device says what the code is, and how many threads there are
		if (const cudaError_t error = await_task(); error != cudaSuccess)
			return error;
	if (!has_learned(kernel, &bytes)) {
		bytes = in_code(kernel);
		const bool told = bytes != unknown_local;
		if (!told) {
			if (const cudaError_t error = await_task(); error != cudaSuccess)
				return error;
			bytes = from_runtime(kernel);
		}
		if (bytes == unknown_local)
			return cudaSuccess;
		if (!deferring())
			learn(kernel, version, bytes);
	}
	if (bytes <= default_limit)
		return cudaSuccess;
	Task &task = Task::here();
	cudaError_t error = task.await_local_memory(call, local_pool(bytes), &was);
	if (error != cudaSuccess)
		return error;
	error = await_task();
	if (error != cudaSuccess)
		task.restore_context_memory(&ContextMemory::local, was);
	return error;
}

CUresult await_local_memory_of(const char *call, void *function)
{
	const uint64_t version = kernels_version();
	uint64_t bytes = 0;
	ContextMemory was;

	if (function == nullptr || is_shallow(function) || mode() == Mode::passive)
		return CUDA_SUCCESS;
	if (!has_learned(function, &bytes)) {
		bytes = from_driver(function);
		if (bytes == unknown_local)
			return CUDA_SUCCESS;
		learn(function, version, bytes);
	}
	if (bytes <= default_limit)
		return CUDA_SUCCESS;
	const OwnErrors of_the_driver;
	Task *const task = Task::of_context();
	return task != nullptr ? result_of(task->await_local_memory(call, local_pool(bytes), &was)) : CUDA_SUCCESS;
}

} // namespace lazy
