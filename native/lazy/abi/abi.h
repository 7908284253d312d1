/* abi.h: the part of CUDA's binary interface that the lazy runtime uses: types,
 * layouts and numbers of the runtime API (libcudart 11.8 to 13) and of the
 * driver API (libcuda), from NVIDIA's reference manuals "CUDA Runtime API" and
 * "CUDA Driver API". The library is built without CUDA's headers, so that it
 * serves programs of every version, and so does its fake (../fake).
 *
 * Enumerations are ints, and handles are opaque pointers, as in the ABI.
 */
#ifndef CASE_LAZY_ABI_H
#define CASE_LAZY_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct cudaArray *cudaArray_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

typedef struct FatWrapper { /* what nvcc's start-up code passes (fatbinary_section.h) */
	int magic, version;
	const unsigned char *data;
	void *unused;
} FatWrapper;

enum {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorInvalidSymbol = 13,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorDevicesUnavailable = 46,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorECCUncorrectable = 214,
	cudaErrorContained = 226, /* 12.8 */
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorNotReady = 600,
	cudaErrorNotPermitted = 800,
	cudaErrorIllegalAddress = 700,
	cudaErrorLaunchOutOfResources = 701,
	cudaErrorLaunchTimeout = 702,
	cudaErrorContextIsDestroyed = 709,
	cudaErrorAssert = 710,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorHardwareStackError = 714,
	cudaErrorIllegalInstruction = 715,
	cudaErrorMisalignedAddress = 716,
	cudaErrorInvalidAddressSpace = 717,
	cudaErrorInvalidPc = 718,
	cudaErrorLaunchFailure = 719,
	cudaErrorTensorMemoryLeak = 721, /* 12.8 */
	cudaErrorNotSupported = 801,
	cudaErrorMpsServerNotReady = 807,
	cudaErrorMpsClientTerminated = 810,
	cudaErrorExternalDevice = 911,
	cudaErrorUnknown = 999
};

enum { /* cudaMemcpyKind */
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4
};

enum { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2, cudaMemoryTypeManaged = 3 };
enum { cudaStreamCaptureStatusNone = 0 };
enum { cudaLimitStackSize = 0, cudaLimitPrintfFifoSize = 1, cudaLimitMallocHeapSize = 2 };
enum { cudaInitDeviceFlagsAreValid = 1 }; /* 12.0 */
enum { cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum {
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrMaxThreadsPerMultiProcessor = 39,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
	cudaDevAttrMaxRegistersPerMultiprocessor = 82,
	cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
	cudaDevAttrMaxBlocksPerMultiprocessor = 106,
	cudaDevAttrReservedSharedMemoryPerBlock = 111
};

typedef struct dim3 {
	unsigned int x, y, z;
} dim3;

typedef struct cudaExtent {
	size_t width, height, depth;
} cudaExtent;

typedef struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
} cudaPitchedPtr;

typedef struct cudaChannelFormatDesc {
	int x, y, z, w, f; /* bits of each component; f: kind */
} cudaChannelFormatDesc;

/* Layouts and numbers of the structures below: driver_types.h of CUDA 11.8, and
 * of 12.2, 12.3, 12.6, 12.8, 13.0, 13.1 and 13.3 for what came later. */

enum { /* cudaLaunchAttributeID: the value of the first two begins with an event */
	cudaLaunchAttributeProgrammaticEvent = 7,
	cudaLaunchAttributeLaunchCompletionEvent = 12, /* 12.3 */
	cudaLaunchAttributeDeviceUpdatableKernelNode = 13 /* after 12.3 */
};

typedef union cudaLaunchAttributeValue {
	char pad[64];
	struct {
		cudaEvent_t event;
		int flags;
	} launchCompletionEvent; /* programmaticEvent has another field after these */
	struct {
		int deviceUpdatable;
		void *devNode; /* out */
	} deviceUpdatableKernelNode;
} cudaLaunchAttributeValue;

