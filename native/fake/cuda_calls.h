// cuda_calls.h: the declarations that a program would have from CUDA's headers,
// for test programs built without them.
#ifndef FAKE_CUDA_CALLS_H
#define FAKE_CUDA_CALLS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_cuda.h"
#include "fake_kernel.h"

extern "C" {
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaSetDeviceFlags(unsigned);
cudaError_t cudaInitDevice(int, unsigned, unsigned);
cudaError_t cudaGetDeviceProperties(void *, int);
cudaError_t cudaDeviceGetAttribute(int *, int, int);
cudaError_t cudaDeviceGetPCIBusId(char *, int, int);
cudaError_t cudaDeviceCanAccessPeer(int *, int, int);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceSetLimit(int, size_t);
cudaError_t cudaDeviceGetLimit(size_t *, int);
cudaError_t cudaDeviceSetCacheConfig(int);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaMallocPitch(void **, size_t *, size_t, size_t);
cudaError_t cudaMalloc3D(cudaPitchedPtr *, cudaExtent);
cudaError_t cudaMallocArray(cudaArray_t *, const cudaChannelFormatDesc *, size_t, size_t, unsigned);
cudaError_t cudaMallocManaged(void **, size_t, unsigned);
cudaError_t cudaMallocHost(void **, size_t);
cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t);
cudaError_t cudaFree(void *);
cudaError_t cudaFreeArray(cudaArray_t);
cudaError_t cudaArrayGetMemoryRequirements(void *, cudaArray_t, int);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *, const cudaMemPoolProps *);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, int, void *);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, int, void *);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int);
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t);
cudaError_t cudaFreeAsync(void *, cudaStream_t);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaHostGetDevicePointer(void **, void *, unsigned);
cudaError_t cudaHostRegister(void *, size_t, unsigned);
cudaError_t cudaHostUnregister(void *);
cudaError_t cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *, const void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, int);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int, cudaStream_t);
cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, cudaStream_t);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *);
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *, cudaStream_t);
cudaError_t cudaMemcpyPeer(void *, int, const void *, int, size_t);
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *);
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *, cudaStream_t);
#if FAKE_NVCC == 13
cudaError_t cudaMemAdvise(const void *, size_t, int, CUmemLocation);
cudaError_t cudaMemPrefetchAsync(const void *, size_t, CUmemLocation, unsigned, cudaStream_t);
cudaError_t cudaMemPrefetchBatchAsync(void **, size_t *, size_t, CUmemLocation *, size_t *, size_t, unsigned long long,
                                      cudaStream_t);
cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **, size_t *, size_t, CUmemLocation *, size_t *, size_t,
                                                unsigned long long, cudaStream_t);
