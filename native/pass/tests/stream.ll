; A stream that is made before the allocations is made on the task's device.
;
; CHECK: launch of k: static
; CHECK: call void @case_static_begin(
; CHECK-NEXT: call i32 @cudaStreamCreate(ptr %s)
; CHECK: call i32 @cudaStreamDestroy(
; CHECK-NEXT: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %s = alloca ptr
  %c = call i32 @cudaStreamCreate(ptr %s)
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %t = load ptr, ptr %s
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr %t)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  %d = call i32 @cudaStreamDestroy(ptr %t)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaStreamCreate(ptr)
declare i32 @cudaStreamDestroy(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
