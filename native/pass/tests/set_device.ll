; The program chooses a device itself, but not while the task is open. The module says so, and then
; the task stays on the thread's device, or on the one device that the lazy runtime shows.
;
; CHECK: remark: {{.*}}launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: call i32 @cudaSetDevice(i32 1)
; CHECK: call void @case_static_begin(
; CHECK: call void @case_static_elsewhere(i32 1)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @choose() {
  %e = call i32 @cudaSetDevice(i32 1)
  ret void
}

define void @f(i64 %n) {
  %a = alloca ptr
  %d = call i32 @cudaSetDevice(i32 1)
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaSetDevice(i32)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
