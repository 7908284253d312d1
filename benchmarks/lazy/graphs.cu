/* Two graphs: one captured from streams and launched as the first work of the
 * process, and one built node by node. */
#include "common.h"

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
	cudaGraphExec_t exec;

#if CUDART_VERSION >= 12000
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
#else
	CUDA(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
#endif
	return exec;
}

static void captured(digest *sum)
{
	const size_t n = 1 << 18, bytes = n * sizeof(uint32_t);
	uint32_t *host, *a = device_alloc<uint32_t>(n), *b = device_alloc<uint32_t>(n);
	cudaStream_t stream, side;
	cudaEvent_t fork, join;
	cudaGraph_t graph;

	CUDA(cudaMallocHost((void **)&host, 2 * bytes));
	for (size_t i = 0; i < n; i++)
		host[i] = (uint32_t)mix(i);
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CUDA(cudaMemset(b, 1, bytes));
	CUDA(cudaDeviceSynchronize()); /* the streams below do not wait for the default one */

	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	CUDA(cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice, stream));
	CUDA(cudaEventRecord(fork, stream));
	CUDA(cudaStreamWaitEvent(side, fork, 0));
	affine<uint32_t><<<blocks_for(n), BLOCK, 0, stream>>>(a, n, 3, 1);
	affine<uint32_t><<<blocks_for(n), BLOCK, 0, side>>>(b, n, 5, 2);
	CUDA(cudaEventRecord(join, side));
	CUDA(cudaStreamWaitEvent(stream, join, 0));
	CUDA(cudaMemcpyAsync(host + n, b, bytes, cudaMemcpyDeviceToHost, stream));
	CUDA(cudaMemcpyAsync(host, a, bytes, cudaMemcpyDeviceToHost, stream));
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA_LAUNCHED();
	cudaGraphExec_t exec = instantiate(graph);
	for (int round = 0; round < 3; round++) {
		CUDA(cudaGraphLaunch(exec, stream));
		CUDA(cudaStreamSynchronize(stream));
		sum->add(host, 2 * bytes);
	}
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaEventDestroy(fork));
	CUDA(cudaEventDestroy(join));
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaStreamDestroy(side));
	CUDA(cudaFreeHost(host));
	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
}

static void explicit_nodes(digest *sum)
{
	size_t n = 1 << 16;
	uint32_t *x = device_alloc<uint32_t>(n), a = 7, b = 3;
	std::vector<uint32_t> host(n);
	cudaGraph_t graph;
	cudaGraphNode_t clear, launch, copy;
	cudaMemsetParams fill = {};
	cudaKernelNodeParams kernel = {};
	void *arguments[] = {&x, &n, &a, &b};

	CUDA(cudaGraphCreate(&graph, 0));
	fill.dst = x;
	fill.value = 0x01020304;
	fill.elementSize = sizeof *x;
	fill.width = n;
	fill.height = 1;
	CUDA(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill));
	kernel.func = (void *)affine<uint32_t>;
	kernel.gridDim = dim3(blocks_for(n));
	kernel.blockDim = dim3(BLOCK);
	kernel.kernelParams = arguments;
	CUDA(cudaGraphAddKernelNode(&launch, graph, &clear, 1, &kernel));
	CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, &launch, 1, host.data(), x, n * sizeof *x,
	                              cudaMemcpyDeviceToHost));
	cudaGraphExec_t exec = instantiate(graph);
	CUDA(cudaGraphLaunch(exec, 0));
	CUDA(cudaDeviceSynchronize());
	sum->add(host);
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaFree(x));
}

int main()
{
	digest sum;

	captured(&sum);
	explicit_nodes(&sum);
	sum.print();
	return 0;
}