cudaError_t cudaMemDiscardBatchAsync(void **, size_t *, size_t, unsigned long long, cudaStream_t);
cudaError_t cudaMemcpyBatchAsync(const void **, const void **, const size_t *, size_t, cudaMemcpyAttributes *, size_t *,
                                 size_t, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync(size_t, cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t);
cudaError_t cudaMemcpyWithAttributesAsync(void *, const void *, size_t, cudaMemcpyAttributes *, cudaStream_t);
cudaError_t cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp *, unsigned long long, cudaStream_t);
cudaError_t cudaDeviceGetDevResource(int, void *, int);
cudaError_t cudaDevResourceGenerateDesc(void **, void *, unsigned);
cudaError_t cudaGreenCtxCreate(void **, void *, int, unsigned);
cudaError_t cudaDeviceGetExecutionCtx(void **, int);
cudaError_t cudaExecutionCtxGetDevice(int *, void *);
cudaError_t cudaExecutionCtxStreamCreate(cudaStream_t *, void *, unsigned, int);
cudaError_t cudaExecutionCtxRecordEvent(void *, cudaEvent_t);
cudaError_t cudaExecutionCtxSynchronize(void *);
cudaError_t cudaExecutionCtxDestroy(void *);
cudaError_t cudaGraphNodeGetParams(cudaGraphNode_t, cudaGraphNodeParams *);
#else
cudaError_t cudaMemcpyBatchAsync(const void **, const void **, const size_t *, size_t, cudaMemcpyAttributes *, size_t *,
                                 size_t, size_t *, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync(size_t, cudaMemcpy3DBatchOp *, size_t *, unsigned long long, cudaStream_t);
cudaError_t cudaMemAdvise(const void *, size_t, int, int);
cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t);
#endif
cudaError_t cudaMemRangeGetAttribute(void *, size_t, int, const void *, size_t);
cudaError_t cudaMemRangeGetAttributes(void **, size_t *, int *, size_t, const void *, size_t);
cudaError_t cudaMemset3D(cudaPitchedPtr, int, cudaExtent);
cudaError_t cudaMemset3DAsync(cudaPitchedPtr, int, cudaExtent, cudaStream_t);
cudaError_t cudaMemcpy2DToArray(cudaArray_t, size_t, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemcpy2DFromArray(void *, size_t, cudaArray_t, size_t, size_t, size_t, size_t, int);
cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
cudaError_t cudaGetSymbolAddress(void **, const void *);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaMemset2D(void *, size_t, int, size_t, size_t);
cudaError_t cudaMemset2DAsync(void *, size_t, int, size_t, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **);
cudaError_t cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *, unsigned, unsigned);
cudaError_t cudaFuncGetAttributes(void *, const void *);
cudaError_t cudaFuncSetAttribute(const void *, int, int);
cudaError_t cudaFuncSetCacheConfig(const void *, int);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
cudaError_t cudaOccupancyMaxActiveClusters(int *, const void *, const cudaLaunchConfig_t *);
cudaError_t cudaStreamCreate(cudaStream_t *);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaStreamBeginCapture(cudaStream_t, int);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *);
cudaError_t cudaGraphInstantiate(void **, cudaGraph_t, unsigned long long, void *, size_t);
cudaError_t cudaGraphLaunch(void *, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(void *);
cudaError_t cudaGraphCreate(cudaGraph_t *, unsigned);
cudaError_t cudaGraphInstantiateWithParams(void **, cudaGraph_t, cudaGraphInstantiateParams *);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                   const cudaKernelNodeParams *);
cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
                                     cudaMemAllocNodeParams *);
cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *);
#if FAKE_NVCC == 13
cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const void *, size_t,
                             cudaGraphNodeParams *);
#else
cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraphNodeParams *);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const void *, size_t,
                                cudaGraphNodeParams *);
#endif
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t, cudaMemAllocNodeParams *);
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t, cudaGraphNodeParams *);
cudaError_t cudaGraphExecNodeSetParams(void *, cudaGraphNode_t, cudaGraphNodeParams *);
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t, int, const cudaLaunchAttributeValue *);
cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*)(void *), void *);
cudaError_t cudaStreamAddCallback(cudaStream_t, void (*)(cudaStream_t, cudaError_t, void *), void *, unsigned);
cudaError_t cudaCreateTextureObject(unsigned long long *, const void *, const void *, const void *);
cudaError_t cudaDestroyTextureObject(unsigned long long);
cudaError_t cudaEventCreate(cudaEvent_t *);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
}

// load is dlopen. A program that is linked with that makes no streams before it has a device.
inline void *load(const char *library, int how)
{
	return reinterpret_cast<void *(*)(const char *, int)>(dlsym(RTLD_DEFAULT, "dlopen"))(library, how);
}

// driver_call finds a function of libcuda.so.1. The library's name is put
// together here, because a program that has it in its file binds early.
template <class F> F *driver_call(const char *name)
{
	char driver[] = "libcuda_so_1";
	driver[7] = driver[10] = '.';
	void *library = load(driver, RTLD_NOW);
	void *found = library != nullptr ? dlsym(library, name) : nullptr;

	if (found == nullptr) {
		fprintf(stderr, "%s has no %s: %s\n", driver, name, dlerror());
		abort();
	}
	return reinterpret_cast<F *>(found);
}

inline fake_cuda_state fake_state()
{
	fake_cuda_state state;
	driver_call<decltype(fake_cuda_read)>("fake_cuda_read")(&state);
	return state;
}

inline void meanwhile(const char *call, fake_cuda_moment moment, void (*what)())
{
	driver_call<decltype(fake_cuda_meanwhile)>("fake_cuda_meanwhile")(call, moment, what);
}

inline void skip_launches() { driver_call<decltype(fake_cuda_skip_launches)>("fake_cuda_skip_launches")(); }
#endif
