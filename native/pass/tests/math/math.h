// math.h: as much of CUDA's mathematical functions as the first expressions need, on libdevice.ll.
#include "../bare/cuda.h"

extern "C" {
__device__ float __nv_sqrtf(float);
__device__ float __nv_fsqrt_rn(float);
__device__ float __nv_fmul_rn(float, float);
__device__ float __nv_fadd_rn(float, float);
__device__ float __nv_fdiv_rn(float, float);
__device__ float __nv_frcp_rn(float);
__device__ float __nv_rintf(float);
__device__ double __nv_dmul_rn(double, double);
}

#define sqrtf __nv_sqrtf
#define __fsqrt_rn __nv_fsqrt_rn
#define __fmul_rn __nv_fmul_rn
#define __fadd_rn __nv_fadd_rn
#define __fdiv_rn __nv_fdiv_rn
#define __frcp_rn __nv_frcp_rn
#define __dmul_rn __nv_dmul_rn
#define rintf __nv_rintf
#define fmaf __builtin_fmaf
