// fake_kernel.h: "CUDA" programs for the fake runtime, compiled by g++ alone.
//
//	static void scale(float *x, int n, float by) { for (int i = 0; i < n; i++) x[i] *= by; }
//	FAKE_KERNEL(scale);
//	...
//	LAUNCH(scale, grid, block, shared_bytes, stream, x, n, 2.0f);
//
// A kernel's function is called once for each launch; what it knows of the
// launch is in kernels::launch(). Registration and launch go the way that nvcc
// makes them go: of version 13 where FAKE_NVCC is 13, else of 11 and 12. At least
// one file of a program is compiled with FAKE_NVCC.
#ifndef FAKE_KERNEL_H
#define FAKE_KERNEL_H

#include <utility>

#include "fake_cubin.h"
#include "fake_cuda.h"

extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **module);
void __cudaUnregisterFatBinary(void **module);
void __cudaRegisterFunction(void **module, const char *stub, char *function, const char *name, int limit, void *,
                            void *, dim3 *, dim3 *, int *);
void __cudaRegisterVar(void **module, char *host, char *address, const char *name, int external, size_t bytes,
                       int constant, int global);
void __cudaRegisterManagedVar(void **module, void **host, char *address, const char *name, int external, size_t bytes,
                              int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **values, size_t shared_bytes, cudaStream_t);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3 grid, dim3 block, void **values, size_t shared_bytes, cudaStream_t);
}

namespace kernels {

inline thread_local const fake_launch *current;

// In a kernel: its launch, its device's instance of a variable, and a fault.
inline const fake_launch &launch() { return *current; }
template <class T> T &on_device(T &variable) { return *static_cast<T *>(current->symbol(&variable)); }
inline void fail(int error) { current->fail(error); }
// In a kernel that takes rounds: which one this is, and that another one comes.
inline unsigned round() { return current->round; }
inline void again() { current->again(); }

// How a launch goes depends on nvcc. Files without FAKE_NVCC have these from another file of the program.
#ifndef FAKE_NVCC
cudaKernel_t handle_of(const void *stub);
cudaError_t enqueue(cudaKernel_t, const void *stub, dim3 grid, dim3 block, void **values, size_t shared_bytes, cudaStream_t);
#elif FAKE_NVCC == 13
__attribute__((weak)) cudaKernel_t handle_of(const void *stub)
{
	cudaKernel_t k = nullptr;
	__cudaGetKernel(&k, stub);
	return k;
}
__attribute__((weak)) cudaError_t enqueue(cudaKernel_t kernel, const void *, dim3 grid, dim3 block, void **values,
                                          size_t shared_bytes, cudaStream_t stream)
{
	return __cudaLaunchKernel(kernel, grid, block, values, shared_bytes, stream);
}
#else
__attribute__((weak)) cudaKernel_t handle_of(const void *) { return nullptr; }
__attribute__((weak)) cudaError_t enqueue(cudaKernel_t, const void *stub, dim3 grid, dim3 block, void **values,
                                          size_t shared_bytes, cudaStream_t stream)
{
	return cudaLaunchKernel(stub, grid, block, values, shared_bytes, stream);
}
#endif

template <auto function> struct Kernel;
template <class... A, void (*function)(A...)> struct Kernel<function> {
	template <size_t... I> static void apply(void **values, std::index_sequence<I...>)
	{
		static_cast<void>(values);
		function(*static_cast<A *>(values[I])...);
	}

	static void run(const fake_launch *with, void **values)
	{
		current = with;
		apply(values, std::index_sequence_for<A...>());
	}

	static const void *stub() { return reinterpret_cast<const void *>(function); }

	static fake_kernel describe(const char *name, int registers = 32, size_t shared_bytes = 0, size_t local_bytes = 0)
	{
		static const size_t sizes[] = {sizeof(A)..., 0}, alignments[] = {alignof(A)..., 1};
		static size_t offsets[sizeof...(A) + 1]; // as in a structure
		for (size_t i = 0, end = 0; i < sizeof...(A); end = offsets[i] + sizes[i], i++)
			offsets[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
		return {name, run, sizes, offsets, sizeof...(A), registers, 1024, shared_bytes, 0, local_bytes, nullptr, 0};
	}

	static fake_kernel stoppable(const char *name, int restartable)
	{
		fake_kernel k = describe(name);
		k.stop_words = stop_words;
		k.restartable = restartable;
		return k;
	}

	// stops is the end of a round: whether the kernel is to return.
	static bool stops()
	{
		auto &words = on_device(stop_words);
		words[1] |= words[0];
		return words[0] != 0;
	}

	inline static unsigned stop_words[2];

	static fake_kernel silent(const char *name, size_t local_bytes = 0)
	{
		fake_kernel k = describe(name, 32, 0, local_bytes);
		k.silent = 1;
		return k;
	}

	static cudaError_t launch(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A... a)
	{
		void *values[] = {&a..., nullptr};

		if (__cudaPushCallConfiguration(grid, block, shared_bytes, stream) != 0)
			return cudaErrorUnknown;
		static const cudaKernel_t kernel = handle_of(stub());
		__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream);
		return enqueue(kernel, stub(), grid, block, values, shared_bytes, stream);
	}
};

// A module with one kernel or one variable in it.
struct Module {
	fake_kernel code;
	Cubin cubin;
	fake_fat_binary binary;
	void **handle;

