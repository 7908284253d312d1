// main.cc: a program whose CUDA runtime is linked statically, as CuPy's is: only
// its calls of the driver can be seen, and it finds them as the runtime does.
// Arguments name what it does, in order: "static", "shared" (work with a shared
// runtime that it loads then), "driver" (cuCtxCreate).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "../../fake/fake_cuda.h"

static void *driver()
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	return library != nullptr ? library : (fprintf(stderr, "%s\n", dlerror()), exit(3), nullptr);
}

template <class F> static F *entry(const char *name)
{
	static auto *const get = reinterpret_cast<CUresult (*)(const char *, void **, int, uint64_t, int *)>(
		dlsym(driver(), "cuGetProcAddress_v2"));
	void *function = nullptr;
	int status = 0;
	if (get(name, &function, 13000, 0, &status) != CUDA_SUCCESS)
		exit(3);
	return reinterpret_cast<F *>(function);
}

static void tried(const char *call, int error)
{
	if (error != 0)
		printf("%s: error %d\n", call, error);
}
#define TRY(x) tried(#x, x)

// What cudaMalloc, cudaMemcpy and cudaFree come down to.
static void static_runtime()
{
	CUcontext context = nullptr;
	CUdevice on = -1;
	CUdeviceptr memory = 0;
	const std::vector<int> host(1000, 7);
	std::vector<int> back(1000);

	TRY(entry<CUresult(unsigned)>("cuInit")(0));
	const CUresult made = entry<CUresult(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0);
	printf("retain %d\n", made);
	if (made != CUDA_SUCCESS)
		return;
	TRY(entry<CUresult(CUcontext)>("cuCtxSetCurrent")(context));
	TRY(entry<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc")(&memory, 4000));
	TRY(entry<CUresult(CUdeviceptr, const void *, size_t)>("cuMemcpyHtoD")(memory, host.data(), 4000));
	TRY(entry<CUresult(void *, CUdeviceptr, size_t)>("cuMemcpyDtoH")(back.data(), memory, 4000));
	TRY(entry<CUresult(CUdevice *)>("cuCtxGetDevice")(&on));
	printf("static on %d right %d\n", on, back == host);
	TRY(entry<CUresult(CUdeviceptr)>("cuMemFree")(memory));
}

template <class F> static F *shared(const char *name)
{
	static void *const library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
	void *function = library != nullptr ? dlsym(library, name) : nullptr;
	return function != nullptr ? reinterpret_cast<F *>(function) : (fprintf(stderr, "%s\n", dlerror()), exit(3), nullptr);
}

static void shared_runtime()
{
	const std::vector<int> host(1000, 8);
	std::vector<int> back(1000);
	void *memory = nullptr;

	TRY(shared<cudaError_t(void **, size_t)>("cudaMalloc")(&memory, 4000));
	TRY(shared<cudaError_t(void *, const void *, size_t, int)>("cudaMemcpy")(memory, host.data(), 4000,
	                                                                        cudaMemcpyHostToDevice));
	TRY(shared<cudaError_t(void *, const void *, size_t, int)>("cudaMemcpy")(back.data(), memory, 4000,
	                                                                        cudaMemcpyDeviceToHost));
	printf("shared right %d\n", back == host);
	TRY(shared<cudaError_t(void *)>("cudaFree")(memory));
}

static void own_context()
{
	CUcontext context = nullptr;
	TRY(entry<CUresult(unsigned)>("cuInit")(0));
	printf("create %d\n", reinterpret_cast<CUresult (*)(CUcontext *, unsigned, CUdevice)>(
		dlsym(driver(), "cuCtxCreate_v2"))(&context, 0, 0));
}

int main(int, char **arguments)
{
	setvbuf(stdout, nullptr, _IOLBF, 0);
	while (*++arguments != nullptr) {
		if (strcmp(*arguments, "static") == 0)
			static_runtime();
		else if (strcmp(*arguments, "shared") == 0)
			shared_runtime();
		else if (strcmp(*arguments, "driver") == 0)
			own_context();
		else
			return 2;
	}
	fake_cuda_state s = {};
	reinterpret_cast<void (*)(fake_cuda_state *)>(dlsym(driver(), "fake_cuda_read"))(&s);
	printf("contexts %d first %d violations %u\n", s.contexts, s.contexts > 0 ? s.order[0] : -1, s.violations);
	return 0;
}
