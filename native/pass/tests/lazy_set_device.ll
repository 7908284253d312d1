; The program chooses a device while the task is open.
;
; CHECK: remark: {{.*}}launch of k: lazy: it is around a call of choose, which uses a device
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @choose() {
  %e = call i32 @cudaSetDevice(i32 1)
  ret void
}

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  call void @choose()
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
