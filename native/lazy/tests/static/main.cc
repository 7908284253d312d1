// main.cc: a program whose CUDA runtime is linked statically, as CuPy's is: only
// its calls of the driver can be seen, and it finds them as the runtime does.
// Arguments name what it does, in order: "static", "shared" (work with a shared
// runtime that it loads then), "driver" (cuCtxCreate), "count" (cuDeviceGetCount),
// "careless" (errors that it does not look at), "together" (count, in two threads),
// "nvml" (NVML's counts), "list" (CUDA_VISIBLE_DEVICES, and where MPS is), "fork" (a child does all
// that follows, and then so does this process), "exec" (another process does all
// that follows), "tell" (that sees the node's device 0), "begin" and "end" (of a task that
// it asks for itself, on whose device it works from then on).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "../../../fake/fake_cuda.h"

static int chosen; // the device that the program works on

#ifdef TASK_API // it asks for tasks itself
#include "../../../probe/case.h"

static case_task task;

// begin asks for a task, and chooses its device.
static void begin()
{
	const int answer = case_task_begin(64 << 20, 32, 96, 0, 0, &task);
	printf("begin %d device %d\n", answer, task.device);
	chosen = task.device;
}

static void end() { printf("end %d\n", case_task_free(&task)); }
#else
static void begin() {}
static void end() {}
#endif

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

// The driver calls behind cudaMalloc, cudaMemcpy and cudaFree.
static void static_runtime()
{
	CUcontext context = nullptr;
	CUdevice on = -1;
	int memory_on = -1;
	CUdeviceptr memory = 0;
	const std::vector<int> host(1000, 7);
	std::vector<int> back(1000);

	TRY(entry<CUresult(unsigned)>("cuInit")(0));
	const CUresult made = entry<CUresult(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, chosen);
	printf("retain %d\n", made);
	if (made != CUDA_SUCCESS)
		return;
	TRY(entry<CUresult(CUcontext)>("cuCtxSetCurrent")(context));
	TRY(entry<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc")(&memory, 4000));
	TRY(entry<CUresult(CUdeviceptr, const void *, size_t)>("cuMemcpyHtoD")(memory, host.data(), 4000));
	TRY(entry<CUresult(void *, CUdeviceptr, size_t)>("cuMemcpyDtoH")(back.data(), memory, 4000));
	TRY(entry<CUresult(CUdevice *)>("cuCtxGetDevice")(&on));
	TRY(entry<CUresult(void *, int, CUdeviceptr)>("cuPointerGetAttribute")(&memory_on, 9, memory)); // DEVICE_ORDINAL
	printf("static on %d memory on %d right %d\n", on, memory_on, back == host);
	TRY(entry<CUresult(CUdeviceptr)>("cuMemFree")(memory));
}

// A program that ignores results: it asks for more memory than there is, and does not wait for its
// kernel.
static void careless()
{
	CUcontext context = nullptr;
	CUdeviceptr memory = 0;
	TRY(entry<CUresult(unsigned)>("cuInit")(0));
	TRY(entry<CUresult(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0));
	TRY(entry<CUresult(CUcontext)>("cuCtxSetCurrent")(context));
	const auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr *, size_t)>(dlsym(driver(), "cuMemAlloc_v2"));
	printf("alloc %d\n", allocate(&memory, size_t{1} << 40));
	printf("launch %d\n", entry<CUresult(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	                                     void *, void **, void **)>("cuLaunchKernel")(
		nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
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

static void count()
{
	int devices = -1;
	TRY(entry<CUresult(unsigned)>("cuInit")(0));
	TRY(entry<CUresult(int *)>("cuDeviceGetCount")(&devices));
	printf("devices %d\n", devices);
}

static void together()
{
	std::thread other(count);
	count();
	other.join();
}

static void nvml()
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	for (const char *name : {"nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"}) {
		unsigned devices = 99;
		void *function = library != nullptr ? dlsym(library, name) : nullptr;
		const int error = function != nullptr ? reinterpret_cast<int (*)(unsigned *)>(function)(&devices) : -1;
		printf("%s %d says %u\n", name, error, devices);
	}
	printf("other %d\n", dlsym(library, "nvmlNoSuchFunction") != nullptr);
}

static void wait_for(pid_t child)
{
	int status = -1;
	if (waitpid(child, &status, 0) != child || status != 0)
		printf("child: status %d\n", status);
}

static void list()
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *was = getenv("CASE_VISIBLE_DEVICES");
	printf("visible %s was %s\n", visible != nullptr ? visible : "unset", was != nullptr ? was : "unset");
	const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY"), *pipe_was = getenv("CASE_MPS_PIPE_DIRECTORY");
	printf("pipe %s was %s\n", pipe != nullptr ? pipe : "unset", pipe_was != nullptr ? pipe_was : "unset");
}

int main(int, char **arguments)
{
	char *const program = *arguments;

	setvbuf(stdout, nullptr, _IOLBF, 0);
	while (*++arguments != nullptr) {
		if (strcmp(*arguments, "static") == 0)
			static_runtime();
		else if (strcmp(*arguments, "shared") == 0)
			shared_runtime();
		else if (strcmp(*arguments, "driver") == 0)
			own_context();
		else if (strcmp(*arguments, "count") == 0)
			count();
		else if (strcmp(*arguments, "begin") == 0)
			begin();
		else if (strcmp(*arguments, "end") == 0)
			end();
		else if (strcmp(*arguments, "careless") == 0)
			careless();
		else if (strcmp(*arguments, "together") == 0)
			together();
		else if (strcmp(*arguments, "nvml") == 0)
			nvml();
		else if (strcmp(*arguments, "list") == 0)
			list();
		else if (strcmp(*arguments, "tell") == 0)
			setenv("CUDA_VISIBLE_DEVICES", "0", 1);
		else if (strcmp(*arguments, "fork") == 0) {
			if (const pid_t child = fork(); child != 0)
				wait_for(child);
		} else if (strcmp(*arguments, "exec") == 0) {
			const pid_t child = fork();
			if (child == 0) {
				*arguments = program;
				execv(program, arguments);
				_exit(3);
			}
			wait_for(child);
			break;
		} else
			return 2;
	}
	fake_cuda_state s = {};
	reinterpret_cast<void (*)(fake_cuda_state *)>(dlsym(driver(), "fake_cuda_read"))(&s);
	printf("contexts %d first %d violations %u\n", s.contexts, s.contexts > 0 ? s.order[0] : -1, s.violations);
	return 0;
}
