// harness.cc: runs made-up programs, and checks at each launch that their tasks hold the memory
// that is in use. The linker wraps the calls that it watches.
//
//	harness SEED PROGRAM...
//
// says what each program computed for some inputs. A check that fails is a line on stderr that
// begins with VIOLATION. The last line there counts the tasks: those that the scheduler granted,
// and those of them that are still open with none of the memory that they were granted for.
#include "program.h"

#include <map>
#include <mutex>

#include "../../../probe/static.h"

extern const named programs[];

namespace {

struct Allocation {
	size_t bytes;
	int device;
	bool compiled; // by a task that the pass made
};

struct Open {
	uint64_t bytes;
	int device;
};

// one_device: the lazy runtime is preloaded. The program knows its device as 0, whichever it is.
const bool one_device = getenv("CASE_BINDING") != nullptr;

// The harness has the task API in it. With ELSEWHERE it is not for that a program that chooses
// devices itself.
__attribute__((constructor(101))) void elsewhere()
{
	if (getenv("ELSEWHERE") != nullptr)
		case_static_elsewhere(0);
}

std::mutex watching; // kernels run in threads of their own
std::map<const char *, Allocation> memory;
std::map<uint64_t, Open> tasks; // by id
unsigned granted;

int thread_device()
{
	int device = -1;
	cudaGetDevice(&device);
	return device;
}

void check_pointer(const void *p, const char *kernel)
{
	std::lock_guard<std::mutex> locked(watching);
	auto at = memory.upper_bound(static_cast<const char *>(p));
	if (p == nullptr)
		return;
	if (at == memory.begin() || static_cast<const char *>(p) >= (--at)->first + at->second.bytes)
		fprintf(stderr, "VIOLATION: %s gets memory that is not allocated\n", kernel);
	else if (!one_device && at->second.device != kernels::launch().device)
		fprintf(stderr, "VIOLATION: %s runs on device %d, its memory is on %d\n", kernel, kernels::launch().device, at->second.device);
}

void check_launch()
{
	std::map<int, uint64_t> used, held;
	std::lock_guard<std::mutex> locked(watching);

	for (auto &[_, a] : memory)
		if (a.compiled)
			used[a.device] += a.bytes;
	for (auto &[_, t] : tasks)
		held[t.device] += t.bytes;
	for (auto &[device, bytes] : used)
		if (bytes > held[device])
			fprintf(stderr, "VIOLATION: %lu bytes in use on device %d, tasks hold %lu\n", bytes, device, held[device]);
}

} // namespace

void add(int *a, int n, int by)
{
	check_pointer(a, "add");
	for (int i = 0; a != nullptr && i < n; i++)
		a[i] += by + i;
}

void both(int *a, const int *b, int n)
{
	check_pointer(a, "both");
	check_pointer(b, "both");
	for (int i = 0; a != nullptr && b != nullptr && i < n; i++)
		a[i] = a[i] * 3 + b[i];
}

void tick(int) {}
void throw_if(int x)
{
	if (x)
		throw x;
}

extern "C" {
cudaError_t __real_cudaMalloc(void **, size_t);
cudaError_t __real_cudaFree(void *);
cudaError_t __real_cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
int __real_case_static_malloc(case_static *, case_malloc *, void **, size_t);
int __real_case_task_ask(const case_need *, case_task *);
int __real_case_task_free(case_task *);

cudaError_t __wrap_cudaMalloc(void **p, size_t bytes)
{
	const cudaError_t error = __real_cudaMalloc(p, bytes);
	const int device = thread_device();
	std::lock_guard<std::mutex> locked(watching);
	if (error == cudaSuccess)
		memory[static_cast<char *>(*p)] = {bytes, device, false};
	return error;
}

cudaError_t __wrap_cudaFree(void *p)
{
	const cudaError_t error = __real_cudaFree(p); // waits for the kernels that use it
	std::lock_guard<std::mutex> locked(watching);
	memory.erase(static_cast<char *>(p));
	return error;
}

cudaError_t __wrap_cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **values, size_t shared, cudaStream_t stream)
{
	check_launch();
	return __real_cudaLaunchKernel(stub, grid, block, values, shared, stream);
}

int __wrap_case_static_malloc(case_static *task, case_malloc *allocate, void **p, size_t bytes)
{
	const int error = __real_case_static_malloc(task, allocate, p, bytes);
	std::lock_guard<std::mutex> locked(watching);
	if (error == 0)
		memory[static_cast<char *>(*p)].compiled = true;
	return error;
}

int __wrap_case_task_ask(const case_need *need, case_task *task)
{
	const int result = __real_case_task_ask(need, task);
	if (result == CASE_OK && task->device >= 0) {
		tasks[task->id] = {need->bytes, task->device};
		granted++;
	}
	return result;
}

int __wrap_case_task_free(case_task *task)
{
	tasks.erase(task->id);
	return __real_case_task_free(task);
}
}

int main(int argc, char **argv)
{
	static int host[HOST], sizes[16];
	unsigned idle = 0;

	for (int i = 1; i < argc; i++) {
		const named *p = programs;
		while (p->run != nullptr && p->seed != atoi(argv[i]))
			p++;
		for (int x = 0; p->run != nullptr && x < 5; x++) {
			unsigned long sum = 14695981039346656037ul;
			int result;
			for (int n = 0; n < HOST; n++)
				host[n] = n * 31 % 100;
			for (int n = 0; n < 16; n++)
				sizes[n] = 20 + n * 13 % 90 + x;
			const size_t open = tasks.size();
			try {
				result = p->run(x, host, sizes, &sum);
			} catch (int thrown) {
				result = 1000 + thrown;
			}
			uint64_t used = 0;
			for (auto &[_, a] : memory)
				used += a.compiled ? a.bytes : 0;
			if (used == 0)
				idle += tasks.size() - open;
			if (thread_device() != 0)
				fprintf(stderr, "VIOLATION: the thread is left on device %d\n", thread_device());
			printf("%d(%d): %d %016lx\n", p->seed, x, result, sum);
			fflush(stdout);
		}
	}
	cudaDeviceSynchronize();
	fprintf(stderr, "tasks: %u granted, %u idle\n", granted, idle);
	return 0;
}
