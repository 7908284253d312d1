// kernels.cc: see kernels.h. Start-up code of the program tells the CUDA runtime of each fat binary
// (__cudaRegisterFatBinary) and of the name of each kernel in it (__cudaRegisterFunction).
#include <atomic>
#include <map>

#include "api.h"
#include "device.h"
#include "kernels.h"
#include "lock.h"

extern "C" {
struct FatWrapper { // what nvcc's start-up code passes (fatbinary_section.h)
	int magic, version;
	const unsigned char *data;
	void *unused;
};
}

CASE_API void **__cudaRegisterFatBinary(FatWrapper *binary);
CASE_API void __cudaUnregisterFatBinary(void **handle);
CASE_API void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int thread_limit,
                                     void *thread, void *block, void *block_dim, void *grid_dim, int *warp_size);
CASE_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
CASE_API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host);

namespace lazy {
namespace {

const int wrapper_magic = 0x466243b1;

std::map<void **, const unsigned char *> &binaries()
{
	static auto *const all = new std::map<void **, const unsigned char *>;
	return *all;
}

std::map<const void *, Kernel> &kernels() // by host function, and by handle
{
	static auto *const all = new std::map<const void *, Kernel>;
	return *all;
}

std::atomic<uint64_t> version{0};

// `registering` is held.
void know(const void *function, Kernel kernel)
{
	if (!kernels().insert_or_assign(function, std::move(kernel)).second)
		version++;
}

cudaError_t name_handle(cudaError_t result, const cudaKernel_t *kernel, const void *host)
{
	Locked locked(registering);
	auto known = kernels().find(host);

	if (result == cudaSuccess && known != kernels().end())
		know(*kernel, Kernel(known->second));
	return result;
}

} // namespace

bool kernel_at(const void *function, Kernel *found)
{
	Locked locked(registering);
	const auto known = kernels().find(function);

	if (known == kernels().end())
		return false;
	*found = known->second;
	return true;
}

uint64_t kernels_version() { return version; }

} // namespace lazy

using namespace lazy;

void **__cudaRegisterFatBinary(FatWrapper *binary)
{
	void **handle = REAL(__cudaRegisterFatBinary)(binary);

	if (binary->magic == wrapper_magic) {
		Locked locked(registering);
		binaries()[handle] = binary->data;
	}
	return handle;
}

// The code of a library goes with it.
void __cudaUnregisterFatBinary(void **handle)
{
	{
		Locked locked(registering);
		if (const auto fat = binaries().find(handle); fat != binaries().end()) {
			for (auto k = kernels().begin(); k != kernels().end();)
				k = k->second.fat == fat->second ? kernels().erase(k) : std::next(k);
			binaries().erase(fat);
			version++;
		}
	}
	REAL(__cudaUnregisterFatBinary)(handle);
}

void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int thread_limit,
                            void *thread, void *block, void *block_dim, void *grid_dim, int *warp_size)
{
	REAL(__cudaRegisterFunction)
	(handle, host, device, name, thread_limit, thread, block, block_dim, grid_dim, warp_size);
	Locked locked(registering);
	auto fat = binaries().find(handle);
	if (fat != binaries().end())
		know(host, Kernel{fat->second, host, name});
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	use_device();
	return name_handle(REAL(__cudaGetKernel)(kernel, host), kernel, host);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	use_device();
	return name_handle(REAL(cudaGetKernel)(kernel, host), kernel, host);
}
