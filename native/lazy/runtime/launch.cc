// launch.cc: kernel launches, where the task binds.
#include <vector>

#include "abi/api.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/handles.h"
#include "launch/local_memory.h"
#include "launch/occupancy.h"
#include "launch/references.h"
#include "launch/stoppable.h"
#include "launch/submit_window.h"
#include "launch/work.h"
#include "program/mode.h"
#include "task/direct.h"
#include "task/explicit.h"
#include "task/managed.h"
#include "task/report.h"
#include "task/shortage.h"
#include "task/stop.h"
#include "task/task.h"

namespace lazy {
namespace {

// own_default tells the variant of a call for the per-thread default stream by its name.
template <size_t N> constexpr bool own_default(const char (&name)[N]) { return N > 6 && name[N - 6] == '_' && name[N - 5] == 'p'; }

// await_task is what a launch needs first: the process's task, and the rest of what is in use where the program asks for
// tasks or chooses devices itself.
cudaError_t await_task(const void *kernel, uint64_t blocks, uint32_t threads, size_t shared)
{
	if (await_or_defer()) {
		Locked locked;
		cudaError_t error = Task::process().await_bound({blocks, threads, blocks_per_sm(kernel, threads, shared)});
		if (error != cudaSuccess)
			return error;
	}
	use_device();
	if (mode() == Mode::pinned || has_explicit())
		if (cudaError_t error = Task::here().await_launch(); error != cudaSuccess)
			return fail(error);
	return cudaSuccess;
}

// Whether nothing but the kernel, its shape, arguments and stream make the launch, so that it can be made again.
enum class How { plainly, otherwise };

// own: the call's default stream is the thread's own.
template <typename Run>
cudaError_t launch(const char *call, How how, bool own, const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                   cudaStream_t stream, Run run)
{
	const uint64_t blocks = product(grid);
	const uint32_t threads = static_cast<uint32_t>(product(block));
	const auto task = [=] { return await_task(kernel, blocks, threads, shared); };

	if (gone(stream))
		return launch_result(fail(cudaErrorInvalidResourceHandle), call);
	await_window(real(stream), own);
	await_references(kernel, arguments);
	if (cudaError_t error = await_local_memory(call, kernel, task); error != cudaSuccess)
		return error;
	cudaError_t error = await_managed_variables(task);
	if (error != cudaSuccess)
		return error;
	UnseenShortage shortage(call);
	do {
		const Submitting submitting(true);
		if (error = task(); error != cudaSuccess)
			return error;
		const bool may_stop = how == How::plainly && begin_launch(kernel, grid, block, arguments, shared, real(stream), own);
		error = run();
		if (may_stop)
			launched_stoppable(error == cudaSuccess);
		if (error == cudaSuccess) {
			if (own || (stream != nullptr && stream != legacy_stream))
				other_streams();
			launched(kernel, blocks, threads, shared);
			return cudaSuccess;
		}
	} while (shortage.await_again(error));
	return shortage.refused() != cudaSuccess ? shortage.refused() : launch_result(error, call);
}

// Attributes are a launch's attributes as CUDA is to read them. Where they name a virtual event
// they are a copy with the real event. What CUDA writes to them reaches the program.
class Attributes {
public:
	Attributes(cudaLaunchAttribute *attributes, unsigned count) : given(attributes), all(attributes)
	{
		for (unsigned i = 0; given != nullptr && i < count; i++) {
			const cudaEvent_t event = given[i].val.launchCompletionEvent.event;
			if (!names_event(given[i].id) || !is_virtual(event))
				continue;
			if (copy.empty())
				copy.assign(given, given + count);
			copy[i].val.launchCompletionEvent.event = real(event);
			all = copy.data();
		}
	}
	~Attributes()
	{
		for (size_t i = 0; i < copy.size(); i++)
			if (copy[i].id == cudaLaunchAttributeDeviceUpdatableKernelNode)
				given[i].val = copy[i].val;
	}
	Attributes(const Attributes &) = delete;
	Attributes &operator=(const Attributes &) = delete;
	cudaLaunchAttribute *get() const { return all; }

private:
	cudaLaunchAttribute *given, *all;
	std::vector<cudaLaunchAttribute> copy;
};

} // namespace
} // namespace lazy

