; cudaLaunchKernel, called by the program: the arguments are read from its array. The stub itself is
; not a function with launches.
;
; CHECK: launch of k: static
; CHECK-NOT: launch of
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(ptr %case.task, i64 {{.*}}, i64 4, i64 0, i32 128,
; CHECK: call i32 @cudaFree(
; CHECK-NEXT: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %x = load ptr, ptr %a
  %slot = alloca ptr
  %args = alloca [1 x ptr]
  store ptr %x, ptr %slot
  store ptr %slot, ptr %args
  %r = call i32 @cudaLaunchKernel(ptr @_Z16__device_stub__kPf, i64 4294967300, i32 1, i64 4294967424, i32 1, ptr %args, i64 0, ptr null)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

define void @_Z16__device_stub__kPf(ptr %p) {
  %slot = alloca ptr
  %args = alloca [1 x ptr]
  store ptr %p, ptr %slot
  store ptr %slot, ptr %args
  %r = call i32 @cudaLaunchKernel(ptr @_Z16__device_stub__kPf, i64 1, i32 1, i64 1, i32 1, ptr %args, i64 0, ptr null)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaLaunchKernel(ptr, i64, i32, i64, i32, ptr, i64, ptr)
