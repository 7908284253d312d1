// registration.cc: start-up code of the program tells the CUDA runtime of its fat binaries, kernels and variables
// (crt/host_runtime.h).
#include "abi/api.h"
#include "abi/symbols.h"
#include "device/confine.h"
#include "device/device.h"
#include "program/kernels.h"
#include "program/variables.h"
#include "launch/stoppable.h"
#include "launch/work.h"
#include "task/direct.h"
#include "task/managed.h"
#include "task/report.h"
#include "task/task.h"

using namespace lazy;

static const int wrapper_magic = 0x466243b1;

void **__cudaRegisterFatBinary(FatWrapper *binary)
{
	void **handle = REAL(__cudaRegisterFatBinary)(binary);

	if (binary->magic == wrapper_magic)
		know_binary(handle, binary->data);
	return handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	forget_binary(handle);
	REAL(__cudaUnregisterFatBinary)(handle);
}

void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int thread_limit,
                            void *thread, void *block, void *block_dim, void *grid_dim, int *warp_size)
{
	REAL(__cudaRegisterFunction)
	(handle, host, device, name, thread_limit, thread, block, block_dim, grid_dim, warp_size);
	know_kernel(handle, host, name);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
	if (is_stop_variable(name))
		kernels_may_stop();
	else
		tie(Tie::variable, __func__);
	REAL(__cudaRegisterVar)(handle, host, device, name, external, bytes, constant, global);
	know_variable(host, bytes);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t bytes,
                              int constant, int global)
{
	tie(Tie::variable, __func__);
	REAL(__cudaRegisterManagedVar)(handle, host, device, name, external, bytes, constant, global);
	know_managed_variable(know_variable(host, bytes));
}

// The CUDA runtime starts the driver here. It also launches what the host knows a kernel by (both seen with runtime 13.0).
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	if (Kernel named; awaits_device() && kernel != nullptr && kernel_at(host, &named)) {
		*kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(host));
		return cudaSuccess;
	}
	use_device();
	const cudaError_t result = REAL(__cudaGetKernel)(kernel, host);
	if (result == cudaSuccess)
		know_handle(*kernel, host);
	return result;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	use_device();
	const cudaError_t result = REAL(cudaGetKernel)(kernel, host);
	if (result == cudaSuccess)
		know_handle(*kernel, host);
	return result;
}

cudaError_t cudaLibraryLoadData(void **library, const void *code, int *options, void **values, unsigned count, int *library_options,
                                void **library_values, unsigned library_count)
{
	const OptionValues given(values, count);

	return direct_loading<Ungated>("cudaLibraryLoadData", [&] {
		given.restore();
		working();
		return REAL(cudaLibraryLoadData)(library, code, options, values, count, library_options, library_values, library_count);
	});
}

cudaError_t cudaLibraryLoadFromFile(void **library, const char *path, int *options, void **values, unsigned count,
                                    int *library_options, void **library_values, unsigned library_count)
{
	const OptionValues given(values, count);

	return direct_loading<Ungated>("cudaLibraryLoadFromFile", [&] {
		given.restore();
		working();
		return REAL(cudaLibraryLoadFromFile)(library, path, options, values, count, library_options, library_values, library_count);
	});
}

// Another kernel may get the handle of a kernel that is gone.
cudaError_t cudaLibraryUnload(void *library)
{
	tie_here(Tie::call, "cudaLibraryUnload");
	const cudaError_t error = await_context();
	if (error != cudaSuccess)
		return error;
	forget_functions();
	return seen(REAL(cudaLibraryUnload)(library), "cudaLibraryUnload");
}