typedef struct cudaLaunchAttribute {
	int id;
	char pad[4];
	cudaLaunchAttributeValue val;
} cudaLaunchAttribute;

typedef struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	cudaLaunchAttribute *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

typedef struct cudaLaunchParams { /* until CUDA 12 */
	void *func;
	dim3 gridDim, blockDim;
	void **args;
	size_t sharedMem;
	cudaStream_t stream;
} cudaLaunchParams;

typedef struct cudaKernelNodeParams {
	void *func;
	dim3 gridDim, blockDim;
	unsigned int sharedMemBytes;
	void **kernelParams;
	void **extra;
} cudaKernelNodeParams;

enum { cudaKernelFunctionTypeFunction = 3 };

typedef struct cudaKernelNodeParamsV2 {
	cudaKernelNodeParams kernel;
	void *ctx;        /* 13.1 */
	int functionType; /* after 13.1: what func is; reserved, and zero, before */
} cudaKernelNodeParamsV2;

typedef struct cudaPos {
	size_t x, y, z;
} cudaPos;

typedef struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	cudaPos srcPos;
	cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	cudaPos dstPos;
	cudaPitchedPtr dstPtr;
	cudaExtent extent;
	int kind;
} cudaMemcpy3DParms;

typedef struct cudaMemcpy3DPeerParms {
	cudaArray_t srcArray;
	cudaPos srcPos;
	cudaPitchedPtr srcPtr;
	int srcDevice;
	cudaArray_t dstArray;
	cudaPos dstPos;
	cudaPitchedPtr dstPtr;
	int dstDevice;
	cudaExtent extent;
} cudaMemcpy3DPeerParms;

enum { /* cudaMemRangeAttribute */
	cudaMemRangeAttributePreferredLocation = 2,
	cudaMemRangeAttributeAccessedBy = 3,
	cudaMemRangeAttributeLastPrefetchLocation = 4,
	cudaMemRangeAttributePreferredLocationType = 5, /* this and the next: 12.2 */
	cudaMemRangeAttributePreferredLocationId = 6,
	cudaMemRangeAttributeLastPrefetchLocationType = 7,
	cudaMemRangeAttributeLastPrefetchLocationId = 8
};

/* CUDA 13 has 64 reserved bytes more; nobody but the caller allocates it, and
 * the library writes these fields alone. */
typedef struct cudaPointerAttributes {
	int type;
	int device;
	void *devicePointer;
	void *hostPointer;
} cudaPointerAttributes;

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_DEINITIALIZED = 4,
       CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_NOT_SUPPORTED = 801, CUDA_ERROR_MPS_SERVER_NOT_READY = 807, CUDA_ERROR_UNKNOWN = 999 };
