; libdevice.ll: functions that ask how precise they have to be as those of CUDA's libdevice do.
target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

@ftz = private unnamed_addr constant [11 x i8] c"__CUDA_FTZ\00", align 1
@roots = private unnamed_addr constant [17 x i8] c"__CUDA_PREC_SQRT\00", align 1

declare i32 @__nvvm_reflect(ptr)

define float @__nv_sqrtf(float %a) {
  %asked = call i32 @__nvvm_reflect(ptr @roots)
  %precise = icmp ne i32 %asked, 0
  br i1 %precise, label %rounds, label %approximates

rounds:
  %r = call float @__nv_fsqrt_rn(float %a)
  ret float %r

approximates:
  %x = call float @approximate(float %a)
  ret float %x
}

define internal float @approximate(float %a) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.sqrt.approx.ftz.f(float %a)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.sqrt.approx.f(float %a)
  ret float %k
}

define float @__nv_fsqrt_rn(float %a) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.sqrt.rn.ftz.f(float %a)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.sqrt.rn.f(float %a)
  ret float %k
}

define float @__nv_fmul_rn(float %a, float %b) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.mul.rn.ftz.f(float %a, float %b)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.mul.rn.f(float %a, float %b)
  ret float %k
}

define float @__nv_fadd_rn(float %a, float %b) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.add.rn.ftz.f(float %a, float %b)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.add.rn.f(float %a, float %b)
  ret float %k
}

define float @__nv_fdiv_rn(float %a, float %b) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.div.rn.ftz.f(float %a, float %b)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.div.rn.f(float %a, float %b)
  ret float %k
}

define float @__nv_frcp_rn(float %a) {
  %asked = call i32 @__nvvm_reflect(ptr @ftz)
  %flush = icmp ne i32 %asked, 0
  br i1 %flush, label %flushes, label %keeps

flushes:
  %f = call float @llvm.nvvm.rcp.rn.ftz.f(float %a)
  ret float %f

keeps:
  %k = call float @llvm.nvvm.rcp.rn.f(float %a)
  ret float %k
}

define float @__nv_rintf(float %a) {
  %r = call float @llvm.nvvm.round.f(float %a)
  ret float %r
}

define double @__nv_dmul_rn(double %a, double %b) {
  %r = call double @llvm.nvvm.mul.rn.d(double %a, double %b)
  ret double %r
}

declare double @llvm.nvvm.mul.rn.d(double, double)
declare float @llvm.nvvm.add.rn.f(float, float)
declare float @llvm.nvvm.add.rn.ftz.f(float, float)
declare float @llvm.nvvm.div.rn.f(float, float)
declare float @llvm.nvvm.div.rn.ftz.f(float, float)
declare float @llvm.nvvm.mul.rn.f(float, float)
declare float @llvm.nvvm.mul.rn.ftz.f(float, float)
declare float @llvm.nvvm.rcp.rn.f(float)
declare float @llvm.nvvm.rcp.rn.ftz.f(float)
declare float @llvm.nvvm.round.f(float)
declare float @llvm.nvvm.sqrt.approx.f(float)
declare float @llvm.nvvm.sqrt.approx.ftz.f(float)
declare float @llvm.nvvm.sqrt.rn.f(float)
declare float @llvm.nvvm.sqrt.rn.ftz.f(float)
