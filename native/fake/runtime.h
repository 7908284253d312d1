// runtime.h: what the files of the fake CUDA runtime share. FAKE_CUDART is the
// version it is built as: 11080 or 13000.
#ifndef FAKE_RUNTIME_H
#define FAKE_RUNTIME_H

#include "machine.h"

#define API extern "C" __attribute__((visibility("default")))

namespace fake {

Machine *node(); // nullptr: no driver

enum class Needs { nothing, device, context };

struct Thread {
	int device; // current, where the thread has no context
	int last;   // error
};
Thread &self();

int prepare(Needs needs);     // makes the current device's context where one is needed
int complete(int error);      // notes the result for cudaGetLastError
int lasting();                // the current device's lasting error
inline Device &here() { return node()->devices[static_cast<size_t>(self().device)]; }
void raise_lasting(int error);
void load_variables(); // those registered since the last call

// call is what each function of the runtime does. The context is made before the
// lock is taken: what overrides the driver may wait in it.
template <class F, class... A> cudaError_t call(const char *name, Needs needs, F body, const A &...a)
{
	if (node() == nullptr)
		return complete(cudaErrorInsufficientDriver);
	int error;
	{
		std::lock_guard<Lock> locked(node()->lock);
		error = node()->enter(name, arguments(a...));
		if (error != 0)
			raise_lasting(error);
	}
	if (error == 0)
		error = prepare(needs);
	if (error != 0)
		return complete(error);
	std::lock_guard<Lock> locked(node()->lock);
	if (needs == Needs::context && lasting() != 0)
		return complete(lasting());
	load_variables();
	error = body();
	if (error == 0 && needs == Needs::context)
		error = lasting();
	node()->leave(name);
	return complete(error);
}

// kernel_work checks a launch and is its work, without a stream (runtime_launch.cc). local_bytes are those of a
// thread of the kernel.
size_t local_bytes(const void *function);
int kernel_work(const void *function, dim3 grid, dim3 block, void **values, size_t shared, int device, Work *out);
int graph_of(const void *handle, Graph **out); // runtime_stream.cc
int instantiate(cudaGraph_t graph, void **out);

// The driver's functions, as the runtime found them.
struct Driver {
	CUresult (*device_count)(int *count);
	CUresult (*retain)(CUcontext *context, CUdevice device);
	CUresult (*reset)(CUdevice device);
	CUresult (*set_current)(CUcontext context);
	CUresult (*allocate)(CUdeviceptr *address, size_t bytes);
	CUresult (*release)(CUdeviceptr address);
	void *get_proc_address; // its type depends on the version
};
Driver &driver();
void *driver_symbol(const char *symbol, int version);

} // namespace fake
#endif