using namespace lazy;

#define LAUNCH(name, how, Kernel)                                                                                           \
	cudaError_t name(Kernel kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)   \
	{                                                                                                              \
		return launch(#name, How::how, own_default(#name), kernel, grid, block, arguments, shared, stream, [=] {                                        \
			return REAL(name)(kernel, grid, block, arguments, shared, real(stream));                       \
		});                                                                                                    \
	}
LAUNCH(cudaLaunchKernel, plainly, const void *)
LAUNCH(cudaLaunchKernel_ptsz, plainly, const void *)
LAUNCH(__cudaLaunchKernel, plainly, cudaKernel_t) // what programs built by nvcc 13 call
LAUNCH(__cudaLaunchKernel_ptsz, plainly, cudaKernel_t)
LAUNCH(cudaLaunchCooperativeKernel, otherwise, const void *)
LAUNCH(cudaLaunchCooperativeKernel_ptsz, otherwise, const void *)

#define LAUNCH_EX(name)                                                                                                \
	cudaError_t name(const cudaLaunchConfig_t *config, const void *kernel, void **arguments)                       \
	{                                                                                                              \
		if (config == nullptr)                                                                                 \
			return fail(cudaErrorInvalidValue);                                                            \
		cudaLaunchConfig_t c = *config;                                                                        \
		return launch(#name, c.numAttrs == 0 ? How::plainly : How::otherwise, own_default(#name), kernel, c.gridDim, c.blockDim, arguments, c.dynamicSmemBytes, c.stream, [&] {                \
			const Attributes attributes(c.attrs, c.numAttrs);                                              \
			c.stream = real(c.stream);                                                                     \
			c.attrs = attributes.get();                                                                    \
			return REAL(name)(&c, kernel, arguments);                                                      \
		});                                                                                                    \
	}
LAUNCH_EX(cudaLaunchKernelExC)
LAUNCH_EX(cudaLaunchKernelExC_ptsz)

// Questions about a launch: the context in question is the stream's.
#define ABOUT_LAUNCH(name)                                                                                             \
	cudaError_t name(int *answer, const void *kernel, const cudaLaunchConfig_t *config)                            \
	{                                                                                                              \
		return direct(#name, [=] {                                                                             \
			if (config == nullptr)                                                                         \
				return REAL(name)(answer, kernel, config);                                             \
			const Attributes attributes(config->attrs, config->numAttrs);                                  \
			cudaLaunchConfig_t c = *config;                                                                \
			c.stream = real(config->stream);                                                               \
			c.attrs = attributes.get();                                                                    \
			return REAL(name)(answer, kernel, &c);                                                         \
		});                                                                                                    \
	}
ABOUT_LAUNCH(cudaOccupancyMaxActiveClusters)
ABOUT_LAUNCH(cudaOccupancyMaxPotentialClusterSize)

// A program under task binding sees one device, so a list has one launch.
cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *list, unsigned count, unsigned flags)
{
	if (list == nullptr || count == 0)
		return fail(cudaErrorInvalidValue);
	const cudaLaunchParams &first = *list;
	return launch("cudaLaunchCooperativeKernelMultiDevice", How::otherwise, false, first.func, first.gridDim, first.blockDim, first.args,
	              first.sharedMem, first.stream, [=] {
		              std::vector<cudaLaunchParams> there(list, list + count);
		              for (cudaLaunchParams &l : there)
			              l.stream = real(l.stream);
		              return REAL(cudaLaunchCooperativeKernelMultiDevice)(there.data(), count, flags);
	              });
}
