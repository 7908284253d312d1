; A launch on the caller's memory is among the operations of a task.
;
; CHECK: remark: {{.*}}launch of k: lazy: operations that are left to the lazy runtime are among its own
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, ptr %v) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p1 = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__lPf(ptr %v)
  %p2 = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x2 = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x2)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
declare void @_Z16__device_stub__lPf(ptr)
