// local.cc: kernels with much local memory, and the stack.
#include <string>

#include "program.h"

static void add_2k(int *x, int n, int by) { add(x, n, by); }
static void add_4k(int *x, int n, int by) { add(x, n, by + 1); }
static void add_silent(int *x, int n, int by) { add(x, n, by + 2); }
static void register_deep()
{
	FAKE_KERNEL(add_2k, 32, 0, 2048);
	FAKE_KERNEL(add_4k, 32, 0, 4096);
	FAKE_SILENT_KERNEL(add_silent, 4096);
}

static int *x;

// used is what the devices hold.
static void used(const char *when)
{
	const fake_cuda_state s = fake_state();
	say("%s: used %lu MiB", when, static_cast<unsigned long>((s.used[0] + s.used[1]) / mib));
}

template <auto kernel> static void work(const char *name)
{
	TRY(LAUNCH(kernel, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaDeviceSynchronize());
	used(name);
}

static void by_driver(const fake_kernel &kernel)
{
	using Launch = CUresult(const fake_kernel *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
	                        cudaStream_t, void **, void **);
	int n = 1000, by = 1;
	void *arguments[] = {&x, &n, &by};

	for (int round = 0; round < 2; round++)
		TRY(driver_call<Launch>("cuLaunchKernel")(&kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
	TRY(cudaDeviceSynchronize());
	used(kernel.name);
}

static cudaGraph_t with_capture()
{
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	TRY(cudaStreamCreate(&s));
	TRY(cudaStreamBeginCapture(s, 0));
	TRY(LAUNCH(add_4k, grid, block, 0, s, x, 1000, 1));
	TRY(cudaStreamEndCapture(s, &graph));
	return graph;
}

static cudaGraph_t with_node()
{
	cudaGraph_t graph = nullptr;
	cudaGraphNode_t node;
	int n = 1000, by = 1;
	void *arguments[] = {&x, &n, &by};
	const cudaKernelNodeParams kernel = {const_cast<void *>(STUB(add_4k)), grid, block, 0, arguments, nullptr};
	TRY(cudaGraphCreate(&graph, 0));
	TRY(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
	return graph;
}

static void run(cudaGraph_t graph)
{
	cudaGraphExec_t executable = nullptr;
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	used("instance");
	TRY(cudaGraphLaunch(executable, nullptr));
	TRY(cudaDeviceSynchronize());
}

void deep(const char *way)
{
	const std::string what = way;

	register_deep();
	x = device<int>(1000);
	TRY(cudaMemset(x, 0, 4000));
	if (what == "stack" || what == "small_stack")
		say("set %d", cudaDeviceSetLimit(cudaLimitStackSize, what == "stack" ? 4096 : 512));
	if (what == "silent") // the driver tells, once the task is there
		work<add_silent>("silent");
	if (what != "first" && what != "silent")
		work<add>("shallow");
	if (what == "first" || what == "small_stack") {
		work<add_4k>("deep");
	} else if (what == "grows") {
		work<add_2k>("deep");
		work<add_4k>("deeper");
		work<add_2k>("deep");
	} else if (what == "node") {
		run(with_node());
	} else if (what == "captured") {
		run(with_capture());
	} else if (what == "driver") {
		by_driver(kernels::Kernel<add_4k>::describe("add_4k", 32, 0, 4096));
	} else if (what == "stack_later") {
		say("set %d", cudaDeviceSetLimit(cudaLimitStackSize, 2048));
		work<add_2k>("deep");
		say("set %d", cudaDeviceSetLimit(cudaLimitStackSize, 1024)); // the pool is smaller, and what was granted stays
		work<add_2k>("deep");
	} else if (what == "stack_of_driver") {
		say("set %d", driver_call<CUresult(int, size_t)>("cuCtxSetLimit")(cudaLimitStackSize, 2048));
		work<add_2k>("deep");
	} else if (what == "refused") {
		for (int round = 0; round < 3; round++) {
			const cudaError_t error = LAUNCH(add_4k, grid, block, 0, nullptr, x, 1000, 1);
			say("deeper %d, then %d", error, cudaGetLastError());
		}
		work<add_2k>("deep");
	}
	int result = -1;
	TRY(cudaMemcpy(&result, x, 4, cudaMemcpyDefault));
	say("result %d", result);
	TRY(cudaFree(x));
	x = device<int>(1000); // the next task's, if there is one
	work<add>("again");
	TRY(cudaFree(x));
}

static void result(const char *call, cudaError_t error)
{
	say("%s %d last %d", call, error, cudaGetLastError());
}

// unseen: CUDA takes memory in these calls that no call shows. The test has each fail for it at first.
void unseen()
{
	cudaStream_t s;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr, other = nullptr;
	void *module = nullptr;
	size_t bytes = 4 * mib;
	int n = 1000, by = 1;

	TRY(cudaMalloc(reinterpret_cast<void **>(&x), mib));
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, n, by));
	TRY(cudaStreamCreate(&s));
	result("launch", LAUNCH(add, grid, block, 0, s, x, n, by));
	TRY(cudaStreamBeginCapture(s, 0));
	TRY(LAUNCH(add, grid, block, 0, s, x, n, by));
	TRY(cudaStreamEndCapture(s, &graph));
	result("instantiate", cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	cudaGraphInstantiateParams params = {};
	params.uploadStream = s;
	result("with parameters", cudaGraphInstantiateWithParams(&other, graph, &params));
	result("graph", cudaGraphLaunch(executable, s));
	say("module %d", driver_call<CUresult(void **, const void *)>("cuModuleLoadData")(&module, &bytes));
	void *arguments[] = {&x, &n, &by};
	static const fake_kernel kernel = kernels::Kernel<add>::describe("add");
	using Launch = CUresult(const fake_kernel *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t,
	                        void **, void **);
	// The program hides that it reaches the driver, which does not know its streams.
	say("driver %d", driver_call<Launch>("cuLaunchKernel")(&kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
	int value = 0;
	TRY(cudaStreamSynchronize(s));
	TRY(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
	say("value %d", value);
	TRY(cudaFree(x));
}

// captures_unseen: a launch that is captured fails for memory.
void captures_unseen()
{
	cudaStream_t s;

	TRY(cudaMalloc(reinterpret_cast<void **>(&x), mib));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	TRY(cudaStreamCreate(&s));
	TRY(cudaStreamBeginCapture(s, 0));
	result("captured", LAUNCH(add, grid, block, 0, s, x, 1000, 1));
}
