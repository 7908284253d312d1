/* Streams and events that exist before the first allocation, waits across
 * streams, asynchronous copies from pinned memory, host callbacks. */
#include "common.h"

static __global__ void combine(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t n)
{
	const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = a[i] * 31 + b[i];
}

static void append(void *text)
{
	uint32_t *calls = static_cast<uint32_t *>(text);
	*calls = *calls * 10 + 1;
}

static void CUDART_CB on_stream(cudaStream_t, cudaError_t status, void *text)
{
	uint32_t *calls = static_cast<uint32_t *>(text);
	*calls = *calls * 10 + (status == cudaSuccess ? 2 : 9);
}

int main()
{
	const size_t n = 1 << 20, bytes = n * sizeof(uint32_t);
	cudaStream_t left, right, urgent;
	cudaEvent_t start, left_done, right_done, end;
	int least, greatest;

	CUDA(cudaStreamCreate(&left));
	CUDA(cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking));
	CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	CUDA(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
	CUDA(cudaEventCreate(&start));
	CUDA(cudaEventCreateWithFlags(&left_done, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&right_done, cudaEventDisableTiming | cudaEventBlockingSync));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaEventRecord(start, left));

	uint32_t *host_a, *host_b, *host_out;
	CUDA(cudaMallocHost((void **)&host_a, bytes));
	CUDA(cudaMallocHost((void **)&host_b, bytes));
	CUDA(cudaMallocHost((void **)&host_out, bytes));
	uint32_t *a = device_alloc<uint32_t>(n), *b = device_alloc<uint32_t>(n), *out = device_alloc<uint32_t>(n);
	uint32_t calls = 0;
	digest sum;

	for (uint32_t round = 0; round < 4; round++) {
		for (size_t i = 0; i < n; i++) {
			host_a[i] = (uint32_t)mix(round << 24 ^ i);
			host_b[i] = (uint32_t)mix(~(uint64_t)(round << 24 ^ i));
		}
		CUDA(cudaMemcpyAsync(a, host_a, bytes, cudaMemcpyHostToDevice, left));
		CUDA(cudaMemcpyAsync(b, host_b, bytes, cudaMemcpyHostToDevice, right));
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, left>>>(a, n, 3, round);
		CUDA_LAUNCHED();
		affine<uint32_t><<<blocks_for(n), BLOCK, 0, right>>>(b, n, 5, round);
		CUDA_LAUNCHED();
		CUDA(cudaEventRecord(left_done, left));
		CUDA(cudaEventRecord(right_done, right));
		CUDA(cudaStreamWaitEvent(urgent, left_done, 0));
		CUDA(cudaStreamWaitEvent(urgent, right_done, 0));
		combine<<<blocks_for(n), BLOCK, 0, urgent>>>(out, a, b, n);
		CUDA_LAUNCHED();
		CUDA(cudaMemcpyAsync(host_out, out, bytes, cudaMemcpyDeviceToHost, urgent));
		CUDA(cudaLaunchHostFunc(urgent, append, &calls));
		CUDA(cudaStreamAddCallback(urgent, on_stream, &calls, 0));
		CUDA(cudaStreamSynchronize(urgent));
		CUDA(cudaStreamQuery(urgent));
		sum.add(host_out, bytes);
	}
	expect(calls == 12121212, "callbacks ran in order");
	CUDA(cudaEventRecord(end, left));
	CUDA(cudaEventSynchronize(end));
	CUDA(cudaEventQuery(end));
	float elapsed_ms = -1;
	CUDA(cudaEventElapsedTime(&elapsed_ms, start, end));
	expect(elapsed_ms >= 0, "time between events");

	CUDA(cudaFree(a));
	CUDA(cudaFree(b));
	CUDA(cudaFree(out));
	CUDA(cudaFreeHost(host_a));
	CUDA(cudaFreeHost(host_b));
	CUDA(cudaFreeHost(host_out));
	CUDA(cudaStreamDestroy(left));
	CUDA(cudaStreamDestroy(right));
	CUDA(cudaStreamDestroy(urgent));
	CUDA(cudaEventDestroy(start));
	CUDA(cudaEventDestroy(left_done));
	CUDA(cudaEventDestroy(right_done));
	CUDA(cudaEventDestroy(end));
	sum.print();
	return 0;
}
