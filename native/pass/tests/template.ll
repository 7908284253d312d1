; cudaMalloc<float> of the runtime's C++ interface.
;
; CHECK: launch of k: static
; CHECK: call void @case_static_begin(
; CHECK-NEXT: call i32 @case_static_malloc(ptr %case.task, ptr @_ZL10cudaMallocIfE9cudaErrorPPT_m, ptr %a, i64 %n)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @_ZL10cudaMallocIfE9cudaErrorPPT_m(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

define internal i32 @_ZL10cudaMallocIfE9cudaErrorPPT_m(ptr %p, i64 %n) {
  %e = call i32 @cudaMalloc(ptr %p, i64 %n)
  ret i32 %e
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