	Module(const void *stub, const fake_kernel &k)
		: code(k), cubin(cubin_of(k)),
		  binary{FAKE_FAT_BINARY_MAGIC, 1, cubin.data(), &code}
	{
		handle = __cudaRegisterFatBinary(&binary);
		__cudaRegisterFunction(handle, static_cast<const char *>(stub), const_cast<char *>(code.name),
		                       code.name,
		                       -1, nullptr, nullptr, nullptr, nullptr, nullptr);
		if (code.stop_words != nullptr) {
			char *const words = const_cast<char *>(reinterpret_cast<const char *>(code.stop_words));
			__cudaRegisterVar(handle, words, const_cast<char *>("case_stop_words"), "case_stop_words", 0, 2 * sizeof(unsigned), 0, 0);
		}
		__cudaRegisterFatBinaryEnd(handle);
	}
	Module(void *variable, const char *name, size_t bytes)
		: code(), cubin("", 0, 0, nullptr), binary{FAKE_FAT_BINARY_MAGIC, 1, cubin.data(), nullptr}
	{
		handle = __cudaRegisterFatBinary(&binary);
		__cudaRegisterVar(handle, static_cast<char *>(variable), const_cast<char *>(name), name, 0, bytes, 0,
		                  0);
		__cudaRegisterFatBinaryEnd(handle);
	}
	Module(const Module &) = delete;
	Module &operator=(const Module &) = delete;
	~Module() { __cudaUnregisterFatBinary(handle); }

private:
	static Cubin cubin_of(const fake_kernel &k)
	{
		std::vector<Cubin::Parameter> parameters;
		for (unsigned i = 0; i < k.count; i++)
			parameters.push_back({static_cast<uint16_t>(k.offsets[i]), static_cast<uint16_t>(k.sizes[i])});
		return Cubin(k.name, k.registers, k.shared_bytes, k.silent ? nullptr : &parameters, static_cast<uint32_t>(k.local_bytes));
	}
};

} // namespace kernels

// FAKE_KERNEL(function [, registers [, static shared bytes [, bytes of local memory]]])
// FAKE_SILENT_KERNEL(function [, bytes of local memory])
#define FAKE_KERNEL(function, ...)                                                  \
	static const kernels::Module module_of_##function(                          \
		kernels::Kernel<function>::stub(), kernels::Kernel<function>::describe(#function, ##__VA_ARGS__))
#define FAKE_SILENT_KERNEL(function, ...) \
	static const kernels::Module module_of_##function( \
		kernels::Kernel<function>::stub(), kernels::Kernel<function>::silent(#function, ##__VA_ARGS__))
// FAKE_STOPPABLE_KERNEL(function, whether its module says that it may be begun again)
#define FAKE_STOPPABLE_KERNEL(function, restartable) \
	static const kernels::Module module_of_##function( \
		kernels::Kernel<function>::stub(), kernels::Kernel<function>::stoppable(#function, restartable))
#define FAKE_VARIABLE(name) static const kernels::Module module_of_##name(&name, #name, sizeof name)
#define LAUNCH(function, grid, block, shared_bytes, stream, ...) \
	kernels::Kernel<function>::launch(grid, block, shared_bytes, stream, ##__VA_ARGS__)
#define STUB(function) kernels::Kernel<function>::stub()
#endif
