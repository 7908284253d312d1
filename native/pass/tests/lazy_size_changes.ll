; What the size is read from may be written after the first allocation.
;
; CHECK: remark: {{.*}}launch of m: lazy: the size of an allocation is not known where the task begins
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  %size = alloca i64
  store i64 64, ptr %size
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  call void @fill(ptr %size) nounwind
  %more = load i64, ptr %size
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %more)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  %y = load ptr, ptr %b
  call void @_Z16__device_stub__mPfS_(ptr %x, ptr %y)
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  %f2 = load ptr, ptr %b
  %g2 = call i32 @cudaFree(ptr %f2)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__mPfS_(ptr, ptr)
declare void @fill(ptr)