enum { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum {
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
	CU_MEM_LOCATION_TYPE_INVISIBLE = 5 /* 13.1; the last that is known here, and the others name no device */
};

typedef struct CUmemLocation { /* and cudaMemLocation */
	int type;
	int id; /* device ordinal */
} CUmemLocation;

typedef struct CUmemAllocationProp {
	int type;
	int requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType, gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;

typedef struct cudaMemPoolProps {
	int allocType, handleTypes;
	CUmemLocation location;
	unsigned char rest[72];
} cudaMemPoolProps;

enum { /* cudaMemPoolAttr, and CUmemPool_attribute */
	cudaMemPoolAttrReleaseThreshold = 4,
	cudaMemPoolAttrReservedMemCurrent = 5,
	cudaMemPoolAttrUsedMemCurrent = 7,
	cudaMemPoolAttrLocationId = 11, /* 13.2 */
	cudaMemPoolAttrLocationType = 12
};

typedef struct cudaMemcpyAttributes { /* 12.8, as all of cudaMemcpy3DBatchOp */
	int srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned int flags;
} cudaMemcpyAttributes;

enum { cudaMemcpyOperandTypePointer = 1, cudaMemcpyOperandTypeArray = 2 };

typedef struct cudaMemcpy3DOperand {
	int type;
	union {
		struct {
			void *ptr;
			size_t rowLength, layerHeight; /* elements */
			CUmemLocation locHint;
		} ptr;
		struct {
			cudaArray_t array;
			cudaPos offset; /* cudaOffset3D */
		} array;
	} op;
} cudaMemcpy3DOperand;

typedef struct cudaMemcpy3DBatchOp {
	cudaMemcpy3DOperand src, dst;
	cudaExtent extent;
	int srcAccessOrder;
	unsigned int flags;
} cudaMemcpy3DBatchOp;

typedef struct cudaMemAllocNodeParams {
	cudaMemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	void *dptr; /* out */
} cudaMemAllocNodeParams;

enum { /* cudaGraphNodeType */
	cudaGraphNodeTypeKernel = 0,
	cudaGraphNodeTypeWaitEvent = 6,
	cudaGraphNodeTypeEventRecord = 7,
	cudaGraphNodeTypeMemAlloc = 10,
	cudaGraphNodeTypeMemFree = 11
};

typedef struct cudaGraphNodeParams { /* 12.2 */
	int type;
	int reserved0[3];
	union {
		long long reserved1[29];
		cudaKernelNodeParamsV2 kernel;
		cudaEvent_t event; /* eventWait, eventRecord */
		cudaMemAllocNodeParams alloc;
		void *free;
	};
	long long reserved2;
} cudaGraphNodeParams;

typedef struct cudaGraphInstantiateParams { /* 12 */
	unsigned long long flags;
	cudaStream_t uploadStream;
	cudaGraphNode_t errNode_out;
	int result_out;
} cudaGraphInstantiateParams;

#ifdef __cplusplus
static_assert(sizeof(dim3) == 12 && sizeof(cudaLaunchConfig_t) == 56, "launch");
static_assert(sizeof(cudaKernelNodeParams) == 56 && sizeof(cudaPointerAttributes) == 24, "runtime structs");
static_assert(sizeof(CUmemAllocationProp) == 32 && sizeof(CUmemAccessDesc) == 12, "driver structs");
static_assert(sizeof(cudaLaunchAttribute) == 72 && offsetof(cudaLaunchAttribute, val) == 8, "launch attributes");
static_assert(sizeof(cudaLaunchParams) == 56 && offsetof(cudaLaunchParams, stream) == 48, "cudaLaunchParams");
static_assert(sizeof(cudaMemcpy3DParms) == 160 && offsetof(cudaMemcpy3DParms, kind) == 152, "cudaMemcpy3DParms");
static_assert(sizeof(cudaMemcpy3DPeerParms) == 168 && offsetof(cudaMemcpy3DPeerParms, srcDevice) == 64 &&
              offsetof(cudaMemcpy3DPeerParms, dstDevice) == 136, "cudaMemcpy3DPeerParms");
static_assert(sizeof(cudaMemPoolProps) == 88 && sizeof(cudaMemAllocNodeParams) == 120 &&
              offsetof(cudaMemAllocNodeParams, dptr) == 112, "cudaMemAllocNodeParams");
static_assert(sizeof(cudaGraphNodeParams) == 256 && offsetof(cudaGraphNodeParams, kernel) == 16 &&
              offsetof(cudaKernelNodeParamsV2, functionType) == 64, "cudaGraphNodeParams");
static_assert(sizeof(cudaMemcpyAttributes) == 24 && offsetof(cudaMemcpyAttributes, dstLocHint) == 12,
              "cudaMemcpyAttributes");
static_assert(sizeof(cudaMemcpy3DOperand) == 40 && offsetof(cudaMemcpy3DOperand, op.ptr.locHint) == 32 &&
              sizeof(cudaMemcpy3DBatchOp) == 112 && offsetof(cudaMemcpy3DBatchOp, dst) == 40, "cudaMemcpy3DBatchOp");
static_assert(sizeof(cudaGraphInstantiateParams) == 32, "cudaGraphInstantiateParams");
}
#endif
#endif
