// api.h: prototypes of the CUDA runtime's functions that this library
// overrides (CUDA Runtime API, version 13; those of 11.8 and 12 have the same
// ABI). Functions whose meaning differs between versions are not here: they are
// forwarded by register (runtime/forward.cc).
#ifndef CASE_LAZY_API_H
#define CASE_LAZY_API_H

#include "symbols.h"

// Overridden with the same parameters as their namesakes for the per-thread
// default stream: X_ptds for synchronous calls, X_ptsz for the others.
#define WITH_PTDS(name, ...)                  \
	CASE_API cudaError_t name(__VA_ARGS__); \
	CASE_API cudaError_t name##_ptds(__VA_ARGS__)
#define WITH_PTSZ(name, ...)                  \
	CASE_API cudaError_t name(__VA_ARGS__); \
	CASE_API cudaError_t name##_ptsz(__VA_ARGS__)

CASE_API cudaError_t cudaMalloc(void **memory, size_t bytes);
CASE_API cudaError_t cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height);
CASE_API cudaError_t cudaMalloc3D(cudaPitchedPtr *memory, cudaExtent extent);
CASE_API cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags);
CASE_API cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *format, size_t width, size_t height,
                                     unsigned flags);
CASE_API cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *format, cudaExtent extent,
                                       unsigned flags);
CASE_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *format,
                                              cudaExtent extent, unsigned levels, unsigned flags);
WITH_PTSZ(cudaMallocAsync, void **memory, size_t bytes, cudaStream_t stream);
WITH_PTSZ(cudaMallocFromPoolAsync, void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
CASE_API cudaError_t cudaFree(void *memory);
WITH_PTSZ(cudaFreeAsync, void *memory, cudaStream_t stream);
CASE_API cudaError_t cudaFreeArray(cudaArray_t array);
CASE_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array);
CASE_API cudaError_t cudaMallocHost(void **memory, size_t bytes);
CASE_API cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
CASE_API cudaError_t cudaFreeHost(void *memory);
CASE_API cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
CASE_API cudaError_t cudaHostUnregister(void *memory);
CASE_API cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
CASE_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory);
CASE_API cudaError_t cudaMemRangeGetAttribute(void *data, size_t bytes, int attribute, const void *range, size_t length);
CASE_API cudaError_t cudaMemRangeGetAttributes(void **data, size_t *bytes, int *attributes, size_t count,
                                               const void *range, size_t length);

WITH_PTDS(cudaMemcpy, void *to, const void *from, size_t bytes, int kind);
WITH_PTSZ(cudaMemcpyAsync, void *to, const void *from, size_t bytes, int kind, cudaStream_t stream);
WITH_PTDS(cudaMemcpy2D, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
          int kind);
WITH_PTSZ(cudaMemcpy2DAsync, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
          size_t height, int kind, cudaStream_t stream);
CASE_API cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes);
CASE_API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                         cudaStream_t stream);
WITH_PTDS(cudaMemcpy3D, const cudaMemcpy3DParms *copy);
WITH_PTSZ(cudaMemcpy3DAsync, const cudaMemcpy3DParms *copy, cudaStream_t stream);
WITH_PTDS(cudaMemcpy3DPeer, const cudaMemcpy3DPeerParms *copy);
WITH_PTSZ(cudaMemcpy3DPeerAsync, const cudaMemcpy3DPeerParms *copy, cudaStream_t stream);
WITH_PTDS(cudaMemcpyToSymbol, const void *symbol, const void *from, size_t bytes, size_t offset, int kind);
WITH_PTSZ(cudaMemcpyToSymbolAsync, const void *symbol, const void *from, size_t bytes, size_t offset, int kind,
          cudaStream_t stream);
WITH_PTDS(cudaMemcpyFromSymbol, void *to, const void *symbol, size_t bytes, size_t offset, int kind);
WITH_PTSZ(cudaMemcpyFromSymbolAsync, void *to, const void *symbol, size_t bytes, size_t offset, int kind,
          cudaStream_t stream);
WITH_PTDS(cudaMemset, void *to, int value, size_t bytes);
WITH_PTSZ(cudaMemsetAsync, void *to, int value, size_t bytes, cudaStream_t stream);
WITH_PTDS(cudaMemset2D, void *to, size_t pitch, int value, size_t width, size_t height);
WITH_PTSZ(cudaMemset2DAsync, void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream);
WITH_PTDS(cudaMemset3D, cudaPitchedPtr to, int value, cudaExtent box);
WITH_PTSZ(cudaMemset3DAsync, cudaPitchedPtr to, int value, cudaExtent box, cudaStream_t stream);
WITH_PTDS(cudaMemcpy2DToArray, cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
          size_t height, int kind);
WITH_PTDS(cudaMemcpy2DFromArray, void *to, size_t pitch, cudaArray_t from, size_t x, size_t y, size_t width,
          size_t height, int kind);
WITH_PTDS(cudaMemcpyToArray, cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, int kind);
WITH_PTDS(cudaMemcpyFromArray, void *to, cudaArray_t from, size_t x, size_t y, size_t bytes, int kind);
WITH_PTSZ(cudaMemcpy2DToArrayAsync, cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
          size_t height, int kind, cudaStream_t stream);
