; A call of a function that the module does not show: the task changes the device only where the
; program has no other use of one (flag 2). puts is known.
;
; CHECK: launch of k: static
; CHECK: launch of l: static
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(ptr %case.task, i64 {{.*}}, i64 4, i64 0, i32 128, i32 2,
; CHECK-LABEL: define void @g(
; CHECK: call void @case_static_begin(ptr %case.task, i64 {{.*}}, i64 4, i64 0, i32 128, i32 0,

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  call void @helper() nounwind
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

define void @g(i64 %n, ptr %s) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__lPf(ptr %x)
  %q = call i32 @puts(ptr %s) nounwind
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
declare void @_Z16__device_stub__lPf(ptr)
declare void @helper()
declare i32 @puts(ptr)