WITH_PTSZ(cudaMemcpy2DFromArrayAsync, void *to, size_t pitch, cudaArray_t from, size_t x, size_t y, size_t width,
          size_t height, int kind, cudaStream_t stream);
WITH_PTSZ(cudaMemcpyToArrayAsync, cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes, int kind,
          cudaStream_t stream);
WITH_PTSZ(cudaMemcpyFromArrayAsync, void *to, cudaArray_t from, size_t x, size_t y, size_t bytes, int kind,
          cudaStream_t stream);

WITH_PTSZ(cudaLaunchKernel, const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
          cudaStream_t stream);
WITH_PTSZ(__cudaLaunchKernel, cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
          cudaStream_t stream);
WITH_PTSZ(cudaLaunchCooperativeKernel, const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
          cudaStream_t stream);
WITH_PTSZ(cudaLaunchKernelExC, const cudaLaunchConfig_t *config, const void *kernel, void **arguments);
CASE_API cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *kernel, const cudaLaunchConfig_t *config);
CASE_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *kernel,
                                                          const cudaLaunchConfig_t *config);
CASE_API cudaError_t cudaLaunchCooperativeKernelMultiDevice(cudaLaunchParams *list, unsigned count, unsigned flags);
CASE_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                            size_t count, const cudaKernelNodeParams *params);
CASE_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                              size_t count, cudaMemAllocNodeParams *params);
CASE_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                             size_t count, void *memory);
CASE_API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                         const void *edges, size_t count, cudaGraphNodeParams *params);
CASE_API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *params);
CASE_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                cudaGraphNodeParams *params);
CASE_API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, int id,
                                                     const cudaLaunchAttributeValue *value);
WITH_PTSZ(cudaGraphLaunch, cudaGraphExec_t executable, cudaStream_t stream);
WITH_PTSZ(cudaGraphInstantiateWithParams, cudaGraphExec_t *executable, cudaGraph_t graph,
          cudaGraphInstantiateParams *params);

CASE_API cudaError_t cudaStreamCreate(cudaStream_t *stream);
CASE_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
CASE_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
CASE_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
WITH_PTSZ(cudaStreamSynchronize, cudaStream_t stream);
WITH_PTSZ(cudaStreamQuery, cudaStream_t stream);
WITH_PTSZ(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event, unsigned flags);
WITH_PTSZ(cudaStreamAddCallback, cudaStream_t stream, void (*callback)(cudaStream_t, cudaError_t, void *), void *data,
          unsigned flags);
CASE_API cudaError_t cudaEventCreate(cudaEvent_t *event);
CASE_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
CASE_API cudaError_t cudaEventDestroy(cudaEvent_t event);
WITH_PTSZ(cudaEventRecord, cudaEvent_t event, cudaStream_t stream);
WITH_PTSZ(cudaEventRecordWithFlags, cudaEvent_t event, cudaStream_t stream, unsigned flags);
CASE_API cudaError_t cudaEventQuery(cudaEvent_t event);
CASE_API cudaError_t cudaEventSynchronize(cudaEvent_t event);
CASE_API cudaError_t cudaDeviceSynchronize(void);
CASE_API cudaError_t cudaThreadSynchronize(void);

CASE_API cudaError_t cudaGetDeviceCount(int *count);
CASE_API cudaError_t cudaSetDevice(int device);
CASE_API cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags);
CASE_API cudaError_t cudaGetDevice(int *device);
CASE_API cudaError_t cudaSetValidDevices(int *devices, int count);
CASE_API cudaError_t cudaChooseDevice(int *device, const void *properties);
CASE_API cudaError_t cudaGetDeviceProperties(void *properties, int device);
CASE_API cudaError_t cudaGetDeviceProperties_v2(void *properties, int device);
CASE_API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
CASE_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);
CASE_API cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device);
CASE_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
CASE_API cudaError_t cudaSetDeviceFlags(unsigned flags);
CASE_API cudaError_t cudaDeviceSetLimit(int limit, size_t value);
CASE_API cudaError_t cudaThreadSetLimit(int limit, size_t value);
CASE_API cudaError_t cudaDeviceReset(void);
CASE_API cudaError_t cudaThreadExit(void);
CASE_API cudaError_t cudaDeviceSetCacheConfig(int config);
CASE_API cudaError_t cudaThreadSetCacheConfig(int config);
CASE_API cudaError_t cudaFuncSetCacheConfig(const void *kernel, int config);
CASE_API cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value);
CASE_API cudaError_t cudaGetLastError(void);
CASE_API cudaError_t cudaPeekAtLastError(void);
CASE_API cudaError_t cudaProfilerStart(void);
CASE_API cudaError_t cudaProfilerStop(void);

// These are forwarded (runtime/forward.def), and called from here.
extern "C" cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
extern "C" cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *format, cudaExtent *extent, unsigned *flags,
                                        cudaArray_t array);
extern "C" cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, int *status);

#endif
